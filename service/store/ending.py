"""How a response ends whose producer does not end it: cancelled, or failed with its server. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable

from openresponses.v1.event_pb2 import ResponseFailedEvent, ResponseIncompleteEvent, ResponseStreamEvent
from openresponses.v1.response_pb2 import Response, ResponseError
from openresponses.v1.status_pb2 import RESPONSE_STATUS_CANCELLED, RESPONSE_STATUS_FAILED


def cancelled(
    events: Iterable[ResponseStreamEvent], response: Response | None = None, number: int = 0
) -> ResponseStreamEvent:
    """Return the event that ends a response after `events` because a client wants it to.

    OpenAI has no event of that name: the response is incomplete, and says of itself that it was cancelled.
    Where the events are not known any more, `response` and the event's `number` say where they have led.
    """
    response, number = _as_it_stands(events, response or Response(), number)
    response.status = RESPONSE_STATUS_CANCELLED
    return ResponseStreamEvent(
        type="response.incomplete",
        sequence_number=number,
        incomplete=ResponseIncompleteEvent(response=response),
    )


def failed(events: Iterable[ResponseStreamEvent], message: str) -> ResponseStreamEvent:
    """Return the event that ends a response after `events` because it cannot go on."""
    response, number = _as_it_stands(events, Response(), 0)
    response.status = RESPONSE_STATUS_FAILED
    response.error.CopyFrom(ResponseError(code="server_error", message=message))
    return ResponseStreamEvent(
        type="response.failed", sequence_number=number, failed=ResponseFailedEvent(response=response)
    )


def ended_response(event: ResponseStreamEvent) -> Response | None:
    """Return the response that a terminal event carries; None for any other event."""
    match event.WhichOneof("event"):
        case "completed":
            return event.completed.response
        case "incomplete":
            return event.incomplete.response
        case "failed":
            return event.failed.response
        case _:
            return None


def _as_it_stands(
    events: Iterable[ResponseStreamEvent], response: Response, number: int
) -> tuple[Response, int]:
    """Return the response with the items that are done, and the number of the event to come."""
    for event in events:
        number = event.sequence_number + 1
        match event.WhichOneof("event"):
            case "created":
                response.CopyFrom(event.created.response)
            case "output_item_done":
                response.output.append(event.output_item_done.item)
            case _:
                pass
    return response, number
