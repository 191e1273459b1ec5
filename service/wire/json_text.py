"""JSON text to Python values and back, within limits, keeping every digit of every number.

The values are those of the `json` module, except that a number that `int` or `float` would print another
way is a `Number`. What is refused here need not be looked for elsewhere: text that is not UTF-8, NaN and
Infinity, numbers beyond a double, unpaired surrogates, and nesting that could exhaust the stack.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import orjson

from service.errors import InvalidRequest

MAX_NESTING_LEVELS = 64
"""Deepest nesting of arrays and objects that is read, in levels. What is read stays within protobuf's own
limit of 100 messages in one another."""

# The quote at the end is optional so that an unfinished string costs one pass, not one for each quote in it.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

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


JsonValue: TypeAlias = "bool | int | Number | str | list[JsonValue] | dict[str, JsonValue] | None"


def parse(data: bytes) -> JsonValue:
    """Read one JSON document. Of an object's repeated keys the last wins.

    Raises:
        InvalidRequest: with code `invalid_json`, when it is not JSON or is nested too deep.

    """
    levels = max(
        accumulate(_STEP[byte] for byte in _STRING.sub(b"", data).translate(None, _NOT_BRACKETS)), default=0
    )
    if levels > MAX_NESTING_LEVELS:
        raise _invalid(f"is nested {levels} levels deep; {MAX_NESTING_LEVELS} is the limit")
    try:
        text = data.decode()
        orjson.loads(data)  # the stricter of the two; the other keeps the digits
        value: JsonValue = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise _invalid(f"is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise _invalid(f"is not JSON: {error.msg} at {where}") from None
    return value


def compact(value: JsonValue) -> str:
    """Print a parsed value without white space: keys in their order, numbers as they were written."""
    return orjson.dumps(value, default=_print_number, option=orjson.OPT_PASSTHROUGH_DATACLASS).decode()


def embed(text: str) -> orjson.Fragment:
    """Make JSON text part of what orjson prints, byte for byte, except that it stays on one line.

    Raises:
        ValueError: when it is not JSON.

    """
    orjson.loads(text)
    # JSON has line breaks only between tokens, where a space means the same.
    return orjson.Fragment(text.replace("\n", " ").replace("\r", " "))


def _invalid(problem: str) -> InvalidRequest:
    return InvalidRequest(f"The body {problem}.", code="invalid_json")


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= _INT64_SAFE_CHARS and text != "-0" else Number.of(text)


def _print_number(value: object) -> orjson.Fragment:
    assert isinstance(value, Number)
    return orjson.Fragment(value.text)


_DECODER = json.JSONDecoder(parse_float=Number.of, parse_int=_integer)
