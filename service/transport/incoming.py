"""A call's request: messages that wait to be read, and how much more the client may send meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from service.transport.faults import Code, Refused
from service.transport.framing import Compressed, Message, MessageReader

SILENCE_S: Final = 30.0
"""Seconds that the request of a unary call may stand still: it takes the place of another call."""
_LARGE_BYTES: Final = 1024
"""From here on a compressed message is worth a thread: it may become a thousand times as large."""
_UNPACKERS: Final = ThreadPoolExecutor(2, thread_name_prefix="uncompress")
"""Few, so that few messages are large at a time; their own, so that no other work waits behind them."""


class Incoming:
    """One request, fed by its connection and read by its call.

    While only a part of a message is held, what comes is acknowledged at once, or a message larger than the
    window would never become whole. While whole messages wait to be read nothing is acknowledged: so no more
    than a window of them ever waits. They wait as they were sent: who reads has them uncompressed.
    """

    def __init__(self, reader: MessageReader, acknowledge: Callable[[int], None]) -> None:
        """`acknowledge`: gives the client so many bytes of its windows back."""
        self.has_ended = False
        """Whether the client has sent all that it will."""
        self._reader = reader
        self._acknowledge = acknowledge
        self._messages: deque[Message] = deque()
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
        if data:
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
        """Wait for the next message and return it; None when there is none left.

        Raises:
            Refused: it is not compressed as the headers say, or becomes too large.
        """
        while not self._messages:
            if self.has_ended:
                return None
            self._news.clear()
            await self._news.wait()
        message = self._messages.popleft()
        self._release()
        if not isinstance(message, Compressed):
            return message
        if len(message.body) < _LARGE_BYTES:
            return self._reader.uncompressed(message)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_UNPACKERS, self._reader.uncompressed, message)

    async def only(self) -> bytes:
        """Wait until the client has sent all of a unary call's request, and return its message.

        Not before that is it uncompressed: who never ends the request holds no more than it has sent.

        Raises:
            Refused: as by `read`; UNIMPLEMENTED where there is none, or more than one (doc/statuscodes.md);
                DEADLINE_EXCEEDED when nothing of it comes for SILENCE_S seconds.
        """
        while not self.has_ended and len(self._messages) <= 1:
            self._news.clear()
            try:
                async with asyncio.timeout(SILENCE_S):
                    await self._news.wait()
            except TimeoutError:
                raise Refused(
                    Code.DEADLINE_EXCEEDED, f"Nothing of the request has come for {SILENCE_S:g} s."
                ) from None
        if len(self._messages) == 1 and (message := await self.read()) is not None:
            return message
        raise Refused(Code.UNIMPLEMENTED, "The method takes one request message, no more and no less.")

    def _release(self) -> None:
        if self._unacknowledged_bytes and not self._messages:
            self._acknowledge(self._unacknowledged_bytes)
            self._unacknowledged_bytes = 0
