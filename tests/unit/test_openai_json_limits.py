"""How deep and how large JSON may be, and what reading it may cost: hostile bodies are refused at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from service.errors import InvalidRequest
from service.wire import json_text
from service.wire.json_text import MAX_NESTING_LEVELS, MAX_VALUES, parse_exactly
from service.wire.openai_json import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message


def tower(levels: int) -> bytes:
    """A `Raw` of so many levels, with brackets in a string that are none."""
    inner = (levels - 1) // 2
    odd = (levels - 1) % 2
    return b'{"schema":' + b"[" * odd + b'[{"\\"[":' * inner + b'"[{\\\\"' + b"}]" * inner + b"]" * odd + b"}"


def test_nesting_is_limited(contract: Callable[[str], type[Message]]) -> None:
    deepest = tower(MAX_NESTING_LEVELS)
    message = decode(contract("Raw"), deepest)
    assert encode(message) == deepest
    with pytest.raises(InvalidRequest, match="nested deeper than 64 levels") as caught:
        decode(contract("Raw"), tower(MAX_NESTING_LEVELS + 1))
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize(
    "data", [b"[" * 10**6, b'{"a":' * 10**6, b'"' + b'\\"[' * 10**6, b"[" * 64 + b'"' * 10**6]
)
def test_hostile_bodies_are_refused_at_once(contract: Callable[[str], type[Message]], data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode(contract("Raw"), data)


# One value or pair of an unknown key, and how many values it is.
FILLINGS = [
    (b"1.0", 1),
    (b"[]", 2),
    (b'"a"', 1),
    (b'"\\""', 1),
    (b'{"a":1}', 2),
    (b"[[],[]]", 5),
    (b'"[,{"', 1),
]


@pytest.mark.parametrize(("filling", "values"), FILLINGS)
def test_values_are_limited(contract: Callable[[str], type[Message]], filling: bytes, values: int) -> None:
    # The object and the array.
    room = (MAX_VALUES - 2) // values

    def document(count: int) -> bytes:
        return b'{"a":[' + b",".join([filling] * count) + b"]}"

    assert decode(contract("Empty"), document(room)) == contract("Empty")()
    with pytest.raises(InvalidRequest, match=f"holds more than {MAX_VALUES} values") as caught:
        decode(contract("Empty"), document(room + 2))
    assert caught.value.code == "invalid_json"


def test_text_is_no_value(contract: Callable[[str], type[Message]]) -> None:
    text = '[{,"' * MAX_VALUES
    assert decode(contract("Plain"), json.dumps({"text": text}).encode()) == contract("Plain")(text=text)


@pytest.mark.parametrize(
    "data", [b'"' * 8 * MAX_VALUES, b"]" * 10**6, b"[]" * 10**6, b'"",' * 3 * MAX_VALUES]
)
def test_what_is_no_document_is_refused_before_it_is_read(
    contract: Callable[[str], type[Message]], data: bytes
) -> None:
    with pytest.raises(InvalidRequest):
        decode(contract("Plain"), data)


def test_digits_are_looked_at_only_where_they_are_kept(
    contract: Callable[[str], type[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = []
    monkeypatch.setattr(json_text, "parse_exactly", lambda data: exact.append(data) or parse_exactly(data))
    decode(contract("Plain"), b'{"ratio":0.1,"count":7,"extra":[1.0,1e5]}')
    decode(contract("Raw"), b'{"schema":{"a":[1,"1.0"]},"extra":1.0}')
    assert exact == []
    decode(contract("Raw"), b'{"schema":[1.0]}')
    decode(contract("Plain"), b'{"count":7.0}')
    assert len(exact) == 2


def test_messages_as_deep_as_the_limit_allows_are_read_and_printed(
    contract: Callable[[str], type[Message]],
) -> None:
    inner = MAX_NESTING_LEVELS // 2
    json = b'{"type":"tree","children":[' * inner + b"]}" * inner
    message = decode(contract("Item"), json)
    assert encode(message) == json
    assert contract("Item").FromString(message.SerializeToString()) == message
