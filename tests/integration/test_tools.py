"""Tools and formats as a client sees them: what was promised comes, at any N, or the response fails and says why."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from service.wire.stream_rules import check_stream
from tests.processes import Running, start_gateway, start_service
from tests.scripts import write_script

THOUGHT = "<|channel|>analysis<|message|>Hm. {not json}<|end|><|start|>assistant"


def call(recipient: str, arguments: str) -> str:
    return f"<|channel|>commentary to={recipient} <|constrain|>json<|message|>{arguments}<|call|><|start|>assistant"


def answer(text: str) -> str:
    return f"<|channel|>final<|message|>{text}<|return|>"


PATCH = '*** Begin Patch\n+say "hi" \\ 🎉\n'
OUTPUTS = {
    "calls-f": THOUGHT + call("functions.f", '{"a": 1}'),
    "calls-g": call("functions.g", "{}"),
    "calls-f-and-g": call("functions.f", "{}") + call("functions.g", "{}"),
    "calls-spawn": call("agents.spawn", '{"task": "x"}'),
    "tells": call("agents.tell", '{"input": "hello"}'),
    "patches": THOUGHT + call("functions.patch", json.dumps({"input": PATCH})),
    "patches-raw": call("functions.patch", PATCH),
    "says": THOUGHT + answer("Hello."),
    "person": THOUGHT + answer('{"name": "Ann 🎉", "age": 5}'),
    "person-without-age": THOUGHT + answer('{"name": "Ann"}'),
    "list": answer("[1]"),
    "cut": THOUGHT + answer('{"name": "Ann').removesuffix("<|return|>"),
}
SIZES = (1, 2, 3, 7, 1000)
TURNS = {
    f"{name}-{size}": {
        "harmony": text,
        "chunks": size,
        "finish_reason": "length" if name == "cut" else "stop",
    }
    for name, text in OUTPUTS.items()
    for size in SIZES
}
F = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
G = {**F, "name": "g"}
CUSTOM = {"type": "custom", "name": "patch"}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Helpers",
    "tools": [{**F, "name": "spawn"}, {"type": "custom", "name": "tell"}],
}
PERSON = {
    "type": "json_schema",
    "name": "person",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    script = write_script(tmp_path_factory.mktemp("script"), TURNS)
    with start_service("--engine", "scripted", "--script", script, "--stream-interval", "3") as running:
        yield running


def played(client: openai.OpenAI, name: str, size: int, **fields: Any) -> list[dict[str, Any]]:
    stream = client.responses.create(
        model=f"{name}-{size}",
        input="Hi",
        stream=True,
        store=False,
        extra_body={"stream_options": {"stream_interval": size}},
        **fields,
    )
    events = [event.model_dump(exclude_unset=True) for event in stream]
    assert check_stream(events) == []
    return events


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["patches", "patches-raw"])
def test_a_custom_tool_is_called_with_text(client, name, size):
    events = played(client, name, size, tools=[CUSTOM])
    done = [event for event in events if event["type"] == "response.custom_tool_call_input.done"]
    assert [event["input"] for event in done] == [PATCH]
    item = events[-1]["response"]["output"][-1]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", PATCH)
    assert "namespace" not in item


@pytest.mark.parametrize("size", SIZES)
def test_functions_of_a_namespace(client, size):
    (item,) = played(client, "calls-spawn", size, tools=[F, AGENTS])[-1]["response"]["output"]
    assert (item["type"], item["namespace"], item["name"]) == ("function_call", "agents", "spawn")
    (item,) = played(client, "tells", size, tools=[F, AGENTS])[-1]["response"]["output"]
    assert (item["type"], item["namespace"], item["name"], item["input"]) == (
        "custom_tool_call",
        "agents",
        "tell",
        "hello",
    )


def test_the_calls_are_accepted_back_with_their_outputs(client):
    for name, kind in (
        ("patches", "custom_tool_call"),
        ("calls-spawn", "function_call"),
        ("tells", "custom_tool_call"),
    ):
        output = played(client, name, 1, tools=[CUSTOM, AGENTS])[-1]["response"]["output"]
        history = [
            {"role": "user", "content": "Hi"},
            *output,
            {"type": f"{kind}_output", "call_id": output[-1]["call_id"], "output": "done"},
        ]
        response = client.responses.create(model="says-1", input=history, tools=[CUSTOM, AGENTS])
        assert response.output_text == "Hello."


def allowed(*names: str, mode: str = "auto") -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": n} for n in names]}


KEPT = [
    ("calls-f", "required"),
    ("calls-f", {"type": "function", "name": "f"}),
    ("calls-f", allowed("f")),
    ("says", allowed("f")),
    ("calls-g", allowed("f", "g", mode="required")),
    ("says", "none"),
    ("patches", {"type": "custom", "name": "patch"}),
]
BROKEN = [
    ("says", "required", "called no tool"),
    ("says", {"type": "function", "name": "f"}, "called no tool"),
    ("says", allowed("f", mode="required"), "called no tool"),
    ("calls-g", {"type": "function", "name": "f"}, "called 'g'"),
    ("calls-f-and-g", allowed("f"), "called 'g'"),
    ("calls-f", "none", "called 'f'"),
    ("patches", {"type": "function", "name": "f"}, "called 'patch'"),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "choice"), KEPT)
def test_a_choice_that_is_kept(client, name, choice, size):
    events = played(client, name, size, tools=[F, G, CUSTOM], tool_choice=choice)
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["tool_choice"] == choice


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "choice", "why"), BROKEN)
def test_a_choice_that_the_model_breaks_fails_the_response(client, name, choice, why, size):
    events = played(client, name, size, tools=[F, G, CUSTOM], tool_choice=choice)
    assert events[-1]["type"] == "response.failed"
    assert why in events[-1]["response"]["error"]["message"]
    with pytest.raises(openai.InternalServerError, match=why):
        client.responses.create(model=f"{name}-{size}", input="Hi", tools=[F, G, CUSTOM], tool_choice=choice)


STRICT = {
    **F,
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    },
}


@pytest.mark.parametrize("size", SIZES)
def test_the_arguments_of_a_strict_function(client, size):
    """Fit, or the response fails; those of any other function are the model's own."""
    assert played(client, "calls-f", size, tools=[STRICT])[-1]["type"] == "response.completed"
    events = played(client, "calls-f-and-g", size, tools=[STRICT, G])
    assert events[-1]["type"] == "response.failed"
    assert "strict function 'f' does not fit" in events[-1]["response"]["error"]["message"]
    loose = {**STRICT, "strict": False}
    assert played(client, "calls-f-and-g", size, tools=[loose, G])[-1]["type"] == "response.completed"


@pytest.mark.parametrize("size", SIZES)
def test_an_answer_that_fits_its_schema(client, size):
    events = played(client, "person", size, text={"format": PERSON})
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.completed"
    assert response["text"]["format"]["schema_"] == PERSON["schema"]
    assert json.loads(response["output"][-1]["content"][0]["text"]) == {"name": "Ann 🎉", "age": 5}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("says", PERSON),
        ("person-without-age", PERSON),
        ("list", {"type": "json_object"}),
        ("says", {"type": "json_object"}),
    ],
)
def test_one_that_does_not_fails_the_response(client, name, wanted, size):
    events = played(client, name, size, text={"format": wanted})
    assert events[-1]["type"] == "response.failed"
    assert "text.format" in events[-1]["response"]["error"]["message"]


@pytest.mark.parametrize(
    ("name", "wanted", "end"),
    [
        ("person-without-age", {**PERSON, "strict": False}, "completed"),
        ("cut", PERSON, "incomplete"),
        ("calls-f", PERSON, "completed"),
        ("person", {"type": "json_object"}, "completed"),
    ],
)
def test_what_was_not_promised_is_not_asked_for(client, name, wanted, end):
    """Formats that are not strict, answers cut short by a limit, turns that end with a call."""
    events = played(client, name, 3, text={"format": wanted}, tools=[F])
    assert events[-1]["type"] == f"response.{end}"


def test_the_package_parses_what_it_asked_for(client):
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    parsed = client.responses.parse(model="person-2", input="Hi", text_format=Person)
    assert parsed.output_parsed == Person(name="Ann 🎉", age=5)


def test_tools_that_are_not_offered_are_named_in_a_header(gateway, service):
    body = {
        "model": "says-1",
        "input": "Hi",
        "tools": [{"type": "web_search"}, F, {"type": "brand_new"}],
        "stream": False,
    }
    for stream in (False, True):
        answered = httpx.post(f"http://{gateway.address}/v1/responses", json={**body, "stream": stream})
        assert answered.status_code == 200
        assert (
            answered.headers["x-openresponses-warning"]
            == "tools left out, not offered here: web_search, brand_new"
        )
    assert "tools left out, not offered here: web_search, brand_new" in service.stderr()


def test_a_server_may_refuse_them(tmp_path):
    script = write_script(tmp_path, TURNS)
    flags = ("--engine", "scripted", "--script", script, "--unsupported-tools", "reject")
    with (
        start_service(*flags) as service,
        start_gateway(service.address) as gateway,
        openai.OpenAI(base_url=f"http://{gateway.address}/v1", api_key="none", max_retries=0) as client,
    ):
        with pytest.raises(openai.BadRequestError, match="web_search") as caught:
            client.responses.create(model="says-1", input="Hi", tools=[F, {"type": "web_search"}])
        assert caught.value.param == "tools[1].type"
        assert client.responses.create(model="says-1", input="Hi", tools=[F, AGENTS]).output_text
