"""A call's response: what is written and not sent yet."""

from __future__ import annotations

import asyncio
from typing import Final

from service.transport.framing import framed
from service.transport.headers import Field

HELD_BYTES: Final = 16_384
"""How much of a response may wait to be sent before its writer has to wait, too. One message more may come on
top: so much memory, beside the transport's and the kernel's, does a client that reads nothing cost."""


class Outgoing:
    """One response, filled by its call and emptied by its connection: head, messages, trailers."""

    def __init__(self) -> None:
        self.head: list[Field] | None = None
        """Header fields to send first, or None once they are sent, or where the trailers are all there is."""
        self.trailers: list[Field] | None = None
        """Header fields to send last; None while the response goes on."""
        self.taken_bytes = 0
        """How many bytes of messages have been taken to be sent so far."""
        self.is_complete = False
        """Whether all of it has been sent, or never will be."""
        self._messages = bytearray()
        self._news = asyncio.Event()

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of messages wait to be sent."""
        return len(self._messages)

    def add(self, message: bytes) -> None:
        """Put a message behind those that wait."""
        self._messages += framed(message)

    def take(self, most: int) -> bytes:
        """Return the next bytes to send, `most` at the most."""
        if most < len(self._messages):
            taken = bytes(memoryview(self._messages)[:most])
            del self._messages[:most]
        else:
            taken = bytes(self._messages)
            self._messages.clear()
        self.taken_bytes += len(taken)
        if len(self._messages) <= HELD_BYTES:
            self._news.set()
        return taken

    def complete(self) -> None:
        """All is sent, or nothing more will be: who waits need not."""
        self.is_complete = True
        self._messages.clear()
        self._news.set()

    async def room(self) -> None:
        """Wait while more than HELD_BYTES wait to be sent."""
        while len(self._messages) > HELD_BYTES:
            self._news.clear()
            await self._news.wait()

    async def completion(self, stall_s: float) -> bool:
        """Wait until all is sent; return False when nothing of it could be sent for `stall_s` seconds."""
        while not self.is_complete:
            before = len(self._messages)
            self._news.clear()
            try:
                async with asyncio.timeout(stall_s):
                    await self._news.wait()
            except TimeoutError:
                if len(self._messages) == before:
                    return False
        return True
