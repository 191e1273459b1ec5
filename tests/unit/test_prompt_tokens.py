"""A prompt's tokens are all gathered, or counted to the last one: beyond the limit no list of them is made."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.dialect.base import PromptTooLong
from service.dialect.harmony import vocabulary
from service.dialect.harmony.prompt_tokens import PromptTokens
from tests.unit.test_vocabulary import TEXTS

PIECES = st.lists(TEXTS | st.integers(vocabulary.FIRST_SPECIAL, vocabulary.CALL))


def gathered(pieces: list[str | int], max_tokens: int) -> list[int]:
    prompt = PromptTokens(max_tokens)
    for piece in pieces:
        if isinstance(piece, str):
            prompt.add_text(piece)
        else:
            prompt.add([piece])
    return prompt.taken()


@given(PIECES, st.integers(0, 100))
def test_all_are_gathered_or_all_are_counted(pieces, max_tokens):
    whole = [t for p in pieces for t in (vocabulary.encode(p) if isinstance(p, str) else [p])]
    assert gathered(pieces, max(max_tokens, len(whole))) == whole
    if len(whole) > max_tokens:
        with pytest.raises(PromptTooLong) as caught:
            gathered(pieces, max_tokens)
        assert caught.value.tokens == len(whole)


@pytest.mark.parametrize("pieces", [["word " * 400_000], ["word " * 40] * 10_000])
def test_what_is_too_long_takes_no_memory(pieces):
    tracemalloc.start()
    try:
        with pytest.raises(PromptTooLong):
            gathered(pieces, 1000)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A list of these tokens would take 8 bytes for each.
    assert peak_bytes < 400_000
