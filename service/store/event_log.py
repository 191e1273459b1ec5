"""The event log of responses that are made in the background.

One producer works on a response, and has it in hand by a lease that it renews. What it produces is appended
in numbered events, which any number of readers follow, in this process or in another. A response ends once:
by its producer, by a client that cancels it, or by whoever finds that its lease has run out. All three hold
the lease's row first, and delete it, so that exactly one of them comes first; a producer that finds its lease
gone stops.

A response that becomes too large to be kept ends as failed, with the items that did fit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import InputItem, InputItemList, OutputItem
from openresponses.v1.response_pb2 import Response
from sqlalchemy import delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import InvalidRequest
from service.store.database import Database
from service.store.ending import ITEM_DONE, cancelled, done_items, ended_response, failed
from service.store.responses import Limits, ResponseStore, new_row, no_such_response, row_bytes, status_name
from service.store.tables import EVENTS, LEASES, NEVER, RESPONSES

PAGE_EVENTS: Final = 500
"""Most events that are read at once."""

_GONE: Final = "The server that made this response has stopped. Try again."

_log = logging.getLogger(__name__)

_Ending = Callable[[Response, Iterable[OutputItem], int], ResponseStreamEvent]
"""Makes the event that ends a response, from what it was at first, its items, and the event's number."""


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
        row = new_row(owner, response, items, NEVER)
        if row_bytes(row) > self._limits.max_bytes:
            raise InvalidRequest(
                f"The input has more than {self._limits.max_bytes} bytes, and what is made in the background "
                "is kept: shorten it.",
                param="input",
            )
        async with self._database.writing() as connection:
            await connection.execute(RESPONSES.insert().values(**row))
            await connection.execute(
                LEASES.insert().values(response_id=response.id, lease_until=self._lease_until())
            )
            await _insert(connection, response.id, events)

    async def append(self, response_id: str, events: Sequence[ResponseStreamEvent]) -> bool:
        """Append events; return whether the response has ended: by the last of them, or as too large.

        Raises:
            Ended: somebody else has ended it, or it has been deleted.

        """
        async with self._database.writing() as connection:
            await self._hold(connection, response_id)
            fitting = await self._fitting(connection, response_id, events)
            if len(fitting) < len(events):
                _log.warning("response %s is too large to be kept", response_id)
                await _insert(connection, response_id, fitting)
                await self._break_off(connection, response_id, partial(failed, message=self._too_large()))
                return True
            if ended_response(events[-1]):
                await _insert(connection, response_id, events[:-1])
                await self._finish(connection, response_id, events[-1])
                return True
            if any(event.HasField("in_progress") for event in events):
                # Not with every flush: the row holds the input, too.
                await connection.execute(
                    update(RESPONSES).where(RESPONSES.c.id == response_id).values(status="in_progress")
                )
            await _insert(connection, response_id, events)
            return False

    async def renew(self, response_ids: Sequence[str]) -> frozenset[str]:
        """Renew the leases of a producer; return the ids of the responses that have ended without it."""
        if not response_ids:
            return frozenset()
        mine = LEASES.c.response_id.in_(response_ids)
        async with self._database.writing() as connection:
            held = select(LEASES.c.response_id).where(mine).order_by(LEASES.c.response_id).with_for_update()
            active = list(await connection.scalars(held))
            await connection.execute(update(LEASES).where(mine).values(lease_until=self._lease_until()))
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
        active = select(exists().where(LEASES.c.response_id == RESPONSES.c.id)).where(
            self._store.visible(owner, response_id)
        )
        async with self._database.reading() as connection:
            is_active = await connection.scalar(active)
            if is_active is None:
                raise no_such_response(response_id)
            events = [ResponseStreamEvent.FromString(event) for event in await connection.scalars(rows)]
        return LogPage(events, over=not is_active and len(events) < PAGE_EVENTS)

    async def check_number(self, owner: str, response_id: str, number: int) -> None:
        """Check that a number is not beyond a response's last event so far.

        Raises:
            NotFound: as `read`.
            InvalidRequest: it is.

        """
        last = (
            select(func.max(EVENTS.c.sequence_number))
            .join(RESPONSES, RESPONSES.c.id == EVENTS.c.response_id)
            .where(self._store.visible(owner, response_id))
        )
        async with self._database.reading() as connection:
            found = await connection.scalar(last)
        if found is None:
            raise no_such_response(response_id)
        if number > found:
            raise InvalidRequest(
                f"starting_after is {number}, and the last event has number {found}.", param="starting_after"
            )

    async def cancel(self, owner: str, response_id: str) -> Response:
        """End a response because its owner wants it to; one that has ended is returned as it is.

        Raises:
            NotFound: the response is not there or belongs to somebody else.
            InvalidRequest: it was not made in the background.

        """
        if not await self._store.is_background(owner, response_id):
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
            await self._end(response_id, partial(failed, message=message))
        except Ended:
            return

    async def fail_abandoned(self, alive: Collection[str]) -> None:
        """End the responses whose producers are gone. `alive`: the ids of those that are made here."""
        run_out = LEASES.c.lease_until < self._clock()
        async with self._database.reading() as connection:
            abandoned = list(await connection.scalars(select(LEASES.c.response_id).where(run_out)))
        for response_id in abandoned:
            if response_id not in alive:
                try:
                    await self._end(response_id, partial(failed, message=_GONE), run_out)
                except Ended:
                    # Its producer, or another replica, was quicker.
                    continue
                except Exception:
                    # The others end all the same.
                    _log.exception("response %s cannot be ended; trying again", response_id)

    async def _end(self, response_id: str, ending: _Ending, *conditions: Any) -> Response:
        """End a response that its producer does not end. Raises Ended as `append`, or on other conditions."""
        async with self._database.writing() as connection:
            await self._hold(connection, response_id, *conditions)
            return await self._break_off(connection, response_id, ending)

    async def _hold(self, connection: AsyncConnection, response_id: str, *conditions: Any) -> None:
        """Renew a lease; its row is locked from here on. Raises Ended when there is none."""
        held = update(LEASES).where(LEASES.c.response_id == response_id, *conditions)
        done = await connection.execute(held.values(lease_until=self._lease_until()))
        if not done.rowcount:
            raise Ended

    async def _fitting(
        self, connection: AsyncConnection, response_id: str, events: Sequence[ResponseStreamEvent]
    ) -> Sequence[ResponseStreamEvent]:
        """Return the events up to the first item that makes the response too large to be kept."""
        if not done_items(events):
            return events
        row = func.length(RESPONSES.c.response) + func.length(RESPONSES.c.input)
        items = select(func.coalesce(func.sum(func.length(EVENTS.c.event)), 0)).where(
            EVENTS.c.response_id == response_id, EVENTS.c.type == ITEM_DONE
        )
        total = select(row + items.scalar_subquery()).where(RESPONSES.c.id == response_id)
        size: int = (await connection.execute(total)).scalar_one()
        for i, event in enumerate(events):
            if event.type == ITEM_DONE:
                size += event.ByteSize()
                if size > self._limits.max_bytes:
                    return events[:i]
        return events

    async def _break_off(self, connection: AsyncConnection, response_id: str, ending: _Ending) -> Response:
        """End a response with the items that are done; its lease is held."""
        of_response = EVENTS.c.response_id == response_id
        number = select(func.max(EVENTS.c.sequence_number) + 1).where(of_response).scalar_subquery()
        first = select(RESPONSES.c.response, number).where(RESPONSES.c.id == response_id)
        response, next_number = (await connection.execute(first)).one()
        # Of its thousands of events only these: all others wait to be written meanwhile.
        items = select(EVENTS.c.event).where(of_response, EVENTS.c.type == ITEM_DONE)
        done = await connection.scalars(items.order_by(EVENTS.c.sequence_number))
        output = done_items(map(ResponseStreamEvent.FromString, done))
        event = ending(Response.FromString(response), output, next_number)
        return await self._finish(connection, response_id, event)

    async def _finish(
        self, connection: AsyncConnection, response_id: str, event: ResponseStreamEvent
    ) -> Response:
        """Write how a response has ended, and return it; its lease is held, and goes."""
        response = ended_response(event)
        assert response is not None
        await connection.execute(delete(LEASES).where(LEASES.c.response_id == response_id))
        changes = {
            "status": status_name(response),
            "response": response.SerializeToString(),
            "expires_at": self._store.expiry(),
        }
        await connection.execute(update(RESPONSES).where(RESPONSES.c.id == response_id).values(**changes))
        await _insert(connection, response_id, [event])
        row = select(RESPONSES.c.owner, RESPONSES.c.input).where(RESPONSES.c.id == response_id)
        owner, new = (await connection.execute(row)).one()
        items = InputItemList.FromString(new).items if response.HasField("conversation") else ()
        await self._store.go_on(connection, owner, response, items)
        return response

    def _too_large(self) -> str:
        return (
            f"The response has more than {self._limits.max_bytes} bytes, which is the most that is kept: ask "
            "for less, or without background."
        )

    def _lease_until(self) -> float:
        return self._clock() + self._lease_s


async def _insert(
    connection: AsyncConnection, response_id: str, events: Iterable[ResponseStreamEvent]
) -> None:
    rows = [
        {
            "response_id": response_id,
            "sequence_number": event.sequence_number,
            "type": event.type,
            "event": event.SerializeToString(),
        }
        for event in events
    ]
    if rows:
        await connection.execute(EVENTS.insert(), rows)
