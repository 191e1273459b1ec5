"""What a request asks for and does not get, and is not refused for: told in a header and in the log."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import Any, Final, TypeAlias, TypeVar

import grpc
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.run.opening import unoffered_tool_types

WARNING_KEY: Final = "x-openresponses-warning"
_MAX_CHARACTERS: Final = 500

_Batch = TypeVar("_Batch")
_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_log = logging.getLogger(__name__)


def warned(
    batches: AsyncGenerator[_Batch, None], request: CreateResponseRequest, context: _Context
) -> AsyncGenerator[_Batch, None]:
    """Return the batches; what there is to tell is told before the first of them is given."""
    text = _warning(request)
    return _told_first(batches, text, context) if text else batches


async def warn(request: CreateResponseRequest, context: _Context) -> None:
    """Tell which tools of a request the model is not shown: clients send them whoever serves them."""
    if text := _warning(request):
        await _tell(text, context)


async def _told_first(
    batches: AsyncGenerator[_Batch, None], text: str, context: _Context
) -> AsyncGenerator[_Batch, None]:
    is_first = True
    async for batch in batches:
        if is_first:
            # Not earlier: a header that goes out fixes the status, too.
            await _tell(text, context)
            is_first = False
        yield batch


async def _tell(text: str, context: _Context) -> None:
    _log.warning("%s", text)
    await context.send_initial_metadata(((WARNING_KEY, text),))


def _warning(request: CreateResponseRequest) -> str:
    unoffered = unoffered_tool_types(request)
    if not unoffered:
        return ""
    names = ", ".join(unoffered).encode("ascii", "replace").decode()
    text = "".join(c if c.isprintable() else "?" for c in f"tools left out, not offered here: {names}")
    return text[:_MAX_CHARACTERS]
