"""Texts that a model's vocabulary takes for more than text, kept from being so in what people write.

llama.cpp reads a rendered prompt as a whole, the template's own markers with what users say: there
`<start_of_turn>`, `</s>` or `<file_sep>` would be one token, as if the template had written it. Sans-IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_MARKER: Final = "<|"
"""Harmony's markers begin so, and their like in other families: nothing that a user should write."""
# Types of tokens, in GGUF's numbers.
_UNKNOWN: Final = 2
_CONTROL: Final = 3
_USER_DEFINED: Final = 4


class SpecialTexts:
    """The special texts of one model. White space alone is none."""

    def __init__(self, texts: Iterable[str]) -> None:
        every = {text for text in (_MARKER, *texts) if text.strip()}
        # A space behind the first letter takes nearly all of them apart; the others are taken out whole. So
        # there is an end: each that goes takes a letter with it, and no letter gets a second space.
        whole = {text for text in every if len(text) == 1 or " " in text[:2]}
        self._texts = frozenset(every - whole)
        self._whole = re.compile("|".join(map(re.escape, sorted(whole, key=len, reverse=True))))
        # There may be thousands, of few lengths, and nearly all begin with the same letter.
        self._lengths = sorted({len(text) for text in self._texts})
        first = {re.escape(text[0]) for text in self._texts}
        self._begin = re.compile(f"[{''.join(first)}]")

    def defused(self, text: str) -> str:
        """Return a text with a space in each special text, so that it is read letter by letter."""
        before = ""
        # What is taken apart might make another one.
        while text != before:
            before = text
            if self._whole.pattern:
                text = self._whole.sub("", text)
            text = self._begin.sub(self._apart, text)
        return text

    def _apart(self, begin: re.Match[str]) -> str:
        at, text = begin.start(), begin.string
        parts = (text[at : at + length] for length in self._lengths)
        return f"{begin[0]} " if any(part in self._texts for part in parts) else begin[0]


def special_texts(tokens: Sequence[bytes], types: Sequence[int], template: str) -> SpecialTexts:
    """Return the special texts of a vocabulary: control tokens, and others that its chat template writes.

    Not all that the vocabulary's makers have added: there are line breaks, runs of spaces and HTML in it.
    """
    texts = [token.decode(errors="replace") for token in tokens]
    return SpecialTexts(
        text
        for text, kind in zip(texts, types, strict=False)
        if kind in (_CONTROL, _UNKNOWN) or (kind == _USER_DEFINED and text in template)
    )
