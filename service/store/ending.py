"""How a response ends whose producer does not end it: cancelled, or failed with its server. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from openresponses.v1.event_pb2 import ResponseFailedEvent, ResponseIncompleteEvent, ResponseStreamEvent
from openresponses.v1.item_pb2 import OutputItem
from openresponses.v1.response_pb2 import Response, ResponseError
from openresponses.v1.status_pb2 import (
    RESPONSE_STATUS_CANCELLED,
    RESPONSE_STATUS_FAILED,
    ResponseStatus,
)

ITEM_DONE: Final = "response.output_item.done"
"""The type of the events that carry an item which is done."""


def cancelled(response: Response, items: Iterable[OutputItem], number: int) -> ResponseStreamEvent:
    """Return the event of that number, which ends a response because a client wants it to.

    OpenAI has no event of that name: the response is incomplete, and says of itself that it was cancelled.
    `items`: those that are done, which are its output.
    """
    return ResponseStreamEvent(
        type="response.incomplete",
        sequence_number=number,
        incomplete=ResponseIncompleteEvent(response=_ended(response, items, RESPONSE_STATUS_CANCELLED)),
    )


def failed(response: Response, items: Iterable[OutputItem], number: int, message: str) -> ResponseStreamEvent:
    """Return the event of that number, which ends a response because it cannot go on. As `cancelled`."""
    ended = _ended(response, items, RESPONSE_STATUS_FAILED)
    ended.error.CopyFrom(ResponseError(code="server_error", message=message))
    return ResponseStreamEvent(
        type="response.failed", sequence_number=number, failed=ResponseFailedEvent(response=ended)
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


def done_items(events: Iterable[ResponseStreamEvent]) -> list[OutputItem]:
    """Return the items that are done by events."""
    return [event.output_item_done.item for event in events if event.type == ITEM_DONE]


def _ended(response: Response, items: Iterable[OutputItem], status: ResponseStatus.ValueType) -> Response:
    ended = Response()
    ended.CopyFrom(response)
    # It may have ended before, and be gone since.
    for name in ("output", "usage", "completed_at", "error", "incomplete_details"):
        ended.ClearField(name)
    ended.output.extend(items)
    ended.status = status
    return ended
