"""Work that takes tenths of a second where its input is long: streams go on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

LONG_BYTES: Final = 65_536
"""From here on an input is worth a thread."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def in_thread_if_long(
    size_bytes: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Return what `work` does; it is done in a thread where its input is long. Raises as `work`."""
    if size_bytes < LONG_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
