"""A call's response: what is written and not sent yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
        self.is_complete = False
        """Whether all of it has been sent, or never will be."""
        self._messages = bytearray()
        self._taken_bytes = 0
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
        self._taken_bytes += len(taken)
        if len(self._messages) <= HELD_BYTES:
            self._news.set()
        return taken

    def complete(self) -> None:
        """All is sent, or nothing more will be: who waits need not."""
        self.is_complete = True
        self._messages.clear()
        self._news.set()

    async def room(self, max_stall_s: float) -> bool:
        """Wait while more than HELD_BYTES wait; return False when none could be sent for `max_stall_s`."""
        return await self._waited(lambda: len(self._messages) <= HELD_BYTES, max_stall_s)

    async def completion(self, max_stall_s: float) -> bool:
        """Wait until all is sent; return False when nothing of it could be sent for `max_stall_s` seconds."""
        return await self._waited(lambda: self.is_complete, max_stall_s)

    async def _waited(self, is_over: Callable[[], bool], max_stall_s: float) -> bool:
        while not is_over():
            before = self._taken_bytes
            self._news.clear()
            try:
                async with asyncio.timeout(max_stall_s):
                    await self._news.wait()
            except TimeoutError:
                # A large message, and a client that reads it slowly, is no stall.
                if self._taken_bytes == before:
                    return False
        return True
