"""OpenAIHttpService: the HTTP face. Bodies are OpenAI's JSON, streams are server-sent events.

The gateway transcodes routes and statuses; what the bytes of a body are is decided here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Final

import grpc
from google.api.httpbody_pb2 import HttpBody
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.openai_http_pb2 import (
    GetHealthHttpRequest,
    GetModelHttpRequest,
    ListModelsHttpRequest,
)
from openresponses.v1.openai_http_pb2_grpc import OpenAIHttpServiceServicer
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.engine.base import Engine
from service.rpc.delivery import deliver
from service.rpc.models import get_model, list_models
from service.rpc.responses import whole_response
from service.rpc.status import ErrorsAsStatus
from service.run.drain import Drain
from service.run.run import ResponseRunner
from service.wire.openai_json import decode, encode

_JSON: Final = "application/json"
_EVENT_STREAM: Final = "text/event-stream"
# Server-sent events ignore lines that begin with a colon; proxies and clients see a live connection.
_KEEPALIVE: Final = b": keepalive\n\n"


class OpenAIHttpServicer(OpenAIHttpServiceServicer):
    """Serves OpenAIHttpService from one runner."""

    def __init__(self, runner: ResponseRunner, engine: Engine, drain: Drain, *, max_stall_s: float) -> None:
        """`max_stall_s`: seconds that a client may leave its stream unread."""
        self._max_stall_s = max_stall_s
        self._runner = runner
        self._engine = engine
        self._drain = drain

    # grpc.aio takes a coroutine that writes as well as an iterator; the stubs know the latter only.
    async def CreateResponse(  # type: ignore[override]  # noqa: N802 - the contract's name
        self, request: HttpBody, context: grpc.aio.ServicerContext[HttpBody, HttpBody]
    ) -> None:
        """Answer with one document, or with a stream, as the body's `stream` says."""
        async with ErrorsAsStatus(context):
            create = decode(CreateResponseRequest, request.data)
            if not create.stream:
                response = await whole_response(self._runner, create)
                await context.write(HttpBody(content_type=_JSON, data=encode(response)))
                return
            async with (
                aclosing(self._runner.run(create)) as batches,
                aclosing(_bodies(batches)) as bodies,
            ):
                await deliver(context, bodies, max_stall_s=self._max_stall_s)

    async def ListModels(  # noqa: N802 - the contract's name
        self,
        request: ListModelsHttpRequest,
        context: grpc.aio.ServicerContext[ListModelsHttpRequest, HttpBody],
    ) -> HttpBody:
        """List the models."""
        return HttpBody(content_type=_JSON, data=encode(list_models(self._engine)))

    async def GetModel(  # noqa: N802 - the contract's name
        self, request: GetModelHttpRequest, context: grpc.aio.ServicerContext[GetModelHttpRequest, HttpBody]
    ) -> HttpBody:
        """Describe one model."""
        async with ErrorsAsStatus(context):
            return HttpBody(content_type=_JSON, data=encode(get_model(self._engine, request.model)))

    async def GetHealth(  # noqa: N802 - the contract's name
        self, request: GetHealthHttpRequest, context: grpc.aio.ServicerContext[GetHealthHttpRequest, HttpBody]
    ) -> HttpBody:
        """Answer once the engine can serve."""
        async with ErrorsAsStatus(context):
            self._drain.check_open()
            await self._engine.health()
            return HttpBody(content_type=_JSON, data=b'{"status":"ok"}')


async def _bodies(
    batches: AsyncIterator[list[ResponseStreamEvent]],
) -> AsyncGenerator[tuple[HttpBody], None]:
    async for events in batches:
        data = server_sent_events(events) if events else _KEEPALIVE
        yield (HttpBody(content_type=_EVENT_STREAM, data=data),)


def server_sent_events(events: Iterable[ResponseStreamEvent]) -> bytes:
    """Return events in the framing of server-sent events: line feeds only, each event whole."""
    return b"".join(
        b"event: " + event.type.encode() + b"\ndata: " + encode(event) + b"\n\n" for event in events
    )
