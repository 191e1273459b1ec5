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


async def warned(
    batches: AsyncGenerator[_Batch, None], request: CreateResponseRequest, context: _Context
) -> AsyncGenerator[_Batch, None]:
    """Yield the batches; tell before the first. A header that goes out earlier would fix the status, too."""
    is_first = True
    async for batch in batches:
        if is_first:
            await warn(request, context)
            is_first = False
        yield batch


async def warn(request: CreateResponseRequest, context: _Context) -> None:
    """Tell which tools of a request the model is not shown: clients send them whoever serves them."""
    if unoffered := unoffered_tool_types(request):
        names = ", ".join(unoffered).encode("ascii", "replace").decode()
        text = "".join(c if c.isprintable() else "?" for c in f"tools left out, not offered here: {names}")
        text = text[:_MAX_CHARACTERS]
        _log.warning("%s", text)
        await context.send_initial_metadata(((WARNING_KEY, text),))
