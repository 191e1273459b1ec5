"""Draining: once the server is stopping, running responses finish and new ones are refused.

What still runs when the time for it is over is told to end, so that clients and stores hear of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from service.errors import ServiceError, Unavailable

STOPPED: Final = "The server was stopped before the response was done. Try again."
"""What a response says of itself that outlasts its server."""

_ENDING_S: Final = 2.0
"""Seconds that responses have for their last event, from when they are told to end: it is sent and kept."""


class Drain:
    """Counts the responses that run.

    Attributes:
        is_over: the time to finish is over: what still runs is to end.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._running = 0
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._break_offs: set[Callable[[ServiceError], None]] = set()

    def check_open(self) -> None:
        """Return while new responses are welcome.

        Raises:
            Unavailable: the server is stopping.
        """
        if self._stopping:
            raise Unavailable("The server is stopping: try again, elsewhere or later.")

    @contextmanager
    def response(self) -> Generator[None, None, None]:
        """Count one response for as long as it runs, unless new ones are refused.

        Raises:
            Unavailable: the server is stopping.
        """
        self.check_open()
        with self.counted():
            yield

    @contextmanager
    def counted(self) -> Generator[None, None, None]:
        """Count what is to be waited for, such as what belongs to a response that has been let in."""
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    @contextmanager
    def told(self, break_off: Callable[[ServiceError], None]) -> Generator[None, None, None]:
        """Have `break_off` called, with what the client is to be told, when the time to finish is over."""
        self._break_offs.add(break_off)
        if self.is_over:
            break_off(Unavailable(STOPPED))
        try:
            yield
        finally:
            self._break_offs.discard(break_off)

    async def stop(self, grace_s: float) -> None:
        """Refuse new responses from now on, and return once none runs.

        What runs after `grace_s` seconds is told to end. It is left to itself when that takes long, too: a
        client that does not read keeps its response from ending.
        """
        self._stopping = True
        if await self._is_idle(grace_s):
            return
        self.is_over = True
        for break_off in tuple(self._break_offs):
            break_off(Unavailable(STOPPED))
        await self._is_idle(_ENDING_S)

    async def _is_idle(self, timeout_s: float) -> bool:
        """Wait until nothing runs; return False when `timeout_s` seconds were over before."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
