"""JSON without its strings is the same however it is cut."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.wire import json_bare
from service.wire.json_bare import bare_slices
from service.wire.json_text import DigitsNeeded, compact
from tests.property.json_values import JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
# Texts that are hard to tell the end of, beside any.
VALUES = st.lists(JSON | st.text('\\"[,{a\n', max_size=8), max_size=6)


@contextmanager
def slices_of(size_bytes: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_bare, "SLICE_BYTES", size_bytes)
        yield


def cut(text: bytes, size_bytes: int) -> bytes:
    with slices_of(size_bytes):
        return b"".join(bare_slices(text))


@given(VALUES, st.booleans(), st.integers(1, 12))
def test_strings_are_left_out_wherever_it_is_cut(value: Any, ascii_only: bool, size_bytes: int) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert cut(text, size_bytes) == STRING.sub(b"", text)


@given(st.binary(max_size=20) | st.text('\\"[1', max_size=20).map(str.encode), st.integers(1, 12))
def test_anything_may_be_cut(data: bytes, size_bytes: int) -> None:
    assert cut(data, size_bytes) == cut(data, len(data) + 1)


@pytest.mark.parametrize("before", range(12))
def test_a_fraction_is_found_wherever_it_is_cut(before: int) -> None:
    with slices_of(10):
        compact(["1.5"] * before)
        with pytest.raises(DigitsNeeded):
            compact([0] * before + [1.5])
