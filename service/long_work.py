"""Work that takes tenths of a second where its input is long: streams go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest

LONG_BYTES: Final = 65_536
"""From here on an input is worth a thread."""
_ITEM_BYTES: Final = 1024
"""An item is as much work as so many bytes of text, beside its own."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def request_bytes(request: CreateResponseRequest) -> int:
    """Return how long a request is, as `in_thread_if_long` wants it."""
    return request.ByteSize() + _ITEM_BYTES * len(request.input.items.items)


def items_bytes(items: Iterable[InputItem]) -> int:
    """Return how long items are, as `in_thread_if_long` wants it."""
    return sum(_ITEM_BYTES + item.ByteSize() for item in items)


async def in_thread_if_long(
    size_bytes: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Return what `work` does; it is done in a thread where its input is long. Raises as `work`."""
    if size_bytes < LONG_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
