"""The store's parts on a database of a test's own, in the test's process, with a clock that the test sets."""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from openresponses.v1.event_pb2 import (
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseInProgressEvent,
    ResponseOutputItemDoneEvent,
    ResponseStreamEvent,
    ResponseTextDeltaEvent,
)
from openresponses.v1.item_pb2 import ROLE_USER, InputItem, InputMessage, OutputItem, ReasoningItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED, RESPONSE_STATUS_QUEUED
from sqlalchemy import event, func, select

from service.store.conversations import ConversationStore
from service.store.database import Database
from service.store.event_log import EventLog
from service.store.responses import Limits, ResponseStore
from service.store.tables import LEASES

LEASE_S = 10


@dataclass
class Stores:
    """One replica's parts. `now` is their clock, Unix time in seconds."""

    database: Database
    limits: Limits
    now: float = 1_700_000_000.0
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        self.conversations = ConversationStore(self.database, lambda: uuid.uuid4().hex)
        self.responses = ResponseStore(self.database, self.conversations, self.limits, lambda: self.now)
        self.log = EventLog(self.database, self.responses, self.limits, LEASE_S, lambda: self.now)

    async def begin(self, **fields: object) -> Response:
        """Begin a response in the background, and return it."""
        response = a_response(background=True, status=RESPONSE_STATUS_QUEUED, **fields)
        created = ResponseStreamEvent(
            type="response.created", created=ResponseCreatedEvent(response=response), sequence_number=0
        )
        await self.log.open(self.owner, response, [said("Hi", f"in_{response.id}")], [created])
        return response

    async def leases(self) -> int:
        """How many responses are being made."""
        async with self.database.reading() as connection:
            return await connection.scalar(select(func.count()).select_from(LEASES)) or 0

    def statements(self) -> list[str]:
        """The list that gets every statement from here on."""
        seen: list[str] = []
        engine = self.database._engine.sync_engine
        event.listen(engine, "before_cursor_execute", lambda *call: seen.append(call[2]))
        event.listen(engine, "commit", lambda _: seen.append("COMMIT"))
        return seen


@asynccontextmanager
async def stores(url: str, *, ttl_s: int = 1000, max_bytes: int = 10**8) -> AsyncIterator[Stores]:
    """Open a database, as a replica does."""
    database = await Database.open(url)
    try:
        yield Stores(database, Limits(ttl_s, max_bytes))
    finally:
        await database.close()


def a_response(**fields: object) -> Response:
    """A response that has completed, unless the fields say otherwise."""
    conversation = fields.pop("conversation", None)
    whole = {"id": f"resp_{uuid.uuid4().hex}", "status": RESPONSE_STATUS_COMPLETED, "store": True, **fields}
    response = Response(**whole)  # type: ignore[arg-type]
    if conversation:
        response.conversation.id = str(conversation)
    return response


def said(text: str, name: str = "") -> InputItem:
    """A message of the user, as it is kept."""
    message = InputMessage(role=ROLE_USER, id=name)
    message.content.parts.parts.add().input_text.text = text
    return InputItem(message=message)


def thought(text: str, name: str) -> OutputItem:
    """An item that the model has written."""
    item = OutputItem(reasoning=ReasoningItem(id=name))
    item.reasoning.content.add(text=text)
    return item


def the_events(response: Response, items: Sequence[OutputItem], deltas: int = 0) -> list[ResponseStreamEvent]:
    """The events behind a response's first, up to its end."""
    done = Response()
    done.CopyFrom(response)
    done.status = RESPONSE_STATUS_COMPLETED
    done.output.extend(items)
    number = itertools.count(1)
    return [
        ResponseStreamEvent(
            type="response.in_progress",
            sequence_number=next(number),
            in_progress=ResponseInProgressEvent(response=response),
        ),
        *(
            ResponseStreamEvent(
                type="response.output_text.delta",
                sequence_number=next(number),
                output_text_delta=ResponseTextDeltaEvent(delta="word "),
            )
            for _ in range(deltas)
        ),
        *(
            ResponseStreamEvent(
                type="response.output_item.done",
                sequence_number=next(number),
                output_item_done=ResponseOutputItemDoneEvent(output_index=i, item=item),
            )
            for i, item in enumerate(items)
        ),
        ResponseStreamEvent(
            type="response.completed",
            sequence_number=next(number),
            completed=ResponseCompletedEvent(response=done),
        ),
    ]


def scenario(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**fixtures), 60))

    return run


async def texts(at: Stores, conversation_id: str) -> list[str]:
    """What the items of a conversation say."""
    items = await at.conversations.history(at.owner, conversation_id, [])
    return [
        item.message.content.parts.parts[0].input_text.text
        if item.HasField("message")
        else item.reasoning.content[0].text
        for item in items
    ]


async def status(at: Stores, response: Response) -> int:
    """A response's status, as it is kept."""
    return (await at.responses.get(at.owner, response.id)).response.status
