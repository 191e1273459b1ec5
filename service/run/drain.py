"""Draining: once the server is stopping, running responses finish and new ones are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from service.errors import Unavailable


class Drain:
    """Counts the responses that run."""

    def __init__(self) -> None:
        self._running = 0
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

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

    async def stop(self, grace_s: float) -> None:
        """Refuse new responses from now on, and return once none runs, or after `grace_s` seconds."""
        self._stopping = True
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            return
