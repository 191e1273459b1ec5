"""Each rule of json.proto, on a contract made for the purpose: what is printed, and how it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.protobuf import text_format

from service.errors import InvalidRequest
from service.wire.openai_json import check, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

# What is printed, and read back as the same message: (type, message as text, JSON).
BOTH_WAYS = [
    # 2. Plain scalars always; int64 is a number, an integral double an integer.
    ("Plain", "", '{"text":"","flag":false,"count":0,"big":0,"ratio":0,"size":0}'),
    (
        "Plain",
        'text: "é\\u20ac😀\\"\\\\\\n\\0" count: -2147483648 big: 9223372036854775807 size: 4294967295',
        (
            '{"text":"é€😀\\"\\\\\\n\\u0000","flag":false,"count":-2147483648,"big":9223372036854775807,"ratio":0,'
            '"size":4294967295}'
        ),
    ),
    ("Plain", "flag: true ratio: 0.1", '{"text":"","flag":true,"count":0,"big":0,"ratio":0.1,"size":0}'),
    ("Plain", "ratio: 3", '{"text":"","flag":false,"count":0,"big":0,"ratio":3,"size":0}'),
    ("Plain", "ratio: 1e300", '{"text":"","flag":false,"count":0,"big":0,"ratio":1e+300,"size":0}'),
    # 3. Optional scalars and messages when set; else left out, or null.
    ("Maybe", "", "{}"),
    ("Maybe", 'text: "" flag: false count: 0', '{"text":"","flag":false,"count":0}'),
    ("Null", "", '{"text":null,"plain":null,"color":null,"words":null,"labels":null}'),
    (
        "Null",
        'text: "" plain {} color: COLOR_RED words: "" labels { key: "" value: "" }',
        (
            '{"text":"","plain":{"text":"","flag":false,"count":0,"big":0,"ratio":0,"size":0},'
            '"color":"red","words":[""],"labels":{"":""}}'
        ),
    ),
    # 4. Repeated and map fields always, unless omit_when_empty.
    ("Many", "", '{"words":[],"items":[],"labels":{}}'),
    (
        "Many",
        'words: "a" words: "" items {} items { count: 0 } labels { key: "b" } labels { key: "a" value: "1" }',
        '{"words":["a",""],"items":[{},{"count":0}],"labels":{"a":"1","b":""}}',
    ),
    ("ManyOmitted", "", "{}"),
    (
        "ManyOmitted",
        'words: "a" values { key: "c" value { color: COLOR_RED } } values { key: "d" value { count: 0 } }',
        '{"words":["a"],"values":{"c":"red","d":0}}',
    ),
    # 5. Raw JSON.
    ("Raw", "", "{}"),
    (
        "Raw",
        r"""schema: '{"z":1,"a":123456789012345678901234567890,"f":[1.0,1.50,1E5,-0,0.30000000000000004]}'""",
        '{"schema":{"z":1,"a":123456789012345678901234567890,"f":[1.0,1.50,1E5,-0,0.30000000000000004]}}',
    ),
    ("Raw", "schema: '[-0]'", '{"schema":[-0]}'),
    ("RawAlways", "", '{"arguments":null}'),
    ("RawAlways", "arguments: '\"\"'", '{"arguments":""}'),
    ("Raw", "schema: 'true' documents: '[]' documents: '\"\"'", '{"schema":true,"documents":[[],""]}'),
    # 6. Tagged unions: type first and once, then what stands beside the oneof.
    ("Event", 'type: "text.delta" delta { delta: "a" }', '{"type":"text.delta","number":0,"delta":"a"}'),
    ("Event", 'type: "nothing" number: 7 nothing {}', '{"type":"nothing","number":7}'),
    ("Event", 'type: "typed" typed { text: "a" }', '{"type":"typed","number":0,"text":"a"}'),
    ("Typed", 'text: "a"', '{"type":"typed","text":"a"}'),
    (
        "Item",
        """unknown { type: "new" json: '{"b":1.0,"type":"new","a":[]}' }""",
        '{"b":1.0,"type":"new","a":[]}',
    ),
    ("Item", "tree { children { tree {} } }", '{"type":"tree","children":[{"type":"tree","children":[]}]}'),
    # 7. Bare unions.
    ("Input", 'text: ""', '""'),
    ("Input", "items {}", "[]"),
    ("Input", "items { items { message {} } }", '[{"type":"message"}]'),
    ("Input", "item { message { content { number: 0 } } }", '{"type":"message","content":0}'),
    ("Input", "number: 1.5", "1.5"),
    ("Input", "flag: false", "false"),
    # 8. Enums.
    ("Paint", "", "{}"),
    ("Paint", "color: COLOR_RED trim: COLOR_DARK_BLUE", '{"color":"red","trim":"dark_blue"}'),
]


@pytest.mark.parametrize(("name", "text", "json"), BOTH_WAYS)
def test_a_message_is_printed_and_read_back(
    contract: Callable[[str], type[Message]], name: str, text: str, json: str
) -> None:
    message = text_format.Parse(text, contract(name)())
    check(message)
    assert encode(message).decode() == json
    assert decode(contract(name), json.encode()) == message


# What is read as if it were the second JSON: (type, JSON, the same as).
READ_AS = [
    # 9. Null counts as absent, unknown keys are ignored.
    ("Maybe", '{"text":null,"plain":null,"extra":{"text":1}}', "{}"),
    ("Many", '{"words":null,"labels":null}', "{}"),
    ("Event", '{"type":"nothing","number":null}', '{"type":"nothing"}'),
    # Of repeated keys the last wins.
    ("Maybe", '{"count":"x","count":1}', '{"count":1}'),
    ("Maybe", '{"count":1,"count":null}', "{}"),
    ("Many", '{"words":["a"],"words":["b"]}', '{"words":["b"]}'),
    # An integer in whatever spelling.
    ("Plain", '{"count":1.0,"big":-9.223372036854775808e18}', '{"count":1,"big":-9223372036854775808}'),
    ("Plain", '{"count":2e2,"ratio":1}', '{"count":200,"ratio":1.0}'),
    ("Plain", '{"count":-0}', "{}"),
    # A tagged object without `type` is a message where there is one.
    ("Item", '{"content":"a"}', '{"type":"message","content":"a"}'),
    ("Item", '{"type":null,"content":"a"}', '{"type":"message","content":"a"}'),
    # `type` is not needed, where it can only be one.
    ("Typed", '{"text":"a"}', '{"type":"typed","text":"a"}'),
    # Raw JSON loses its white space and no more.
    ("Raw", '{"schema": {"b" :\n[1.10,\t2 ],"\\u0061":"\\u00e9"} }', '{"schema":{"b":[1.10,2],"a":"é"}}'),
    ("Raw", '{"schema":null}', "{}"),
    ("RawAlways", '{"arguments":null}', "{}"),
    ("Plain", ' {"text":"\\ud83d\\ude00"} \n', '{"text":"😀"}'),
]


@pytest.mark.parametrize(("name", "json", "same_as"), READ_AS)
def test_json_is_read_as_if_it_were(
    contract: Callable[[str], type[Message]], name: str, json: str, same_as: str
) -> None:
    assert decode(contract(name), json.encode()) == decode(contract(name), same_as.encode())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Plain", "ratio: nan"),
        ("Plain", "ratio: inf"),
        ("Plain", "ratio: -inf"),
        ("Raw", "schema: '{'"),
        ("Raw", "schema: '1,\"text\":2'"),
        ("Paint", "color: 9"),
        ("Event", 'type: "nothing"'),
        ("Raw", "documents: 'true' documents: '{'"),
        ("Value", "color: COLOR_UNSPECIFIED"),
        ("Input", ""),
        ("Item", "unknown {}"),
    ],
)
def test_a_message_without_json_is_not_printed(
    contract: Callable[[str], type[Message]], name: str, text: str
) -> None:
    message = text_format.Parse(text, contract(name)())
    with pytest.raises(ValueError, match=r"^openresponses\.v1\.\w+"):
        encode(message)
    with pytest.raises(InvalidRequest):
        check(message)


def test_raw_json_that_is_empty_is_printed_as_null(contract: Callable[[str], type[Message]]) -> None:
    message = contract("Raw")(documents=["", "1"])
    check(message)
    assert encode(message) == b'{"documents":[null,1]}'


def test_raw_json_is_printed_on_one_line(contract: Callable[[str], type[Message]]) -> None:
    message = contract("Raw")(schema='{\r\n "a": "\\n"\n}')
    assert encode(message) == b'{"schema":{   "a": "\\n" }}'


def test_the_tag_is_printed_from_the_member(contract: Callable[[str], type[Message]]) -> None:
    message = text_format.Parse('type: "stale" nothing {}', contract("Event")())
    assert encode(message) == b'{"type":"nothing","number":0}'
