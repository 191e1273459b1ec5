"""The tools of a request: how many and how large, what is promised of them, and which the model is shown."""

from typing import Any

import pytest

from service.dialect import callable_tools
from service.dialect.callable_tools import _function as callable_tools_function
from service.dialect.callable_tools import request_tools, shown_tools
from service.engine.base import FunctionSchema, Guidance
from service.errors import InvalidRequest
from service.run.answer_format import AnswerFormat
from service.run.promises import Promises, promises
from service.run.tool_validation import MAX_GRAMMAR_BYTES, MAX_GRAMMAR_LEVELS, MAX_SCHEMAS_BYTES, MAX_TOOLS
from service.run.validation import guidance, validate
from tests.unit.request_documents import FUNCTION, GUIDED, LIMITS, OTHER, grammar_tool, request


def functions(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "name": f"f{i}", **fields} for i in range(count)]


def choice_of(count: int) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": "auto", "tools": [FUNCTION] * count}


def namespace(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "namespace", "name": "n", "description": "", "tools": tools}


SCHEMA = {"type": "json_schema", "name": "x", "schema": {"title": "x" * 4}}
HALF = {"title": "x" * (MAX_SCHEMAS_BYTES // 2 - 12)}

# Each at its limit, and beyond it: all tools count once, wherever they stand.
SIZES = [
    ({"tools": functions(MAX_TOOLS)}, {"tools": functions(MAX_TOOLS + 1)}, "tools"),
    (
        {"tools": [namespace(*functions(MAX_TOOLS - 1))]},
        {"tools": [namespace(*functions(MAX_TOOLS))]},
        "tools",
    ),
    ({"tools": [{"type": "new"}] * MAX_TOOLS}, {"tools": [{"type": "new"}] * (MAX_TOOLS + 1)}, "tools"),
    (
        {"tools": [FUNCTION], "tool_choice": choice_of(MAX_TOOLS)},
        {"tools": [FUNCTION], "tool_choice": choice_of(MAX_TOOLS + 1)},
        "tool_choice.tools",
    ),
    ({"tools": functions(2, parameters=HALF)}, {"tools": functions(3, parameters=HALF)}, "tools"),
    (
        {"tools": functions(2, parameters=HALF)},
        {"tools": functions(2, parameters=HALF), "text": {"format": SCHEMA}},
        "tools",
    ),
    (
        {
            "tools": [
                namespace(
                    *({**grammar_tool("x" * MAX_GRAMMAR_BYTES, "lark"), "name": f"c{i}"} for i in range(7))
                )
            ]
        },
        {
            "tools": [
                namespace(
                    *({**grammar_tool("x" * MAX_GRAMMAR_BYTES, "lark"), "name": f"c{i}"} for i in range(8))
                )
            ]
        },
        "tools",
    ),
    (
        {"tools": [grammar_tool("x" * MAX_GRAMMAR_BYTES)]},
        {"tools": [grammar_tool("x" * (MAX_GRAMMAR_BYTES + 1))]},
        "tools[0].format.definition",
    ),
    *(
        (
            {"tools": [grammar_tool(level * MAX_GRAMMAR_LEVELS, "lark")]},
            {"tools": [grammar_tool(level * (MAX_GRAMMAR_LEVELS + 1), "lark")]},
            "tools[0].format.definition",
        )
        for level in ("a: a\n", "[", "(", "{")
    ),
]


@pytest.mark.parametrize(("fits", "exceeds", "param"), SIZES)
def test_tools_are_limited_in_number_and_size(fits, exceeds, param):
    validate(request(**fits), GUIDED, LIMITS)
    with pytest.raises(InvalidRequest, match=" at most") as caught:
        validate(request(**exceeds), GUIDED, LIMITS)
    assert caught.value.param == param


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_tool_as_chat_completions_wants_it_is_told_where_its_name_belongs(kind):
    with pytest.raises(InvalidRequest, match="is missing: it stands beside type here") as caught:
        validate(request(tools=[{"type": kind, kind: {"name": "f"}}]), GUIDED, LIMITS)
    assert caught.value.param == "tools[0].name"


def test_tools_are_worked_out_once(monkeypatch):
    """And only after their number has been looked at."""
    seen = []
    monkeypatch.setattr(callable_tools, "_function", lambda *args: seen.append(1) or made(*args))
    made = callable_tools_function
    asked = request(tools=functions(5), tool_choice=choice_of(0) | {"tools": functions(5)})
    tools = validate(asked, GUIDED, LIMITS)
    promises(asked, tools)
    guidance(tools, None)
    assert len(seen) == 5
    with pytest.raises(InvalidRequest):
        validate(request(tools=functions(MAX_TOOLS + 1)), GUIDED, LIMITS)
    assert len(seen) == 5


def promised(**fields: Any) -> Promises:
    return promises(request(**fields), request_tools(request(**fields)))


@pytest.mark.parametrize(
    "definition", ["(", "a)|(b", "[z-a]", "(?=a)b", r"(\p{L}{1,900}){1,900}x", "(?x) a # b"]
)
def test_a_regular_expression_has_to_be_one(definition):
    with pytest.raises(InvalidRequest) as caught:
        promised(tools=[grammar_tool(definition)])
    assert caught.value.param == "tools[0].format.definition"
    # Not of a key that the client did not send.
    assert caught.value.message.startswith("tools[0].format.definition must be a regular expression")


@pytest.mark.parametrize("definition", ["a # b", "(?x) a b", "(?x: a ) # b", "a|b"])
def test_a_regular_expression(definition):
    promised(tools=[grammar_tool(definition)])


def test_a_strict_function_needs_a_schema():
    wrong = {"type": "function", "name": "f", "strict": True, "parameters": {"type": "objec"}}
    with pytest.raises(InvalidRequest, match=r"tools\[0\]\.parameters\.type is wrong") as caught:
        promised(tools=[wrong])
    assert caught.value.param == "tools[0].parameters"
    assert promised(tools=[{**wrong, "strict": False}]).arguments == {}


def test_guidance_is_what_the_choice_leaves():
    f = FunctionSchema("f", '{"type":"object","z":1,"a":2}', path="tools[0].parameters")
    g = FunctionSchema("g", None, path="tools[1].parameters")
    tools = [FUNCTION, OTHER]
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}
    for choice, expected in (
        ("auto", Guidance((f, g), call_required=False)),
        ("required", Guidance((f, g), call_required=True)),
        ({"type": "function", "name": "g"}, Guidance((g,), call_required=True)),
        ("none", Guidance((), call_required=False)),
        (allowed, Guidance((g,), call_required=False)),
        ({**allowed, "mode": "required"}, Guidance((g,), call_required=True)),
    ):
        assert guidance(request_tools(request(tools=tools, tool_choice=choice)), None) == expected
    wanted = AnswerFormat('{"type":"object"}', None)
    assert guidance(request_tools(request()), wanted) == Guidance(answer_schema='{"type":"object"}')


def test_guidance_says_where_what_it_holds_to_stands():
    tools = [
        FUNCTION,
        namespace({**grammar_tool('start: "a"', "lark"), "name": "c"}, OTHER),
        grammar_tool("a"),
    ]
    functions = guidance(request_tools(request(tools=tools)), None).functions
    assert [function.path for function in functions] == [
        "tools[0].parameters",
        "tools[1].tools[0].format.definition",
        "tools[1].tools[1].parameters",
        "tools[2].format.definition",
    ]


def test_tools_are_hidden_from_the_model_when_none_may_be_called():
    assert [tool.name for tool in shown_tools(request(tools=[FUNCTION, OTHER]))] == ["f", "g"]
    assert shown_tools(request(tools=[FUNCTION], tool_choice="none")) == []
