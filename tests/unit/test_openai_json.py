"""Each rule of json.proto, on a contract made for the purpose."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from grpc_tools import protoc

from service.errors import InvalidRequest
from service.wire import json_text
from service.wire.json_text import MAX_NESTING_LEVELS, MAX_VALUES, parse_exactly
from service.wire.openai_json import check, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

PROTO = Path(__file__).parents[2] / "proto"

CONTRACT = """
syntax = "proto3";
package openresponses.v1.test;
import "openresponses/v1/json.proto";

message Plain {
  string text = 1; bool flag = 2; int32 count = 3; int64 big = 4; double ratio = 5; uint32 size = 6;
}
message Maybe { optional string text = 1; optional bool flag = 2; optional int32 count = 3; Plain plain = 4; }
message Null {
  optional string text = 1 [(json).null_when_unset = true];
  Plain plain = 2 [(json).null_when_unset = true];
  Color color = 3 [(json).null_when_unset = true];
  repeated string words = 4 [(json).null_when_unset = true];
  map<string, string> labels = 5 [(json).null_when_unset = true];
}
message Many { repeated string words = 1; repeated Maybe items = 2; map<string, string> labels = 3; }
message ManyOmitted {
  repeated string words = 1 [(json).omit_when_empty = true];
  map<string, Value> values = 2 [(json).omit_when_empty = true];
}
message Raw {
  optional string schema = 1 [(json).raw = true];
  repeated string documents = 2 [(json).raw = true, (json).omit_when_empty = true];
}
message RawAlways { string arguments = 1 [(json).raw = true]; }
enum Color { COLOR_UNSPECIFIED = 0; COLOR_RED = 1; COLOR_DARK_BLUE = 2; }
message Paint { Color color = 1; optional Color trim = 2; }
message Empty {}
message Typed { option (json_message).type = "typed"; string text = 1; }

message Event {
  option (json_message).union = JSON_UNION_TAGGED;
  string type = 1;
  int32 number = 2;
  Color color = 6;
  oneof event {
    Delta delta = 3 [(json).tag = "text.delta"];
    Empty nothing = 4;
    Typed typed = 5;
  }
}
message Delta { string delta = 1; }
message Item {
  option (json_message).union = JSON_UNION_TAGGED;
  oneof item {
    Speech message = 1;
    Tree tree = 2;
    UnknownVariant unknown = 100;
  }
}
message Speech { Input content = 1; }
message Tree { repeated Item children = 1; }
message Input {
  option (json_message).union = JSON_UNION_BARE;
  oneof input { string text = 1; Items items = 2; Item item = 3; double number = 4; bool flag = 5; }
}
message Items { option (json_message).list = true; repeated Item items = 1; }
message Value {
  option (json_message).union = JSON_UNION_BARE;
  oneof value { Color color = 1; int32 count = 2; }
}
message Request { repeated Item items = 1; Paint paint = 2; map<string, Plain> plains = 3; }
"""


def load(contract: str, folder: Path) -> Callable[[str], type[Message]]:
    """Compile a contract; gives its message classes by name."""
    (folder / "test.proto").write_text(contract)
    image = folder / "image.binpb"
    with resources.as_file(resources.files("grpc_tools") / "_proto") as well_known:
        paths = [f"-I{path}" for path in (folder, PROTO, well_known)]
        assert protoc.main(["protoc", *paths, "--include_imports", f"-o{image}", "test.proto"]) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(image.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return lambda name: message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"openresponses.v1.test.{name}")
    )


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], type[Message]]:
    return load(CONTRACT, tmp_path_factory.mktemp("contract"))


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


TYPES = "one of message, tree"
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
        ("Event", "color: 9 nothing {}"),
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


def test_long_lists_of_accepted_values_are_cut(tmp_path: Path) -> None:
    values = " ".join(f"LETTER_A{number} = {number};" for number in range(31))
    messages = f"enum Letter {{ {values} }} message Word {{ Letter letter = 1; }}"
    text = f'syntax = "proto3"; package openresponses.v1.test; {messages}'
    with pytest.raises(InvalidRequest, match=r"^letter must be one of (a\d+, ){11}a12 or 18 more\.$"):
        decode(load(text, tmp_path)("Word"), b'{"letter":"x"}')


TAGGED = "option (json_message).union = JSON_UNION_TAGGED; "
BARE = "option (json_message).union = JSON_UNION_BARE; "

WRONG_CONTRACTS = [
    ("bytes data = 1;", "bytes"),
    ("float ratio = 1;", "float"),
    ("map<int32, string> map = 1;", "keys of a map"),
    ("int32 count = 1 [(json).raw = true];", "raw"),
    ("string text = 1 [(json).null_when_unset = true];", "null_when_unset"),
    ("option (json_message).list = true; string text = 1;", "list"),
    (BARE + "string text = 1;", "oneof"),
    (BARE + "oneof a { string b = 1; string c = 2; }", "kind"),
    (BARE + "oneof a { string b = 1; } int32 c = 2;", "beside"),
    (BARE + "oneof a { Message b = 1; }", "itself"),
    (BARE + "oneof a { string b = 1 [(json).raw = true]; }", "raw"),
    (TAGGED + "oneof a { string b = 1; }", "plain message"),
    (TAGGED + "oneof a { Message b = 1; }", "plain message"),
    (TAGGED + "oneof a { Has b = 1; }", "leave `type`"),
    (TAGGED + "oneof a { Is b = 1; }", "leave `type`"),
    (TAGGED + 'oneof a { No b = 1; No c = 2 [(json).tag = "b"]; }', "another member has the tag"),
]


@pytest.mark.parametrize(("body", "problem"), WRONG_CONTRACTS)
def test_a_contract_that_the_rules_cannot_express_is_named(tmp_path: Path, body: str, problem: str) -> None:
    contract = load(
        'syntax = "proto3"; package openresponses.v1.test; import "openresponses/v1/json.proto";'
        "message No {} message Has { string type = 1; }"
        'message Is { option (json_message).type = "is"; }'
        f"message Message {{ {body} }}",
        tmp_path,
    )
    with pytest.raises(TypeError, match=rf"^openresponses\.v1\.test\.Message.*{problem}"):
        encode(contract("Message")())
    with pytest.raises(TypeError, match=rf"^openresponses\.v1\.test\.Message.*{problem}"):
        decode(contract("Message"), b"{}")
