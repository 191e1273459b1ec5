"""The event log of responses that are made in the background.

One producer works on a response, and has it in hand by a lease that it renews. What it produces is appended
in numbered events, which any number of readers follow, in this process or in another. A response ends once:
by its producer, by a client that cancels it, or by whoever finds that its lease has run out. All three first
update the response's row while it is still active, so that exactly one of them comes first; a producer that
finds its response ended stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import InputItem, InputItemList
from openresponses.v1.response_pb2 import Response
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import InvalidRequest
from service.store.conversations import add_turn
from service.store.database import Database
from service.store.ending import cancelled, ended_response, failed
from service.store.responses import Limits, ResponseStore, new_row, no_such_response, row_bytes, status_name
from service.store.tables import EVENTS, RESPONSES

PAGE_EVENTS: Final = 500
"""Most events that are read at once."""

_ACTIVE: Final = RESPONSES.c.status.in_(("queued", "in_progress"))
_GONE: Final = "The server that made this response has stopped. Try again."


class Ended(Exception):
    """The response has ended already: there is nothing more to append."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """A stretch of a response's events."""

    events: Sequence[ResponseStreamEvent]
    over: bool
    """No event comes behind these: the response has ended."""


class EventLog:
    """Keeps events. `lease_s`: seconds after which a producer that has not renewed its lease is gone."""

    def __init__(
        self,
        database: Database,
        store: ResponseStore,
        limits: Limits,
        lease_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._store = store
        self._limits = limits
        self._lease_s = lease_s
        self._clock = clock

    async def open(
        self,
        owner: str,
        response: Response,
        items: Iterable[InputItem],
        events: Sequence[ResponseStreamEvent],
    ) -> None:
        """Begin a response with its first events; the caller is its producer.

        Raises:
            InvalidRequest: the input is too large to be kept.

        """
        row = new_row(owner, response, items, self._clock() + self._limits.ttl_s)
        if row_bytes(row) > self._limits.max_bytes:
            raise InvalidRequest(
                f"The input has more than {self._limits.max_bytes} bytes, and what is made in the background "
                "is kept: shorten it.",
                param="input",
            )
        async with self._database.writing() as connection:
            await connection.execute(RESPONSES.insert().values(**row, lease_until=self._lease()))
            await _insert(connection, response.id, events)

    async def append(self, response_id: str, events: Sequence[ResponseStreamEvent]) -> None:
        """Append events, the last of which may end the response.

        Raises:
            Ended: somebody else has ended it, or it has been deleted.

        """
        response = ended_response(events[-1])
        async with self._database.writing() as connection:
            changes = {"status": "in_progress"} if response is None else self._ending(response)
            await self._touch(connection, response_id, **changes)
            await _insert(connection, response_id, events)
            if response is not None:
                await _add_to_conversation(connection, response)

    async def renew(self, response_ids: Sequence[str]) -> frozenset[str]:
        """Renew the leases of a producer; return the ids of the responses that have ended without it."""
        if not response_ids:
            return frozenset()
        mine = RESPONSES.c.id.in_(response_ids) & _ACTIVE
        async with self._database.writing() as connection:
            await connection.execute(update(RESPONSES).where(mine).values(lease_until=self._lease()))
            active = await connection.scalars(select(RESPONSES.c.id).where(mine))
            return frozenset(response_ids) - frozenset(active)

    async def read(self, owner: str, response_id: str, after: int) -> LogPage:
        """Return the events behind number `after`, `PAGE_EVENTS` of them at most.

        Raises:
            NotFound: the response is not there or belongs to somebody else.

        """
        rows = (
            select(EVENTS.c.event)
            .where(EVENTS.c.response_id == response_id, EVENTS.c.sequence_number > after)
            .order_by(EVENTS.c.sequence_number)
            .limit(PAGE_EVENTS)
        )
        active = select(_ACTIVE).where(self._store.visible(owner, response_id))
        async with self._database.reading() as connection:
            is_active = await connection.scalar(active)
            if is_active is None:
                raise no_such_response(response_id)
            events = [ResponseStreamEvent.FromString(event) for event in await connection.scalars(rows)]
        return LogPage(events, over=not is_active and len(events) < PAGE_EVENTS)

    async def cancel(self, owner: str, response_id: str) -> Response:
        """End a response because its owner wants it to; one that has ended is returned as it is.

        Raises:
            NotFound: the response is not there or belongs to somebody else.
            InvalidRequest: it was not made in the background.

        """
        stored = await self._store.get(owner, response_id)
        if not stored.background:
            raise InvalidRequest(
                "Only a response that was created with background: true can be cancelled.",
                param="response_id",
            )
        try:
            return await self._end(response_id, cancelled)
        except Ended:
            return (await self._store.get(owner, response_id)).response

    async def fail(self, response_id: str, message: str = _GONE) -> None:
        """End a response that its producer cannot end; one that has ended stays as it is."""
        try:
            await self._end(response_id, lambda events: failed(events, message))
        except Ended:
            return

    async def fail_abandoned(self) -> None:
        """End the responses whose producers are gone."""
        query = select(RESPONSES.c.id).where(RESPONSES.c.lease_until < self._clock(), _ACTIVE)
        async with self._database.reading() as connection:
            abandoned = list(await connection.scalars(query))
        for response_id in abandoned:
            await self._end_abandoned(response_id)

    async def _end_abandoned(self, response_id: str) -> None:
        try:
            await self._end(
                response_id, lambda events: failed(events, _GONE), RESPONSES.c.lease_until < self._clock()
            )
        except Ended:
            # Its producer, or another replica, was quicker.
            return

    async def _end(
        self,
        response_id: str,
        ending: Callable[[Iterable[ResponseStreamEvent]], ResponseStreamEvent],
        *conditions: Any,
    ) -> Response:
        rows = (
            select(EVENTS.c.event)
            .where(EVENTS.c.response_id == response_id)
            .order_by(EVENTS.c.sequence_number)
        )
        async with self._database.writing() as connection:
            await self._touch(connection, response_id, *conditions)
            events = await connection.scalars(rows)
            event = ending(map(ResponseStreamEvent.FromString, events))
            response = ended_response(event)
            assert response is not None
            await connection.execute(
                update(RESPONSES).where(RESPONSES.c.id == response_id).values(**self._ending(response))
            )
            await _insert(connection, response_id, [event])
            await _add_to_conversation(connection, response)
            return response

    async def _touch(
        self, connection: AsyncConnection, response_id: str, *conditions: Any, **changes: Any
    ) -> None:
        """Renew the lease of an active response and change it; the row is locked from here on.

        Raises:
            Ended: it is not active any more.

        """
        done = await connection.execute(
            update(RESPONSES)
            .where(RESPONSES.c.id == response_id, _ACTIVE, *conditions)
            .values(lease_until=self._lease(), **changes)
        )
        if not done.rowcount:
            raise Ended

    def _ending(self, response: Response) -> dict[str, Any]:
        return {
            "status": status_name(response),
            "response": response.SerializeToString(),
            "expires_at": int(self._clock() + self._limits.ttl_s),
        }

    def _lease(self) -> float:
        return self._clock() + self._lease_s


async def _insert(
    connection: AsyncConnection, response_id: str, events: Iterable[ResponseStreamEvent]
) -> None:
    rows = [
        {
            "response_id": response_id,
            "sequence_number": event.sequence_number,
            "event": event.SerializeToString(),
        }
        for event in events
    ]
    await connection.execute(EVENTS.insert(), rows)


async def _add_to_conversation(connection: AsyncConnection, response: Response) -> None:
    if not response.HasField("conversation"):
        return
    query = select(RESPONSES.c.owner, RESPONSES.c.input).where(RESPONSES.c.id == response.id)
    row = (await connection.execute(query)).one()
    await add_turn(connection, row.owner, response, InputItemList.FromString(row.input).items)
