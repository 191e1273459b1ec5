"""Places: so much at once of what takes memory and time, and a line of bounded length in front of it."""

from __future__ import annotations

import asyncio
from types import TracebackType

from service.errors import Overloaded


class Places:
    """An async context that waits for a place and holds it. First come, first served.

    Raises:
        Overloaded: by entering it; too many wait already.

    """

    def __init__(self, max_at_once: int, max_waiting: int, who: str, *, retry_after_s: int = 1) -> None:
        """`who` waits, as the refused are told: "requests wait to be read"."""
        self._places = asyncio.Semaphore(max_at_once)
        self._max_waiting = max_waiting
        self._waiting = 0
        self._who = who
        self._retry_after_s = retry_after_s

    async def __aenter__(self) -> None:
        if self._places.locked() and self._waiting >= self._max_waiting:
            raise Overloaded(
                f"{self._waiting} {self._who} already: try again later.", retry_after_s=self._retry_after_s
            )
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._places.release()
