"""Events as server-sent events, in messages for the gateway to pass on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Sequence
from typing import Final

from google.api.httpbody_pb2 import HttpBody
from openresponses.v1.event_pb2 import ResponseStreamEvent

from service.long_work import in_thread_if_long
from service.rpc.status import as_told, error_event
from service.wire.openai_json import encode

_EVENT_STREAM: Final = "text/event-stream"
# Server-sent events ignore lines that begin with a colon; proxies and clients see a live connection.
_KEEPALIVE: Final = HttpBody(content_type=_EVENT_STREAM, data=b": keepalive\n\n")
_MAX_BODY_EVENTS: Final = 64
"""Events to a message. A log that is read again brings many: a slow client gets them in pieces."""
_MAX_BODY_BYTES: Final = 1 << 20
"""And so many bytes of them, unless one alone has more."""


async def event_bodies(
    batches: AsyncIterator[list[ResponseStreamEvent]], after: int = -1
) -> AsyncGenerator[HttpBody, None]:
    """Yield batches as server-sent events, in messages of limited size; an empty batch is a comment.

    A fault behind the first of them becomes an event, too: no status can tell it any more. `after`: the
    number of the event before the first.

    Raises:
        Exception: what `batches` raises before it yields.

    """
    number, has_begun = after, False
    try:
        async for events in batches:
            has_begun = True
            if not events:
                yield _KEEPALIVE
                continue
            number = events[-1].sequence_number
            for size_bytes, piece in _pieces(events):
                yield _event_body(await in_thread_if_long(size_bytes, server_sent_events, piece))
    except Exception as error:
        if not has_begun:
            raise
        yield _event_body(server_sent_events([error_event(as_told(error), number + 1)]))


def _event_body(data: bytes) -> HttpBody:
    return HttpBody(content_type=_EVENT_STREAM, data=data)


def _pieces(events: Iterable[ResponseStreamEvent]) -> Iterator[tuple[int, Sequence[ResponseStreamEvent]]]:
    piece: list[ResponseStreamEvent] = []
    size_bytes = 0
    for event in events:
        event_bytes = event.ByteSize()
        if piece and (len(piece) == _MAX_BODY_EVENTS or size_bytes + event_bytes > _MAX_BODY_BYTES):
            yield size_bytes, piece
            piece, size_bytes = [], 0
        piece.append(event)
        size_bytes += event_bytes
    yield size_bytes, piece


def server_sent_events(events: Iterable[ResponseStreamEvent]) -> bytes:
    """Return events in the framing of server-sent events: line feeds only, each event whole."""
    return b"".join(
        b"event: " + event.type.encode() + b"\ndata: " + encode(event) + b"\n\n" for event in events
    )
