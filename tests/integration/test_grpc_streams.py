"""The typed face streams: by the rules, the same whatever the chunks, and as soon as there is something."""

from typing import Any

import orjson
import pytest
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import StreamOptions
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED, RESPONSE_STATUS_INCOMPLETE

from service.wire.openai_json import encode
from service.wire.stream_rules import check_stream
from tests.integration.grpc_calls import TIMEOUT_S, final_response, request, stream
from tests.scripts import REASONING_AND_TEXT, token_count


def problems(events: list[ResponseStreamEvent]) -> list[str]:
    return check_stream([orjson.loads(encode(event)) for event in events])


def comparable(response: Response) -> dict[str, Any]:
    """A response without its unique id and its times."""
    unique = response.id.removeprefix("resp_")
    document = orjson.loads(encode(response).replace(unique.encode(), b"UNIQUE"))
    return {
        key: value for key, value in document.items() if key not in ("created_at", "completed_at", "model")
    }


@pytest.mark.parametrize("model", ["hello", "calls", "fails", "fails-at-once", "slow"])
def test_a_stream_keeps_the_rules(channel, model):
    assert problems(stream(channel, model)) == []


def test_the_response_is_the_same_whatever_the_chunks_and_the_interval(channel):
    options = [
        None,
        *(StreamOptions(stream_interval=n, stream_interval_ms=10_000) for n in (1, 2, 3, 10, 1000)),
    ]
    responses = [
        comparable(final_response(stream(channel, model, stream_options=option)))
        for model in ("hello", "hello-7", "hello-all")
        for option in options
    ]
    whole = ResponsesServiceStub(channel).CreateResponse(request("hello"), timeout=TIMEOUT_S)
    assert all(response == comparable(whole) for response in responses)
    assert whole.status == RESPONSE_STATUS_COMPLETED
    assert whole.usage.output_tokens == token_count(REASONING_AND_TEXT)
    assert [item.WhichOneof("item") for item in whole.output] == ["reasoning", "message"]
    assert whole.output[1].message.content[0].output_text.text == "Hello, wörld! 👋 How are you?"


def test_a_request_chooses_its_own_interval(channel):
    def deltas(interval: int) -> int:
        options = StreamOptions(stream_interval=interval, stream_interval_ms=10_000)
        return sum(e.HasField("output_text_delta") for e in stream(channel, "slow", stream_options=options))

    assert deltas(1) == 51
    assert deltas(10) == 6


def test_items_follow_one_another_with_unique_ids(channel):
    response = final_response(stream(channel, "calls"))
    kinds = [item.WhichOneof("item") for item in response.output]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]
    calls = [item.function_call for item in response.output[2:]]
    assert [call.arguments for call in calls] == ['{"city": "Zürich"}', '{"city": "Oslo"}']
    assert len({call.call_id for call in calls} | {call.id for call in calls}) == 4
    assert response.output[1].message.phase == "commentary"


def test_without_parallel_calls_there_is_one(channel):
    response = final_response(stream(channel, "calls", parallel_tool_calls=False))
    assert sum(item.HasField("function_call") for item in response.output) == 1
    assert response.status == RESPONSE_STATUS_COMPLETED


@pytest.mark.parametrize("limit", range(1, token_count(REASONING_AND_TEXT) + 1))
def test_max_output_tokens_wherever_the_cut_falls(channel, limit):
    events = stream(channel, "hello", max_output_tokens=limit)
    assert problems(events) == []
    response = final_response(events)
    assert response.usage.output_tokens == limit
    if limit < token_count(REASONING_AND_TEXT):
        assert response.status == RESPONSE_STATUS_INCOMPLETE
        assert response.incomplete_details.reason == "max_output_tokens"
    else:
        assert response.status == RESPONSE_STATUS_COMPLETED


def test_an_engine_failure_after_the_first_event_is_an_event(channel):
    events = stream(channel, "fails")
    assert events[-1].HasField("failed")
    assert events[-1].failed.response.error.code == "server_error"


def test_the_first_event_comes_before_the_first_token(channel):
    call = ResponsesServiceStub(channel).StreamResponse(request("hangs-at-once"), timeout=TIMEOUT_S)
    assert next(call).type == "response.created"
    assert next(call).type == "response.in_progress"
    call.cancel()


def test_the_first_token_comes_before_the_second(channel):
    options = StreamOptions(stream_interval=1000, stream_interval_ms=10_000)
    call = ResponsesServiceStub(channel).StreamResponse(
        request("hangs", stream_options=options), timeout=TIMEOUT_S
    )
    assert next(event for event in call if event.HasField("output_item_added"))
    call.cancel()
