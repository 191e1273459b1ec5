"""What cannot be rendered is refused by the path of its field."""

import json
import re
from itertools import groupby
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import FunctionTool, Tool

from service.dialect.harmony.prompt import render
from service.dialect.harmony.tools import (
    _LONG_WORD,
    MAX_SCHEMA_LEVELS,
    MAX_TOOLS_BYTES,
    MAX_WORD_CHARS,
    MAX_WORD_WORK,
    word_work,
)
from service.errors import InvalidRequest
from service.wire.openai_json import decode

USER = {"role": "user", "content": "Hi"}
FUNCTION = {"type": "function", "name": "f"}


def rendered(**fields: Any) -> list[int]:
    return render(decode(CreateResponseRequest, json.dumps({"model": "m", "input": "Hi", **fields}).encode()))


def call(call_id: str = "c", name: str = "f") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def output(call_id: str = "c") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "x"}


def refused(document: dict[str, Any]) -> InvalidRequest:
    request = decode(CreateResponseRequest, orjson.dumps({"model": "m", **document}))
    with pytest.raises(InvalidRequest) as refused:
        render(request)
    return refused.value


@pytest.mark.parametrize(
    ("source", "param"),
    [
        ("", "input"),
        ([], "input"),
        ([USER, call(name="")], "input[1].name"),
        ([USER, call(name="n" * 1025)], "input[1].name"),
        ([USER, call(call_id="")], "input[1].call_id"),
        ([USER, call(), call()], "input[2].call_id"),
        ([USER, output()], "input[1].call_id"),
        ([USER, output(), call()], "input[1].call_id"),
        ([USER, call(), output(), output()], "input[3].call_id"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "assistant", "content": "Hi", "phase": "musing"}], "input[0].phase"),
        ([USER, {"type": "item_reference", "id": "msg_1"}], "input[1]"),
        ([USER, {"type": "flying_carpet"}], "input[1]"),
        ([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}], "input[0].content[0]"),
    ],
)
def test_an_item_that_cannot_be_rendered(source, param):
    assert refused({"input": source}).param == param


def test_an_effort_that_there_is_not():
    fault = refused({"input": "Hi", "reasoning": {"effort": "extreme"}})
    assert fault.param == "reasoning.effort"
    assert "low, medium, high" in fault.message


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "namespace", "description": "a" * (MAX_WORD_CHARS + 1)}, "tools[0].description"),
        ({"type": "namespace", "description": "a " * (MAX_TOOLS_BYTES // 2 + 1)}, "tools"),
        (
            {"type": "namespace", "tools": [{**FUNCTION, "description": "a" * (MAX_WORD_CHARS + 1)}]},
            "tools[0].tools[0].description",
        ),
        (
            {
                "type": "custom",
                "format": {"type": "grammar", "syntax": "lark", "definition": "a" * (MAX_WORD_CHARS + 1)},
            },
            "tools[0].format.definition",
        ),
        (
            {
                "type": "custom",
                "format": {"type": "grammar", "syntax": "regex", "definition": "a" * (MAX_WORD_CHARS + 1)},
            },
            "tools[0].format.definition",
        ),
        (
            {
                "type": "custom",
                "description": "a" * (MAX_WORD_CHARS + 1),
                "format": {"type": "grammar", "syntax": "regex", "definition": "a"},
            },
            "tools[0].description",
        ),
    ],
)
def test_other_tools_beyond_the_limits(tool, param):
    tool = {"name": "n", "description": "", **tool}
    if tool["type"] == "namespace":
        tool = {"tools": [FUNCTION], **tool}
    assert refused({"input": "Hi", "tools": [tool]}).param == param


def test_a_namespace_without_tools():
    tools = [{"type": "namespace", "name": "n", "description": "Nothing.", "tools": []}]
    assert rendered(tools=[FUNCTION, *tools])
    assert rendered(tools=tools)


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"description": "a" * (MAX_WORD_CHARS + 1)}, "tools[0].description"),
        ({"description": " " * (MAX_WORD_CHARS + 1)}, "tools[0].description"),
        ({"parameters": {"properties": {"a" * (MAX_WORD_CHARS + 1): {}}}}, "tools[0].parameters"),
        ({"parameters": {"default": "a " * MAX_WORD_CHARS}}, None),
        ({"parameters": {"default": ["a"] * MAX_WORD_CHARS}}, "tools[0].parameters"),
        ({"description": "a " * (MAX_TOOLS_BYTES // 2 + 1)}, "tools"),
        (
            {"description": ("a" * MAX_WORD_CHARS + " ") * (MAX_WORD_WORK // MAX_WORD_CHARS**2 + 1)},
            "tools[0].description",
        ),
        (
            {"description": (" " * MAX_WORD_CHARS + "a") * (MAX_WORD_WORK // MAX_WORD_CHARS**2 + 1)},
            "tools[0].description",
        ),
        ({"description": ("a" * MAX_WORD_CHARS + " ") * (MAX_WORD_WORK // MAX_WORD_CHARS**2 - 1)}, None),
        ({"description": "€" * MAX_WORD_CHARS}, None),
        ({"description": "é " * (MAX_TOOLS_BYTES // 3 + 1)}, "tools"),
    ],
    ids=["word", "blank", "key", "words", "default", "large", "work", "blanks", "less", "one", "bytes"],
)
def test_a_tool_beyond_the_limits(tool, param):
    """Texts that would make the renderer slow, or end the process."""
    document = {"input": "Hi", "tools": [{"type": "function", "name": "f", **tool}]}
    if param is None:
        render(decode(CreateResponseRequest, json.dumps({"model": "m", **document}).encode()))
    else:
        assert refused(document).param == param


def test_a_schema_is_nested_only_so_deep():
    """Over gRPC, where it comes as text."""

    def render_levels(levels: int) -> None:
        parameters = '{"items":' * levels + "{}" + "}" * levels
        tool = Tool(function=FunctionTool(name="f", parameters=parameters))
        render(CreateResponseRequest(model="m", input=Input(text="Hi"), tools=[tool]))

    render_levels(MAX_SCHEMA_LEVELS)
    with pytest.raises(InvalidRequest) as refused:
        render_levels(MAX_SCHEMA_LEVELS + 1)
    assert refused.value.param == "tools[0].parameters"


@given(st.text(st.sampled_from("a \n\u2003é")))
def test_long_stretches_are_found_in_one_pass(text):
    """Each is looked for at its beginning only, so that no character is passed twice."""
    long = re.compile(_LONG_WORD.pattern.replace(str(MAX_WORD_CHARS + 1), "4"))
    assert bool(long.search(text)) is any(
        len(list(stretch)) >= 4 for _, stretch in groupby(text, key=str.isspace)
    )
    tried = [at for at in range(len(text)) if long.match(text, at)]
    assert all(at == 0 or text[at - 1].isspace() != text[at].isspace() for at in tried)


def test_the_work_of_words_counts_bytes_and_white_space():
    assert word_work("aa  a €") == 4 + 4 + 1 + 1 + 9


def test_a_large_schema_without_white_space_has_no_long_words():
    """Its JSON is one word, but it is not shown as JSON."""
    properties = {f"p{i}": {"type": "string", "description": "Some words. " * 20} for i in range(1000)}
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": properties}}
    assert rendered(tools=[tool])
