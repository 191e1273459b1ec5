"""Wrong values are refused by their path, and what is not JSON without showing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.errors import InvalidRequest
from service.wire.openai_json import decode
from tests.unit.made_contract import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

INT32 = "an integer from -2147483648 to 2147483647"

# What is refused: (type, JSON, param, message, code).
REFUSED = [
    ("Plain", "[]", None, "The body must be an object, not an array.", "invalid_type"),
    ("Plain", "null", None, "The body must be an object, not null.", "invalid_type"),
    ("Plain", '{"text":1}', "text", "text must be a string, not a number.", "invalid_type"),
    ("Plain", '{"text":{}}', "text", "text must be a string, not an object.", "invalid_type"),
    ("Plain", '{"flag":0}', "flag", "flag must be a boolean, not a number.", "invalid_type"),
    ("Plain", '{"count":true}', "count", "count must be an integer, not a boolean.", "invalid_type"),
    ("Plain", '{"count":"1"}', "count", "count must be an integer, not a string.", "invalid_type"),
    (
        "Plain",
        '{"count":1.5}',
        "count",
        "count must be an integer, not a number with a fraction.",
        "invalid_type",
    ),
    ("Plain", '{"count":2147483648}', "count", f"count must be {INT32}.", "invalid_value"),
    ("Plain", '{"count":1e300}', "count", f"count must be {INT32}.", "invalid_value"),
    ("Plain", '{"big":9223372036854775808}', "big", None, "invalid_value"),
    ("Plain", '{"size":-1}', "size", "size must be an integer from 0 to 4294967295.", "invalid_value"),
    ("Plain", '{"ratio":false}', "ratio", "ratio must be a number, not a boolean.", "invalid_type"),
    ("Many", '{"words":"a"}', "words", "words must be an array, not a string.", "invalid_type"),
    ("Many", '{"words":["a",null]}', "words[1]", "words[1] must be a string, not null.", "invalid_type"),
    ("Many", '{"items":[null]}', "items[0]", "items[0] must be an object, not null.", "invalid_type"),
    ("Many", '{"labels":{"a":1}}', "labels.a", "labels.a must be a string, not a number.", "invalid_type"),
    ("Many", '{"labels":{"a":null}}', "labels.a", "labels.a must be a string, not null.", "invalid_type"),
    (
        "Many",
        '{"labels":{"a b\\n":1}}',
        "labels[*]",
        "labels[*] must be a string, not a number.",
        "invalid_type",
    ),
    ("Many", '{"labels":[]}', "labels", "labels must be an object, not an array.", "invalid_type"),
    ("Request", '{"plains":{"a":{"count":""}}}', "plains.a.count", None, "invalid_type"),
    ("Paint", '{"color":"green"}', "color", "color must be one of red, dark_blue.", "unknown_value"),
    ("Paint", '{"color":"unspecified"}', "color", None, "unknown_value"),
    ("Paint", '{"color":1}', "color", "color must be a string, not a number.", "invalid_type"),
    ("Typed", '{"type":"other"}', "type", "type must be one of typed.", "unknown_value"),
    ("Event", '{"type":"other"}', "type", "type must be one of text.delta, nothing, typed.", "unknown_value"),
    (
        "Event",
        "{}",
        "type",
        "type is missing; it must be one of text.delta, nothing, typed.",
        "unknown_value",
    ),
    ("Event", '{"type":1}', "type", "type must be a string, not a number.", "invalid_type"),
    ("Event", '{"type":"nothing","number":""}', "number", None, "invalid_type"),
    ("Event", '{"type":"text.delta","delta":[]}', "delta", None, "invalid_type"),
    ("Item", "[]", None, "The body must be an object, not an array.", "invalid_type"),
    ("Input", "null", None, None, "invalid_type"),
    ("Value", "[]", None, "The body must be a number or a string, not an array.", "invalid_type"),
    (
        "Request",
        '{"items":[{"type":"new"},{"content":[{"content":{"type":"tree","children":[{"content":null},7]}}]}]}',
        "items[1].content[0].content.children[1]",
        "items[1].content[0].content.children[1] must be an object, not a number.",
        "invalid_type",
    ),
]


@pytest.mark.parametrize(("name", "json", "param", "message", "code"), REFUSED)
def test_a_wrong_value_is_named_by_its_path(
    contract: Callable[[str], type[Message]],
    name: str,
    json: str,
    param: str | None,
    message: str | None,
    code: str,
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        decode(contract(name), json.encode())
    assert (caught.value.param, caught.value.code) == (param, code)
    assert message in (None, caught.value.message)


NOT_JSON: list[bytes] = [
    b"",
    b"{",
    b'{"text":"secret}',
    b'{"text":secret}',
    b"{'text':1}",
    b'{"text":"a"} {}',
    b'{"ratio":NaN}',
    b'{"ratio":Infinity}',
    b'{"ratio":-Infinity}',
    b'{"ratio":1e999}',
    b'{"ratio":' + b"9" * 400 + b"}",
    b'{"ratio":01}',
    b'{"text":"\n"}',
    b'{"text":"\\ud800"}',
    b'{"\\udc00":"a"}',
    b'{"text":"\xff"}',
    b'{"text":"\xed\xa0\x80"}',
    b'\xef\xbb\xbf{"text":"a"}',
    '{"text":"a"}'.encode("utf-16"),
]


@pytest.mark.parametrize("data", NOT_JSON)
def test_what_is_not_json_is_refused_without_showing_it(
    contract: Callable[[str], type[Message]], data: bytes
) -> None:
    with pytest.raises(InvalidRequest, match=r"^The body is not (JSON|UTF-8)[ -~]*\.$") as caught:
        decode(contract("Plain"), data)
    assert (caught.value.param, caught.value.code) == (None, "invalid_json")
    assert "secret" not in caught.value.message


def test_long_lists_of_accepted_values_are_cut(tmp_path: Path) -> None:
    values = " ".join(f"LETTER_A{number} = {number};" for number in range(31))
    messages = f"enum Letter {{ {values} }} message Word {{ Letter letter = 1; }}"
    text = f'syntax = "proto3"; package openresponses.v1.test; {messages}'
    with pytest.raises(InvalidRequest, match=r"^letter must be one of (a\d+, ){11}a12 or 18 more\.$"):
        decode(load(text, tmp_path)("Word"), b'{"letter":"x"}')
