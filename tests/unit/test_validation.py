"""What a request may say: wrong values and what is not offered are refused by name, the rest is kept."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect import callable_tools
from service.dialect.callable_tools import _function as callable_tools_function
from service.dialect.callable_tools import request_tools, shown_tools
from service.engine.base import FunctionSchema, Guidance, ModelInfo
from service.errors import InvalidRequest
from service.run.answer_format import AnswerFormat, answer_format
from service.run.json_schema import json_schema
from service.run.opening import opened_response, unoffered_tool_types
from service.run.promises import Promises, promises
from service.run.tool_validation import MAX_GRAMMAR_BYTES, MAX_GRAMMAR_LEVELS, MAX_SCHEMAS_BYTES, MAX_TOOLS
from service.run.validation import RequestLimits, guidance, top_logprobs, validate
from service.wire.openai_json import decode, encode

LIMITS = RequestLimits(max_interval_tokens=64, max_interval_ms=1000)
GUIDED = ModelInfo(id="m", context_window_tokens=100, max_output_tokens=100, guided=True)
UNGUIDED = ModelInfo(id="m", context_window_tokens=100, max_output_tokens=100, default_temperature=0.5)
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "z": 1, "a": 2}}
OTHER = {"type": "function", "name": "g", "parameters": None}


def request(**fields: Any) -> CreateResponseRequest:
    return decode(CreateResponseRequest, json.dumps({"model": "m", "input": "Hi", **fields}).encode())


def grammar_tool(definition: str, syntax: str = "regex") -> dict[str, Any]:
    grammar = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {"type": "custom", "name": "c", "format": grammar}


REFUSED = [
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": -5}, "max_output_tokens"),
    ({"stream_options": {"stream_interval": 0}}, "stream_options.stream_interval"),
    ({"stream_options": {"stream_interval": 65}}, "stream_options.stream_interval"),
    ({"stream_options": {"stream_interval_ms": -1}}, "stream_options.stream_interval_ms"),
    ({"stream_options": {"stream_interval_ms": 1001}}, "stream_options.stream_interval_ms"),
    ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
    ({"metadata": {"k" * 65: ""}}, "metadata"),
    ({"metadata": {"k": "v" * 513}}, "metadata"),
    ({"tools": [{"type": "function", "name": "no spaces"}]}, "tools[0].name"),
    ({"tools": [FUNCTION, {"type": "function", "name": ""}]}, "tools[1].name"),
    ({"tools": [FUNCTION, FUNCTION]}, "tools[1].name"),
    ({"tools": [OTHER], "tool_choice": {"type": "function", "name": "nobody"}}, "tool_choice.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "web_search_preview"}}, "tool_choice.type"),
    ({"background": True, "store": False}, "store"),
    ({"include": ["brand.new"]}, "include[0]"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"max_tool_calls": 0}, "max_tool_calls"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"frequency_penalty": -2.5}, "frequency_penalty"),
    ({"tools": [{"type": "custom", "name": "a b"}]}, "tools[0].name"),
    ({"tools": [FUNCTION, {"type": "custom", "name": "f"}]}, "tools[1].name"),
    (
        {
            "tools": [
                {
                    "type": "custom",
                    "name": "c",
                    "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"},
                }
            ]
        },
        "tools[0].format.syntax",
    ),
    ({"tools": [{"type": "namespace", "name": "functions", "tools": [FUNCTION]}]}, "tools[0].name"),
    (
        {"tools": [{"type": "namespace", "name": "n", "tools": [FUNCTION, FUNCTION]}]},
        "tools[0].tools[1].name",
    ),
    ({"tools": [{"type": "namespace", "name": "n", "tools": []}] * 2}, "tools[1].name"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "custom", "name": "f"}}, "tool_choice.name"),
    (
        {
            "tools": [FUNCTION],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
        },
        "tool_choice.tools[0].type",
    ),
    (
        {"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}},
        "tool_choice",
    ),
    ({"conversation": "conv_1", "store": False}, "store"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    ({"moderation": {"model": "x"}}, "moderation"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"prompt_cache_options": {"mode": "explicit"}}, "prompt_cache_options"),
    ({"image": {"context_compression": "enabled"}}, "image"),
    ({"access_programs": {"cyber": "standard"}}, "access_programs"),
    ({"background_options": {"completion_window": "2h"}}, "background_options.completion_window"),
    ({"reasoning": {"context": "all_turns"}}, "reasoning.context"),
    ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_refused_by_name(fields, param):
    with pytest.raises(InvalidRequest) as caught:
        validate(request(**fields), GUIDED, LIMITS)
    assert caught.value.param == param
    assert "\n" not in caught.value.message


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


FORMATS = [
    ({"type": "json_schema", "name": "a b", "schema": {}}, "text.format.name"),
    ({"type": "json_schema", "name": "x"}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": 5}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"type": "objec"}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"$ref": "http://a/b"}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"$ref": "#/nowhere"}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"pattern": "("}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"title": "x" * 2**18}}, "text.format.schema"),
]


@pytest.mark.parametrize(("wanted", "param"), FORMATS)
def test_formats_are_refused_by_name(wanted, param):
    with pytest.raises(InvalidRequest) as caught:
        answer_format(request(text={"format": wanted}).text.format)
    assert caught.value.param == param
    assert "\n" not in caught.value.message


def promised(**fields: Any) -> Promises:
    return promises(request(**fields), request_tools(request(**fields)))


@pytest.mark.parametrize("definition", ["(", "a)|(b", "[z-a]", r"(\p{L}{1,900}){1,900}x"])
def test_a_regular_expression_has_to_be_one(definition):
    with pytest.raises(InvalidRequest) as caught:
        promised(tools=[grammar_tool(definition)])
    assert caught.value.param == "tools[0].format.definition"


def test_a_strict_function_needs_a_schema():
    wrong = {"type": "function", "name": "f", "strict": True, "parameters": {"type": "objec"}}
    with pytest.raises(InvalidRequest, match=r"tools\[0\]\.parameters\.type is wrong") as caught:
        promised(tools=[wrong])
    assert caught.value.param == "tools[0].parameters"
    assert promised(tools=[{**wrong, "strict": False}]).arguments == {}


def test_a_wrong_schema_is_told_with_its_path():
    schema = {"type": "object", "properties": {"a": {"type": "strin"}}}
    with pytest.raises(InvalidRequest, match=r"schema\.properties\.a\.type is wrong"):
        answer_format(
            request(text={"format": {"type": "json_schema", "name": "x", "schema": schema}}).text.format
        )


@pytest.mark.parametrize("schema", ['{"pattern": "^(a+)+$"}', "{}"])
def test_hostile_schemas_take_no_time(schema):
    fault = json_schema(schema, "x").fault('"' + "a" * 10_000 + '!"')
    assert fault is None or fault.startswith("does not fit at its top: ")


def test_schemas_nested_very_deep():
    for levels in (100, 900, 100_000):
        schema = '{"items":' * levels + "{}" + "}" * levels
        with suppress(InvalidRequest):
            json_schema(schema, "x").fault("[" * levels + "]" * levels)


ACCEPTED = [
    {"max_tool_calls": 3},
    {"reasoning": {"summary": "auto", "context": "auto", "mode": "standard"}},
    {"background_options": {"completion_window": "soonest", "continuation_id": "x"}, "background": True},
    {"prompt_cache_retention": "24h"},
    {"presence_penalty": -2, "frequency_penalty": 2, "seed": 7},
    {"tools": [{"type": "custom", "name": "c"}, FUNCTION], "tool_choice": {"type": "custom", "name": "c"}},
    {"tools": [FUNCTION, {"type": "namespace", "name": "n", "tools": [FUNCTION]}]},
    {
        "tools": [{"type": "namespace", "name": "n", "tools": [OTHER]}],
        "tool_choice": {"type": "function", "name": "g"},
    },
    {"text": {"format": {"type": "json_object"}}},
    {},
    {"temperature": 0},
    {"temperature": 2},
    {"top_p": 1},
    {"background": False},
    {"truncation": "disabled"},
    {"truncation": "auto"},
    {"top_logprobs": 0},
    {"include": []},
    {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    {"reasoning": None},
    {"store": True},
    {"service_tier": "auto", "user": "u", "prompt_cache_key": "k", "safety_identifier": "s"},
    {"tools": [FUNCTION, OTHER], "tool_choice": "auto"},
    {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
    {"tools": [FUNCTION], "tool_choice": "required"},
    {"tools": [{"type": "web_search"}, {"type": "brand_new"}]},
    {"stream_options": {"stream_interval": 64, "stream_interval_ms": 0, "include_obfuscation": False}},
]


@pytest.mark.parametrize("fields", ACCEPTED)
def test_accepted(fields):
    validate(request(**fields), GUIDED, LIMITS)


def test_log_probabilities_of_a_model_that_gives_them():
    model = replace(GUIDED, logprobs=True)
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 3}
    validate(request(**fields), model, LIMITS)
    assert top_logprobs(request(**fields)) == 3
    assert top_logprobs(request(include=fields["include"])) == 0
    assert top_logprobs(request()) is None
    with pytest.raises(InvalidRequest) as caught:
        validate(request(top_logprobs=3), model, LIMITS)
    assert caught.value.param == "top_logprobs"


def test_guidance_is_what_the_choice_leaves():
    f, g = FunctionSchema("f", '{"type":"object","z":1,"a":2}'), FunctionSchema("g", None)
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


def test_tools_are_hidden_from_the_model_when_none_may_be_called():
    assert [tool.name for tool in shown_tools(request(tools=[FUNCTION, OTHER]))] == ["f", "g"]
    assert shown_tools(request(tools=[FUNCTION], tool_choice="none")) == []


def opened(model: ModelInfo = GUIDED, **fields: Any) -> dict[str, Any]:
    response = opened_response(request(**fields), model, response_id="resp_1", created_at=7)
    return json.loads(encode(response))


def test_the_response_shows_what_is_in_force():
    assert opened(UNGUIDED)["temperature"] == 0.5
    assert opened(UNGUIDED, temperature=0)["temperature"] == 0
    assert opened()["tool_choice"] == "auto"
    assert opened()["parallel_tool_calls"] is True
    assert opened(parallel_tool_calls=False)["parallel_tool_calls"] is False
    assert opened()["text"] == {"format": {"type": "text"}}
    assert opened()["store"] is True
    assert opened(store=False)["store"] is False
    assert opened(background=True)["status"] == "queued"
    assert opened(conversation="conv_1")["conversation"] == {"id": "conv_1"}
    assert opened(conversation={"id": "conv_1"})["conversation"] == {"id": "conv_1"}
    assert opened(service_tier="flex")["service_tier"] == "default"
    echoed = {
        "metadata": {"a": "b"},
        "user": "u",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "max_output_tokens": 5,
        "instructions": "Be nice.",
        "previous_response_id": "resp_0",
    }
    assert opened(**echoed).items() >= echoed.items()


def test_tools_that_are_not_offered_are_left_out_and_named():
    tools = [{"type": "web_search"}, FUNCTION, {"type": "brand_new"}, {"type": "web_search"}]
    assert [tool["name"] for tool in opened(tools=tools)["tools"]] == ["f"]
    assert unoffered_tool_types(request(tools=tools)) == ["web_search", "brand_new"]
