"""API keys: who may call, and whose responses they are.

A call carries its key as OpenAI's clients send it, `authorization: Bearer KEY`. Where the server has a file
of keys, any other is refused. In any case what is kept belongs to the key that it was made with.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc

from service.errors import StartupError, Unauthenticated
from service.rpc.status import ErrorsAsStatus

_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_BEARER: Final = "bearer "
# Probes have no key, and the contract is no secret.
_OPEN_SERVICES: Final = (
    "/grpc.health.v1.Health/",
    "/grpc.reflection.",
    "/openresponses.v1.OpenAIHttpService/GetHealth",
)


def read_keys(path: Path) -> frozenset[str]:
    """Return the keys of a file: one a line, without empty lines and those that begin with `#`.

    Raises:
        StartupError: the file cannot be read, or holds none, or one that is not printable ASCII.

    """
    try:
        # Notes may be in any encoding.
        lines = [line.strip() for line in path.read_bytes().splitlines()]
    except OSError as error:
        raise StartupError(f"The file of API keys {path} cannot be read. See --api-keys-file.") from error
    keys = set[str]()
    for number, line in enumerate(lines, 1):
        if line and not line.startswith(b"#"):
            key = line.decode("latin-1")
            # Headers are bytes, and clients do not agree on those of other characters.
            if not (key.isascii() and key.isprintable()):
                raise StartupError(
                    f"Line {number} of {path} is no API key: keys are printable ASCII. See --api-keys-file."
                )
            keys.add(key)
    if not keys:
        raise StartupError(f"The file {path} holds no API key. See --api-keys-file.")
    return frozenset(keys)


def owner_of(context: grpc.aio.ServicerContext[Any, Any]) -> str:
    """Return the mark of the key that a call came with; it does not tell the key."""
    return hashlib.sha256(_key(context.invocation_metadata()).encode()).hexdigest()[:32]


class ApiKeys(grpc.aio.ServerInterceptor):
    """Refuses calls without one of the server's keys."""

    def __init__(self, keys: frozenset[str]) -> None:
        self._keys = [key.encode() for key in keys]

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler | None:
        """Let a call pass, or put a refusal in the place of its handler."""
        handler = await continuation(handler_call_details)
        if handler is None or self._may_pass(handler_call_details):
            return handler
        # Whatever form its requests have: none is waited for, nor read.
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                _refuse_stream, handler.request_deserializer, handler.response_serializer
            )
        return grpc.stream_unary_rpc_method_handler(
            _refuse, handler.request_deserializer, handler.response_serializer
        )

    def _may_pass(self, call: grpc.HandlerCallDetails) -> bool:
        if call.method.startswith(_OPEN_SERVICES):
            return True
        given = _key(call.invocation_metadata or ()).encode()
        # All of them, whichever fits: the time it takes says nothing.
        return sum([hmac.compare_digest(given, key) for key in self._keys]) > 0


def _key(metadata: Sequence[tuple[str, str | bytes]] | Any) -> str:
    for name, value in metadata:
        if name == "authorization" and isinstance(value, str) and value[:7].lower() == _BEARER:
            return value[7:].strip()
    return ""


async def _refuse(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    async with ErrorsAsStatus(context):
        raise Unauthenticated("The API key is missing or wrong: send authorization: Bearer KEY.")


async def _refuse_stream(requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await _refuse(requests, context)
