"""Writing a stream to its client, with a limit to how long the client may leave it unread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, TypeVar, cast

import grpc

from service.errors import ReaderStalled
from service.transport.call import Call
from service.transport.outgoing import Outgoing

_Message = TypeVar("_Message")

_LOOKS: Final = 4
"""How often a stall is looked for in the time that it may take."""


async def deliver(
    context: grpc.aio.ServicerContext[Any, _Message],
    batches: AsyncIterator[Iterable[_Message]],
    *,
    max_stall_s: float,
) -> None:
    """Write every message of every batch, each as soon as the client has room for it.

    Raises:
        ReaderStalled: the client has read nothing of a message for `max_stall_s`, give or take a quarter.

    """
    watch = _StallWatch(max_stall_s, cast("Call", context).outgoing)
    try:
        async for messages in batches:
            for message in messages:
                watch.begin()
                await context.write(message)
            watch.end()
    except asyncio.CancelledError:
        if watch.stalled and not watch.others_cancelled():
            raise ReaderStalled(
                f"The client has read nothing for {max_stall_s:g} s: read faster, or ask for fewer events "
                "with stream_options.stream_interval."
            ) from None
        raise
    finally:
        watch.stop()


class _StallWatch:
    """Cancels the task that has made it when a write takes too long.

    It looks at intervals instead of setting a timer for each write, which would cost as much as an event.
    """

    def __init__(self, max_stall_s: float, outgoing: Outgoing) -> None:
        self.stalled = False
        self._outgoing = outgoing
        self._taken_bytes = 0
        self._max_stall_s = max_stall_s
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._began_at: float | None = None
        self._timer = self._loop.call_later(max_stall_s / _LOOKS, self._look)

    def begin(self) -> None:
        self._began_at = self._loop.time()
        self._taken_bytes = self._outgoing.taken_bytes

    def end(self) -> None:
        self._began_at = None

    def stop(self) -> None:
        self._timer.cancel()

    def others_cancelled(self) -> bool:
        """Take the watch's own cancellation back; whether there are others."""
        return self._task is None or self._task.uncancel() > 0

    def _look(self) -> None:
        if self._began_at is not None and self._outgoing.taken_bytes != self._taken_bytes:
            # A large message, and a client that reads it slowly.
            self.begin()
        if self._began_at is not None and self._loop.time() - self._began_at >= self._max_stall_s:
            self.stalled = True
            if self._task is not None:
                self._task.cancel()
        else:
            self._timer = self._loop.call_later(self._max_stall_s / _LOOKS, self._look)
