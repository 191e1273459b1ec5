"""Writing a stream to its client, with a limit to how long the client may leave it unread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar

import grpc

from service.errors import ReaderStalled

_Message = TypeVar("_Message")


async def deliver(
    context: grpc.aio.ServicerContext[Any, _Message],
    batches: AsyncIterator[Iterable[_Message]],
    *,
    max_stall_s: float,
) -> None:
    """Write every message of every batch, each as soon as the client has room for it.

    Raises:
        ReaderStalled: the client has left a batch unread for `max_stall_s`.

    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(None) as stall:
            async for messages in batches:
                stall.reschedule(loop.time() + max_stall_s)
                for message in messages:
                    await context.write(message)
                # Waiting for the engine is nothing that the client does.
                stall.reschedule(None)
    except TimeoutError as error:
        if not stall.expired():
            raise
        raise ReaderStalled(
            f"The client has read nothing for {max_stall_s:g} s: read faster, or ask for fewer events with "
            "stream_options.stream_interval."
        ) from error
