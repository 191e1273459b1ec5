"""JSON text to Python values and back, within limits.

What is refused here need not be looked for elsewhere: text that is not UTF-8, NaN and Infinity, numbers
beyond a double, unpaired surrogates, nesting that could exhaust the stack, and more values than memory and
time are there for. The limits are looked at first, with no step of Python for each byte.

The values are those of the `json` module. Where every digit of a number counts, the text is read once more,
to numbers that know how they were written: slower, and seldom needed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from service.errors import InvalidRequest
from service.wire.json_bare import bare_slices

MAX_NESTING_LEVELS = 64
"""Deepest nesting of arrays and objects that is read, in levels. What is read stays within protobuf's own
limit of 100 messages in one another."""
MAX_VALUES = 500_000
"""Most values of a document, empty arrays and objects counted twice: some 100 ms and 100 MiB."""

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_AS_ARRAYS = bytes.maketrans(b"{}", b"[]")
# Numbers that may not be printed as they were written, in text without strings.
_FRACTION = re.compile(rb"[0-9][.eE]")
_NEGATIVE_ZERO = re.compile(rb"-0(?![.eE])")

_INT64_SAFE_CHARS = 18  # "-" and 17 digits, or 18 digits: always within 64 bits


@dataclass(frozen=True, slots=True)
class Number:
    """A number that is to be printed as it was written: `1.50`, `1e3`, `-0`, integers beyond 64 bits."""

    text: str
    value: float

    @classmethod
    def of(cls, text: str) -> Number:
        """Read a number of JSON's grammar."""
        return cls(text, float(text))

    @property
    def integer(self) -> int | None:
        """The number as an integer, None when it has a fraction."""
        if self.text.lstrip("-").isdecimal():
            return int(self.text)
        return int(self.value) if self.value.is_integer() else None


JsonValue: TypeAlias = "bool | int | float | Number | str | list[JsonValue] | dict[str, JsonValue] | None"


class DigitsNeeded(Exception):
    """A value cannot be used as `parse` has read it: it takes `parse_exactly`."""


def parse(data: bytes) -> JsonValue:
    """Read one JSON document. Of an object's repeated keys the last wins.

    Raises:
        InvalidRequest: with code `invalid_json`, when it is not JSON or is beyond the limits.

    """
    bare = _within_limits(data)
    try:
        value: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _no_json(data, error) from None
    # It has become 0, and nothing shows it any more.
    return parse_exactly(data) if _NEGATIVE_ZERO.search(bare) else value


def parse_exactly(data: bytes) -> JsonValue:
    """Read a document that `parse` has read, with a `Number` where a number would be printed another way."""
    value: JsonValue = _DECODER.decode(data.decode())
    return value


def compact(value: JsonValue) -> str:
    """Print a parsed value without white space: keys in their order, numbers as they were written.

    Raises:
        DigitsNeeded: it has numbers of which that is not known.

    """
    are_exact = False

    def print_number(value: object) -> orjson.Fragment:
        nonlocal are_exact
        assert isinstance(value, Number)
        are_exact = True
        return orjson.Fragment(value.text)

    text = orjson.dumps(value, default=print_number, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    if not are_exact and _has_fraction(text):
        raise DigitsNeeded
    return text.decode()


def embed(text: str) -> orjson.Fragment:
    """Make JSON text part of what orjson prints, byte for byte, except that it stays on one line.

    Raises:
        ValueError: when it is not JSON.

    """
    orjson.loads(text)
    # JSON has line breaks only between tokens, where a space means the same.
    return orjson.Fragment(text.replace("\n", " ").replace("\r", " "))


def _has_fraction(text: bytes) -> bool:
    last = b""
    for piece in bare_slices(text):
        if _FRACTION.search(last + piece):
            return True
        last = piece[-1:]
    return False


def _within_limits(data: bytes) -> bytes:
    """Return a document without its strings. Raises InvalidRequest where it is beyond the limits."""
    pieces: list[bytes] = []
    brackets = bytearray()
    commas = opened = 0
    for piece in bare_slices(data):
        found = piece.translate(_AS_ARRAYS, _NOT_BRACKETS)
        pieces.append(piece)
        brackets += found
        opened += found.count(b"[")
        commas += piece.count(b",")
        # Every value but the first has a comma or a bracket of its own before it; brackets come in pairs.
        if max(commas + opened, len(brackets) - opened) > MAX_VALUES:
            raise _invalid(f"holds more than {MAX_VALUES} values: send less, or long data as one string")
    for _ in range(MAX_NESTING_LEVELS):
        # One level less each time, until none is closed.
        before, brackets = brackets, brackets.replace(b"[]", b"")
        if len(brackets) == len(before):
            break
    if b"[]" in brackets:
        raise _invalid(f"is nested deeper than {MAX_NESTING_LEVELS} levels, which is the limit")
    return b"".join(pieces)


def _no_json(data: bytes, error: json.JSONDecodeError) -> InvalidRequest:
    try:
        data.decode()
    except UnicodeDecodeError as fault:
        return _invalid(f"is not UTF-8 at byte {fault.start}")
    return _invalid(f"is not JSON: {error.msg} at line {error.lineno} column {error.colno}")


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(f"The body {problem}.", code="invalid_json")


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= _INT64_SAFE_CHARS and text != "-0" else Number.of(text)


_DECODER = json.JSONDecoder(parse_float=Number.of, parse_int=_integer)
