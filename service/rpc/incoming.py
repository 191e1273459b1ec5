"""What clients send, read or checked; what is large in a thread, so that streams go on meanwhile."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from google.protobuf.message import Message

from service.wire.openai_json import check, decode

LARGE_BYTES: Final = 65_536
"""From here on a thread is worth it."""

_M = TypeVar("_M", bound=Message)


async def read_json(message_class: type[_M], data: bytes) -> _M:
    """Read a body of the HTTP face. Raises InvalidRequest as `decode`."""
    if len(data) < LARGE_BYTES:
        return decode(message_class, data)
    return await asyncio.to_thread(decode, message_class, data)


async def check_typed(message: Message) -> None:
    """Check a message of the typed face before it is used. Raises InvalidRequest as `check`."""
    if message.ByteSize() < LARGE_BYTES:
        check(message)
    else:
        await asyncio.to_thread(check, message)
