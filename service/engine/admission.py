"""Admission: how many requests an engine works on, how many may wait, and when to say no."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from service.errors import Overloaded


class Admission:
    """Slots, and a bounded queue in front of them, first come first served.

    Attributes:
        running: slots in use.
    """

    def __init__(self, *, slots: int, max_queued_requests: int) -> None:
        self.running = 0
        self._slots = slots
        self._max_queued_requests = max_queued_requests
        self._queue: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[asyncio.Future[None], None]:
        """Take a place; yields a future that is done once the place is a slot. Leaving frees it at once.

        Raises:
            Overloaded: every slot and every place in the queue is taken.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.running < self._slots:
            self.running += 1
            turn.set_result(None)
        elif len(self._queue) < self._max_queued_requests:
            self._queue.append(turn)
        else:
            raise Overloaded(
                f"All {self._slots} slots are busy and {self._max_queued_requests} requests wait already: "
                "try again later.",
                # Nobody knows how long outputs will be; a second keeps clients from hammering.
                retry_after_s=1,
            )
        try:
            yield turn
        finally:
            self._leave(turn)

    def _leave(self, turn: asyncio.Future[None]) -> None:
        if not turn.done() or turn.cancelled():
            # It never had a slot; whoever waited for it may have cancelled it.
            if turn in self._queue:
                self._queue.remove(turn)
            return
        # A slot passes on directly, so that `running` never counts one twice.
        while self._queue:
            following = self._queue.popleft()
            if not following.done():
                following.set_result(None)
                return
        self.running -= 1
