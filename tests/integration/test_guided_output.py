"""The llama.cpp engine with the bundled model: what it writes is held to schemas, grammars and tool_choice."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from service.engine.base import FunctionSchema, Guidance
from service.engine.llama_cpp import LlamaCppEngine
from service.errors import InvalidRequest
from tests.engine_contract import first_of
from tests.generation import generation
from tests.integration.bundled_model import WEATHER, answer, running_engine, text

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[LlamaCppEngine]:
    async with running_engine() as engine:
        yield engine


@pytest.mark.parametrize(
    ("choice", "question"),
    [
        ("auto", "What is the weather in Paris?"),
        ("required", "Hello"),
        ({"type": "function", "name": "get_weather"}, "Hello"),
    ],
)
async def test_it_calls_a_function_with_arguments_of_its_schema(engine, choice, question):
    request = generation(question, tools=[WEATHER], tool_choice=choice)
    _, call = await answer(engine, request)
    assert (call.channel, call.recipient) == ("commentary", "functions.get_weather")
    arguments = json.loads(text(call))
    assert arguments.keys() == {"city", "unit"}
    assert arguments["unit"] in ("celsius", "fahrenheit")


async def test_a_function_without_parameters_is_called_with_none(engine):
    request = generation(
        "What time is it?",
        tools=[{"type": "function", "name": "get_time", "description": "The time now"}],
        reasoning={"effort": "low"},
    )
    (call,) = await answer(engine, request)
    assert json.loads(text(call)) == {}


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
        {"$ref": "https://example.com/schema.json"},
        {"type": "object", "properties": [1]},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "[a-z"}}},
        {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5000)}},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "array", "minItems": 10**9}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {}, "maxItems": 1e9}}},
    ],
    ids=[
        *("type", "reference", "remote", "properties", "pattern", "wide", "impossible"),
        *("too many items", "too many items at most"),
    ],
)
async def test_a_schema_that_cannot_be_held_to_is_refused(engine, parameters):
    """Never silently ignored, never the end of the process."""
    function = FunctionSchema("f", json.dumps(parameters), path="tools[3].parameters")
    request = replace(
        generation("Hi", reasoning={"effort": "low"}), guidance=Guidance((function,), call_required=True)
    )
    with pytest.raises(InvalidRequest) as refused:
        await first_of(engine, request)
    assert refused.value.param == "tools[3].parameters"
    assert refused.value.message.startswith("tools[3].parameters cannot be used: ")


async def test_an_answer_is_held_to_its_schema_and_the_thought_is_not(engine):
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 30},
            "population": {"type": "integer", "maximum": 100_000_000},
        },
        "required": ["city", "population"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "name": "city", "schema": schema, "strict": True}
    thought, final = await answer(engine, generation("Tell me of Paris.", text={"format": wanted}))
    assert (thought.channel, final.channel, final.recipient) == ("analysis", "final", None)
    assert not text(thought).startswith("{")
    read = json.loads(text(final))
    assert list(read) == ["city", "population"]
    assert isinstance(read["population"], int)


async def test_a_json_object_is_one(engine):
    request = generation(
        "Say hello, as JSON.", text={"format": {"type": "json_object"}}, reasoning={"effort": "low"}
    )
    (final,) = await answer(engine, replace(request, max_tokens=60))
    assert final.channel == "final"
    assert text(final).startswith("{")


@pytest.mark.parametrize(
    ("syntax", "definition"), [("lark", 'start: "go " ("left" | "right")'), ("regex", "go (left|right)")]
)
async def test_the_text_for_a_custom_tool_is_held_to_its_grammar(engine, syntax, definition):
    tool = {
        "type": "custom",
        "name": "steer",
        "description": "Steers the car",
        "format": {"type": "grammar", "syntax": syntax, "definition": definition},
    }
    request = generation(
        "Steer the car to the left.",
        tools=[tool],
        tool_choice={"type": "custom", "name": "steer"},
        reasoning={"effort": "low"},
    )
    (call,) = await answer(engine, request)
    assert (call.channel, call.recipient) == ("commentary", "functions.steer")
    assert json.loads(text(call))["input"] in ("go left", "go right")


async def test_only_an_allowed_tool_is_called(engine):
    other = {**WEATHER, "name": "get_time", "description": "The time of day"}
    choice = {
        "type": "allowed_tools",
        "mode": "required",
        "tools": [{"type": "function", "name": "get_time"}],
    }
    request = generation(
        "What is the weather in Paris?",
        tools=[WEATHER, {"type": "namespace", "name": "clock", "description": "", "tools": [other]}],
        tool_choice=choice,
        reasoning={"effort": "low"},
    )
    (call,) = await answer(engine, request)
    assert call.recipient == "clock.get_time"


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        ({"type": "json_schema", "name": "x", "schema": {"items": {"not": {}}}}, "text.format.schema"),
        ({"type": "json_schema", "name": "x", "schema": {"minItems": 10**9}}, "text.format.schema"),
        (
            {"type": "json_schema", "name": "x", "schema": {"enum": [str(i) for i in range(5000)]}},
            "text.format.schema",
        ),
    ],
)
async def test_a_format_that_cannot_be_held_to_is_refused(engine, wanted, param):
    with pytest.raises(InvalidRequest) as refused:
        await first_of(engine, generation("Hi", text={"format": wanted}))
    assert refused.value.param == param


@pytest.mark.parametrize("definition", ["start: (", 'start: %json {"type": "array", "minItems": 1000000000}'])
async def test_a_grammar_that_cannot_be_held_to_is_refused(engine, definition):
    tool = {
        "type": "custom",
        "name": "steer",
        "format": {"type": "grammar", "syntax": "lark", "definition": definition},
    }
    choice = {"type": "custom", "name": "steer"}
    with pytest.raises(InvalidRequest) as refused:
        await first_of(engine, generation("Hi", tools=[tool], tool_choice=choice))
    assert refused.value.param == "tools[0].format.definition"
