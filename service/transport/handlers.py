"""Running a handler: its four forms, and the status that a call ends with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import grpc

from service.transport.call import Call
from service.transport.faults import Code, Refused

_log = logging.getLogger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_UNWINDING_S: Final = 0.25
"""Seconds at the most that a call waits for those that its client has cancelled."""
_SHOWN_CHARACTERS: Final = 40
"""Of a method's name that does not exist, ASCII only: what is echoed has to be compressed."""


async def serve(
    call: Call,
    find: Callable[[Call], Awaitable[Handler | None]],
    cancelled: Collection[asyncio.Future[None]],
) -> None:
    """Handle a call from its request to the last byte of its response.

    `find` gives the handler of the call's method, or None where there is no such method; `cancelled` are this
    client's handlers that have been cancelled and have not let go yet.
    """
    try:
        if cancelled:
            # Who cancels one call and makes another counts on finding the place of the first one free.
            await asyncio.wait(cancelled, timeout=_UNWINDING_S)
        handler = await find(call)
        if handler is None:
            shown = call.path[:_SHOWN_CHARACTERS].encode("ascii", "replace").decode()
            raise Refused(Code.UNIMPLEMENTED, f"There is no method {shown}")
        await _answer(call, handler)
        call.end_as_said()
    except Refused as refused:
        call.end(refused.code, refused.message)
    except grpc.aio.AbortError:
        call.end(Code.UNKNOWN, "The call was aborted.")  # Unless by its context, which has ended it.
    except asyncio.CancelledError:
        if not call.done():
            call.end(Code.CANCELLED, "The call was cancelled.")
            raise
    except Exception as error:
        # Who writes into a call that has been cut is told so by an error, and has done nothing wrong.
        if not (call.cancelled() and isinstance(error, grpc.aio.UsageError)):
            _log.exception("%s failed", call.path)
        call.end(Code.UNKNOWN, "The server had an internal error.")
    finally:
        call.unwound()
    await call.sent()


async def _answer(call: Call, handler: Handler) -> None:
    call.use(handler.request_deserializer, handler.response_serializer)
    request = call.requests() if handler.request_streaming else await call.only_request()
    # One of the four is set, by the form of the handler.
    method: Any = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    result = method(request, call)
    if not handler.response_streaming:
        response = await result
        if call.code() is grpc.StatusCode.OK:
            await call.write(response)
    elif hasattr(result, "__aiter__"):
        async with aclosing(result) as responses:
            async for response in responses:
                await call.write(response)
    else:
        # A coroutine that writes by itself.
        await result
