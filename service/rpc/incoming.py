"""What clients send, read or checked; what is large in a thread, so that streams go on meanwhile."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message

from service.long_work import in_thread_if_long
from service.wire.openai_json import check, decode

_M = TypeVar("_M", bound=Message)


async def read_json(message_class: type[_M], data: bytes) -> _M:
    """Read a body of the HTTP face. Raises InvalidRequest as `decode`."""
    return await in_thread_if_long(len(data), decode, message_class, data)


async def check_typed(message: Message) -> None:
    """Check a message of the typed face before it is used. Raises InvalidRequest as `check`."""
    await in_thread_if_long(message.ByteSize(), check, message)
