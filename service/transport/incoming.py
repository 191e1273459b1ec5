"""A call's request: messages that wait to be read, and how much more the client may send meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from service.transport.faults import Code, Refused
from service.transport.framing import MessageReader


class Incoming:
    """One request, fed by its connection and read by its call.

    While only a part of a message is held, what comes is acknowledged at once, or a message larger than the
    window would never become whole. While whole messages wait to be read nothing is acknowledged: so no more
    than a window of them ever waits.
    """

    def __init__(self, reader: MessageReader, acknowledge: Callable[[int], None]) -> None:
        """`acknowledge`: gives the client so many bytes of its windows back."""
        self.has_ended = False
        """Whether the client has sent all that it will."""
        self._reader = reader
        self._acknowledge = acknowledge
        self._messages: deque[bytes] = deque()
        self._unacknowledged_bytes = 0
        self._is_discarded = False
        self._news = asyncio.Event()

    def feed(self, data: bytes, window_bytes: int) -> None:
        """Take bytes of the request, which have used up so much of the client's windows.

        Raises:
            Refused: they are not gRPC's messages.
        """
        self._unacknowledged_bytes += window_bytes
        try:
            if not self._is_discarded:
                self._messages += self._reader.feed(data)
        finally:
            self._release()
        self._news.set()

    def end(self) -> None:
        """The client has ended its request.

        Raises:
            Refused: in the middle of a message.
        """
        self.has_ended = True
        self._news.set()
        if self._reader.holds_a_part and not self._is_discarded:
            raise Refused(Code.INTERNAL, "The request ends in the middle of a message.")

    def discard(self) -> None:
        """Nothing will be read any more: whatever comes is acknowledged and forgotten."""
        self._is_discarded = True
        self._messages.clear()
        self._release()

    async def read(self) -> bytes | None:
        """Wait for the next message and return it; None when there is none left."""
        while not self._messages:
            if self.has_ended:
                return None
            self._news.clear()
            await self._news.wait()
        message = self._messages.popleft()
        self._release()
        return message

    def _release(self) -> None:
        if self._unacknowledged_bytes and not self._messages:
            self._acknowledge(self._unacknowledged_bytes)
            self._unacknowledged_bytes = 0
