"""The end of a connection: all is said, and the client closes when it has read it."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
from contextlib import suppress
from typing import Final

CLOSING_S: Final = 5.0
"""Seconds in which a client must take something of the last, or close, before the connection is cut off."""


class Closing:
    """Lets a client read what is on its way, and cuts it off when it does not.

    Closed from here, a connection is not read any more; and where a client's frames lie unread, such as
    WINDOW_UPDATE, the kernel throws away all that is still on its way to the client.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        """Tell the client that nothing comes behind what has been written."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        transport.write_eof()
        self._timer = self._loop.call_later(CLOSING_S, self._look, self._unread_bytes())

    def stop(self) -> None:
        """The connection is lost: nothing is left to look after."""
        self._timer.cancel()

    def _look(self, unread_before: int) -> None:
        unread = self._unread_bytes()
        if unread < unread_before:
            self._timer = self._loop.call_later(CLOSING_S, self._look, unread)
        else:
            self._transport.abort()

    def _unread_bytes(self) -> int:
        """Return how many bytes the client's side has not confirmed: those here, and the kernel's."""
        kernels = bytearray(4)
        # Not every system can say.
        with suppress(OSError, ValueError):
            fcntl.ioctl(self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, kernels)
        return self._transport.get_write_buffer_size() + int.from_bytes(kernels, sys.byteorder)
