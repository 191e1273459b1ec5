"""A prompt's tokens, gathered piece by piece: so many at most. Of a longer prompt their number is enough.

Making the list holds the interpreter's lock, and takes memory; counting does neither.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from service.dialect.base import PromptTooLong
from service.dialect.harmony.vocabulary import count, encode

_MAX_CHARACTER_BYTES: Final = 4
"""Of UTF-8; no token is less than a byte."""


class PromptTokens:
    """Gathers tokens."""

    def __init__(self, max_tokens: int = sys.maxsize) -> None:
        """`max_tokens`: texts beyond are only counted."""
        self._max_tokens = max_tokens
        self._count = 0
        self._tokens: list[int] = []

    def add(self, tokens: Sequence[int]) -> None:
        """Take control tokens, or others that are tokens already."""
        self._count += len(tokens)
        self._tokens += tokens

    def add_text(self, text: str) -> None:
        """Take the tokens of a text."""
        room = self._max_tokens - self._count
        most = len(text) if text.isascii() else _MAX_CHARACTER_BYTES * len(text)
        if most > room and (number := count(text)) > room:
            self._count += number
        else:
            self.add(encode(text))

    def taken(self) -> list[int]:
        """Return the tokens. Raises PromptTooLong where they are too many."""
        if self._count > self._max_tokens:
            raise PromptTooLong(self._count)
        return self._tokens
