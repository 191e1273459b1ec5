"""openai-python through the gateway: both ways of create, the stream helper, models, errors."""

from collections.abc import Iterator

import openai
import pytest

from service.wire.stream_rules import check_stream

FUNCTION = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}


@pytest.fixture
def client(base_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=20) as client:
        yield client


def test_create(client):
    response = client.responses.create(model="hello", input="Hi")
    assert response.output_text == "Hello, wörld! 👋 How are you?"
    assert response.status == "completed"
    assert response.usage.output_tokens_details.reasoning_tokens > 0
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response._request_id


def test_create_as_stream(client):
    events = list(client.responses.create(model="hello", input="Hi", stream=True))
    assert check_stream([event.model_dump(exclude_unset=True) for event in events]) == []
    assert not [event for event in events if event.model_extra]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "Hello, wörld! 👋 How are you?"
    assert len(deltas) > 1


def test_stream_helper_and_its_final_response(client):
    with client.responses.stream(model="hello", input="Hi") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert events[-1].type == "response.completed"
    assert final.output_text == "Hello, wörld! 👋 How are you?"


def test_a_function_call_and_its_answer(client):
    first = client.responses.create(model="weather", input="How is Oslo?", tools=[FUNCTION])
    (call,) = first.output
    assert (call.type, call.name, call.arguments) == ("function_call", "get_weather", '{"city": "Oslo"}')
    history = [
        {"role": "user", "content": "How is Oslo?"},
        *[item.model_dump(exclude_unset=True) for item in first.output],
        {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
    ]
    second = client.responses.create(model="weather", input=history, tools=[FUNCTION])
    assert second.output_text == "It is sunny in Oslo."


def test_several_calls_as_stream(client):
    with client.responses.stream(model="calls", input="Hi", tools=[FUNCTION]) as stream:
        final = stream.get_final_response()
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]


def test_a_cut_response_says_so(client):
    response = client.responses.create(model="hello", input="Hi", max_output_tokens=16)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"


def test_the_output_is_accepted_as_input(client):
    first = client.responses.create(model="hello", input="Hi")
    history = [{"role": "user", "content": "Hi"}, *first.output, {"role": "user", "content": "And now?"}]
    assert client.responses.create(model="hello", input=history).status == "completed"


def test_a_background_stream_is_followed_again_from_its_start(client):
    """The package's accumulator wants the events from the first on, and filters them itself."""
    with client.responses.stream(model="hello", input="Hi", background=True) as stream:
        first = [next(stream) for _ in range(4)]
        response_id = first[0].response.id
    with client.responses.stream(response_id=response_id, starting_after=2) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert events[0].sequence_number == 3
    assert final.output_text == "Hello, wörld! 👋 How are you?"


def test_models(client):
    assert "hello" in [model.id for model in client.models.list()]
    assert client.models.retrieve("hello").id == "hello"


def test_errors_are_the_ones_that_the_sdk_knows(client):
    with pytest.raises(openai.NotFoundError) as not_found:
        client.responses.create(model="nobody", input="Hi")
    assert not_found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad_request:
        client.responses.create(model="hello", input="Hi", temperature=7)
    assert bad_request.value.param == "temperature"
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model="fails", input="Hi")


def test_a_failure_midway_is_an_event(client):
    *_, last = client.responses.create(model="fails", input="Hi", stream=True)
    assert last.type == "response.failed"
    assert last.response.error.code == "server_error"


@pytest.mark.parametrize("name", ["org/model", "org/model:7b +é%?#&=@"])
def test_a_model_whose_name_is_escaped_in_addresses(client, name):
    assert name in [model.id for model in client.models.list()]
    assert client.models.retrieve(name).id == name
    assert client.responses.create(model=name, input="Hi").model == name
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve(f"{name}/none")
    assert caught.value.code == "model_not_found"
