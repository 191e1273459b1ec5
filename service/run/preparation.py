"""Preparing requests, so many at once: what is done for them before an engine admits or refuses them.

History is read, schemas are compiled, prompts are rendered: work that takes long, and memory. Documents take
longer, and have places of their own, in `files/pdf_reader.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from service.errors import Overloaded

MAX_AT_ONCE: Final = 8
"""Requests that are prepared at once; threads beyond would only wait for one another."""
MAX_WAITING: Final = 1024
"""Requests that may wait for that; beyond, they are refused. Most are prepared in a millisecond."""


class Preparation:
    """Places for requests that are prepared, first come first served."""

    def __init__(self, *, max_at_once: int = MAX_AT_ONCE, max_waiting: int = MAX_WAITING) -> None:
        self._places = asyncio.Semaphore(max_at_once)
        self._max_waiting = max_waiting
        self._waiting = 0

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None, None]:
        """Wait for a place, and hold it.

        Raises:
            Overloaded: too many wait already.

        """
        if self._places.locked() and self._waiting >= self._max_waiting:
            raise Overloaded(f"{self._waiting} requests wait to be read already: try again later.")
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()
