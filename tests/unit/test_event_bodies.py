"""Server-sent events of a stream: in pieces, alive in silence, and told when it breaks off."""

import json
from collections.abc import AsyncIterator

import pytest
from openai.types.responses import ResponseErrorEvent
from openresponses.v1.event_pb2 import ResponseStreamEvent, ResponseTextDeltaEvent

from service.errors import NotFound, Unavailable
from service.rpc.event_bodies import event_bodies


def delta(number: int) -> ResponseStreamEvent:
    text = ResponseTextDeltaEvent(item_id="msg_1", delta="x")
    return ResponseStreamEvent(
        type="response.output_text.delta", sequence_number=number, output_text_delta=text
    )


async def bodies(*batches: list[ResponseStreamEvent] | Exception) -> list[bytes]:
    async def play() -> AsyncIterator[list[ResponseStreamEvent]]:
        for batch in batches:
            if isinstance(batch, Exception):
                raise batch
            yield batch

    return [body.data async for body in event_bodies(play())]


def documents(body: bytes) -> list[dict]:
    return [json.loads(frame.partition(b"\ndata: ")[2]) for frame in body.split(b"\n\n") if frame]


async def test_a_large_batch_comes_in_pieces():
    found = await bodies([delta(number) for number in range(150)])
    assert len(found) == 3
    assert [event["sequence_number"] for body in found for event in documents(body)] == list(range(150))


async def test_large_events_come_by_themselves():
    large = [delta(number) for number in range(4)]
    for event in large[1:3]:
        event.output_text_delta.delta = "x" * 700_000
    found = await bodies(large)
    assert [[event["sequence_number"] for event in documents(body)] for body in found] == [[0, 1], [2, 3]]


async def test_a_silence_is_a_comment():
    assert await bodies([delta(0)], []) == [(await bodies([delta(0)]))[0], b": keepalive\n\n"]


@pytest.mark.parametrize(
    ("fault", "code", "type_", "message"),
    [
        (Unavailable("The store cannot be reached."), "server_unavailable", "server_error", "The store"),
        (NotFound("It is gone.", param="response_id"), "not_found", "invalid_request_error", "It is gone."),
        (RuntimeError("a secret"), "server_error", "server_error", "internal error"),
    ],
)
async def test_a_stream_that_breaks_off_says_so(fault, code, type_, message):
    *_, last = await bodies([delta(0), delta(1)], fault)
    [event] = documents(last)
    told = ResponseErrorEvent.model_validate(event)
    assert (told.type, told.sequence_number, told.code) == ("error", 2, code)
    assert message in told.message
    assert "secret" not in told.message
    assert event["error"]["type"] == type_
    assert event["error"]["message"] == told.message
    assert event["param"] == event["error"]["param"] == getattr(fault, "param", None)


async def test_a_comment_has_begun_the_stream_and_numbers_go_on():
    async def play() -> AsyncIterator[list[ResponseStreamEvent]]:
        yield []
        raise Unavailable("Try again.")

    found = [body.data async for body in event_bodies(play(), 7)]
    assert found[0] == b": keepalive\n\n"
    assert documents(found[1])[0]["sequence_number"] == 8


async def test_what_fails_before_the_first_event_is_a_status():
    with pytest.raises(Unavailable):
        await bodies(Unavailable("Try again."))
