"""ResponsesService: the typed face. Each message of a stream is one event."""

from __future__ import annotations

from contextlib import aclosing

import grpc
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest, ListModelsRequest, ListModelsResponse
from openresponses.v1.service_pb2_grpc import ResponsesServiceServicer

from service.engine.base import Engine
from service.errors import EngineFailed
from service.rpc.delivery import deliver
from service.rpc.models import list_models
from service.rpc.status import ErrorsAsStatus
from service.run.run import ResponseRunner


class ResponsesServicer(ResponsesServiceServicer):
    """Serves ResponsesService from one runner."""

    def __init__(self, runner: ResponseRunner, engine: Engine, *, max_stall_s: float) -> None:
        """`max_stall_s`: seconds that a client may leave its stream unread."""
        self._runner = runner
        self._engine = engine
        self._max_stall_s = max_stall_s

    # grpc.aio takes a coroutine that writes as well as an iterator; the stubs know the latter only.
    async def StreamResponse(  # type: ignore[override]  # noqa: N802 - the contract's name
        self,
        request: CreateResponseRequest,
        context: grpc.aio.ServicerContext[CreateResponseRequest, ResponseStreamEvent],
    ) -> None:
        """Stream a response's events."""
        async with ErrorsAsStatus(context), aclosing(self._runner.run(request)) as batches:
            await deliver(context, batches, max_stall_s=self._max_stall_s)

    async def CreateResponse(  # noqa: N802 - the contract's name
        self,
        request: CreateResponseRequest,
        context: grpc.aio.ServicerContext[CreateResponseRequest, Response],
    ) -> Response:
        """Return a response whole."""
        async with ErrorsAsStatus(context):
            return await whole_response(self._runner, request)

    async def ListModels(  # noqa: N802 - the contract's name
        self,
        request: ListModelsRequest,
        context: grpc.aio.ServicerContext[ListModelsRequest, ListModelsResponse],
    ) -> ListModelsResponse:
        """List the models."""
        return list_models(self._engine)


async def whole_response(runner: ResponseRunner, request: CreateResponseRequest) -> Response:
    """Run a response to its end and return it.

    Raises:
        EngineFailed: the model failed on the way.
        ServiceError: as `ResponseRunner.run`.
    """
    events: list[ResponseStreamEvent] = []
    async with aclosing(runner.run(request)) as batches:
        async for batch in batches:
            events = batch or events
    terminal = events[-1]
    response: Response = getattr(terminal, terminal.WhichOneof("event") or "").response
    if terminal.HasField("failed"):
        raise EngineFailed(response.error.message)
    return response
