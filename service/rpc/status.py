"""The only map from the domain's errors to gRPC statuses and OpenAI's error JSON.

Both forms leave in the trailing metadata of one status: google.rpc.Status with ErrorInfo (and RetryInfo) for
gRPC clients, and for the gateway the HTTP body under `openai-error`, with `retry-after` beside it. The HTTP
status follows from the gRPC code by the gateway's standard table. In the middle of an HTTP stream, where no
status can tell any more, an event does.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from openresponses.v1.event_pb2 import ResponseStreamEvent

from service.errors import (
    EngineFailed,
    InvalidRequest,
    NotFound,
    Overloaded,
    ServiceError,
    Unauthenticated,
    Unavailable,
)
from service.transport.faults import Refused

_log = logging.getLogger(__name__)

MAX_SHOWN_CHARACTERS: Final = 200
"""Of a message or a path: up to 12 bytes each where they are escaped."""
ERROR_DOMAIN: Final = "openresponses"
ERROR_BODY_KEY: Final = "openai-error"
_STATUS_DETAILS_KEY: Final = "grpc-status-details-bin"

# Error class: gRPC code, and OpenAI's error type. HTTP: 400, 401, 404, 429, 503, 500.
_CODES: Final[Mapping[type[ServiceError], tuple[grpc.StatusCode, str]]] = {
    InvalidRequest: (grpc.StatusCode.INVALID_ARGUMENT, "invalid_request_error"),
    Unauthenticated: (grpc.StatusCode.UNAUTHENTICATED, "invalid_request_error"),
    NotFound: (grpc.StatusCode.NOT_FOUND, "invalid_request_error"),
    Overloaded: (grpc.StatusCode.RESOURCE_EXHAUSTED, "rate_limit_error"),
    Unavailable: (grpc.StatusCode.UNAVAILABLE, "server_error"),
    EngineFailed: (grpc.StatusCode.INTERNAL, "server_error"),
}

_INTERNAL: Final = EngineFailed("The server had an internal error. Try again.")


class ErrorsAsStatus:
    """An async context that aborts the call with the right status when its block raises.

    Cancellation passes, and what the transport has to say. What else is not a ServiceError is a bug: it is
    logged with its traceback, and the caller is told nothing of it.
    """

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self._context = context

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, grpc.aio.AbortError | Refused):
            return
        told = as_told(error)
        code, _ = _CODES[type(told)]
        self._context.set_trailing_metadata(trailing_metadata(told))
        await self._context.abort(code, shown(told.message))


def as_told(error: Exception) -> ServiceError:
    """Return what the caller is told of an error; one that is none of the domain's is a bug, and logged."""
    if isinstance(error, ServiceError):
        return error
    _log.error("call failed", exc_info=error)
    return _INTERNAL


def error_event(error: ServiceError, sequence_number: int) -> ResponseStreamEvent:
    """Return the event that ends a stream over HTTP, whose status is sent long since."""
    _, type_ = _CODES[type(error)]
    event = ResponseStreamEvent(type="error", sequence_number=sequence_number)
    for told in (event.error, event.error.error):
        told.code = error.code
        told.message = error.message
        if error.param is not None:
            told.param = error.param
    event.error.error.type = type_
    return event


def shown(text: str) -> str:
    """Cut a text that quotes a request: statuses travel in headers, and clients refuse those above 8 KiB."""
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "..."


def trailing_metadata(error: ServiceError) -> tuple[tuple[str, str | bytes], ...]:
    """Return what goes with the status of `error`, for both kinds of client."""
    code, _ = _CODES[type(error)]
    number, _ = code.value
    details = [
        error_details_pb2.ErrorInfo(
            reason=error.code,
            domain=ERROR_DOMAIN,
            metadata={"param": shown(error.param)} if error.param is not None else {},
        )
    ]
    metadata: list[tuple[str, str | bytes]] = [(ERROR_BODY_KEY, error_body(error))]
    if isinstance(error, Overloaded):
        delay = duration_pb2.Duration(seconds=error.retry_after_s)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
        metadata.append(("retry-after", str(error.retry_after_s)))
    status = status_pb2.Status(
        code=number, message=shown(error.message), details=[_packed(d) for d in details]
    )
    return (*metadata, (_STATUS_DETAILS_KEY, status.SerializeToString()))


def error_body(error: ServiceError) -> str:
    """Return OpenAI's error JSON, in ASCII as metadata must be."""
    _, type_ = _CODES[type(error)]
    param = None if error.param is None else shown(error.param)
    return json.dumps(
        {"error": {"message": shown(error.message), "type": type_, "param": param, "code": error.code}}
    )


def _packed(message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed
