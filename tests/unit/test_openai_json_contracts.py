"""Contracts that json.proto's rules cannot express are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.wire.openai_json import decode, encode
from tests.unit.made_contract import load

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
    ("enum E { NONE = 0; } optional E e = 1;", "optional"),
    (TAGGED + "oneof a { No b = 1; } optional int32 c = 2;", "beside"),
    (TAGGED + "oneof a { Text b = 1; } string text = 2;", "of that name"),
    (TAGGED + "oneof a { No b = 1; } No c = 2;", "beside"),
    (TAGGED + "oneof a { No b = 1; } repeated string c = 2;", "beside"),
    (TAGGED + "oneof a { UnknownVariant unknown = 1; } string c = 2;", "beside"),
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
        "message No {} message Text { string text = 1; } message Has { string type = 1; }"
        'message Is { option (json_message).type = "is"; }'
        f"message Message {{ {body} }}",
        tmp_path,
    )
    with pytest.raises(TypeError, match=rf"^openresponses\.v1\.test\.Message.*{problem}"):
        encode(contract("Message")())
    with pytest.raises(TypeError, match=rf"^openresponses\.v1\.test\.Message.*{problem}"):
        decode(contract("Message"), b"{}")
