"""Responses that are made without a client waiting: their producers, and those who follow them.

A producer is a task of this process that appends what the model says to the event log. Followers read the
log, in this process or in another one on the same database; those here are woken, the others look again after
a while. A producer that is slow to write makes the engine's tokens gather into larger flushes, as a slow
client does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import InputItem, OutputItem
from openresponses.v1.response_pb2 import Response

from service.errors import NotFound, Unavailable
from service.run.drain import STOPPED, Drain
from service.store.ending import cancelled, done_items
from service.store.event_log import Ended, EventLog
from service.store.responses import ResponseStore

POLL_S: Final = 0.25
"""Seconds after which a follower looks again for what another process has appended."""

_RENEWALS: Final = 3
"""How often a lease is renewed in its time."""
_SWEEP_S: Final = 3600.0

_log = logging.getLogger(__name__)


class Background:
    """The responses in the background. `silence_s`: seconds without an event until a follower is told so."""

    def __init__(
        self, log: EventLog, store: ResponseStore, drain: Drain, *, lease_s: float, silence_s: float
    ) -> None:
        self._log = log
        self._store = store
        self._drain = drain
        self._renew_s = lease_s / _RENEWALS
        self._silence_s = silence_s
        self._producers: dict[str, asyncio.Task[None]] = {}
        self._changes: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    async def start(
        self, owner: str, run: AsyncGenerator[list[ResponseStreamEvent], None], items: Sequence[InputItem]
    ) -> Response:
        """Make a response from here on without its caller; return it, queued.

        Raises:
            ServiceError: the run refuses the request, or its input is too large to be kept.

        """
        try:
            events = await anext(run)
            response = events[0].created.response
            await self._log.open(owner, response, items, events)
        except BaseException:
            await run.aclose()
            raise
        producer = asyncio.create_task(self._produce(response.id, run))
        self._producers[response.id] = producer
        producer.add_done_callback(lambda _: self._produced(response.id))
        return response

    async def follow(
        self, owner: str, response: Response, after: int
    ) -> AsyncGenerator[list[ResponseStreamEvent], None]:
        """Yield the events behind number `after`, in batches, up to the last; an empty batch after a silence.

        A response that is deleted meanwhile ends as one that is cancelled, with the items that were done.

        Raises:
            NotFound: the response is gone before the first of them.
            InvalidRequest: it has no event of that number, or not yet.
            Unavailable: this server has stopped, and the response is made by another one.

        """
        response_id = response.id
        if after >= 0:
            # Before anything is sent, so that a status tells it.
            await self._log.check_number(owner, response_id, after)
        done: list[OutputItem] = []
        loop = asyncio.get_running_loop()
        spoke_at = loop.time()
        while True:
            # Before the look, so that what is appended during it is not slept through.
            change = self._changes.get(response_id)
            if change is None or change.is_set():
                change = self._changes[response_id] = asyncio.Event()
            is_made_here = response_id in self._producers
            try:
                page = await self._log.read(owner, response_id, after)
            except NotFound:
                yield [cancelled(response, done, after + 1)]
                return
            if page.events:
                yield list(page.events)
                done += done_items(page.events)
                after = page.events[-1].sequence_number
                spoke_at = loop.time()
            if page.over:
                return
            if page.events:
                continue
            if self._drain.is_over and not is_made_here:
                raise Unavailable("The server was stopped: read on from another one.")
            if loop.time() - spoke_at >= self._silence_s:
                yield []
                spoke_at = loop.time()
            try:
                # What is made here wakes its followers.
                async with asyncio.timeout(self._silence_s if is_made_here else POLL_S):
                    await change.wait()
            except TimeoutError:
                continue

    async def cancel(self, owner: str, response_id: str) -> Response:
        """End a response, wherever it is made. Raises as `EventLog.cancel`."""
        response = await self._log.cancel(owner, response_id)
        self._stop(response_id)
        self._wake(response_id)
        return response

    async def watch(self) -> None:
        """Renew the leases of producers here, end responses whose producers are gone, forget what is old.

        Each for itself: a lease must be renewed in time, whatever else there is to do.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._every(self._renew_s, self._renew))
            group.create_task(self._every(self._renew_s, partial(self._log.fail_abandoned, self._producers)))
            group.create_task(self._every(_SWEEP_S, self._store.sweep))

    async def close(self) -> None:
        """Stop all producers; what they have not finished is failed."""
        producers = dict(self._producers)
        for response_id in producers:
            self._stop(response_id)
        if producers:
            await asyncio.wait(producers.values())
        for response_id in producers:
            await self._try(partial(self._log.fail, response_id, STOPPED))

    async def _produce(self, response_id: str, run: AsyncGenerator[list[ResponseStreamEvent], None]) -> None:
        async with aclosing(run) as batches:
            try:
                async for events in batches:
                    if events:
                        ended = await self._log.append(response_id, events)
                        self._wake(response_id)
                        if ended:
                            return
            except Ended:
                _log.info("response %s was ended by somebody else", response_id)
            except Exception:
                # The log cannot be written. When it can again, somebody ends the response by its lease.
                _log.exception("response %s cannot go on", response_id)

    def _produced(self, response_id: str) -> None:
        """A producer is done: its followers look, whoever has ended the response."""
        del self._producers[response_id]
        self._wake(response_id)

    async def _renew(self) -> None:
        for response_id in await self._log.renew(list(self._producers)):
            self._stop(response_id)

    def _stop(self, response_id: str) -> None:
        """Cancel a producer. Once: what it is letting go of takes a while, and must not be interrupted."""
        producer = self._producers.get(response_id)
        if producer is not None and not producer.cancelling():
            producer.cancel()

    async def _every(self, seconds: float, step: Callable[[], Awaitable[object]]) -> None:
        while True:
            await self._try(step)
            await asyncio.sleep(seconds)

    async def _try(self, step: Callable[[], Awaitable[object]]) -> None:
        try:
            await step()
        except Exception:
            _log.exception("the store cannot be tended; trying again")

    def _wake(self, response_id: str) -> None:
        if change := self._changes.get(response_id):
            change.set()
