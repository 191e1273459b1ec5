"""ResponsesService: the typed face. Each message of a stream is one event."""

# The contract's names.
# ruff: noqa: N802

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import grpc
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest, ListModelsRequest, ListModelsResponse
from openresponses.v1.service_pb2_grpc import ResponsesServiceServicer
from openresponses.v1.stored_pb2 import (
    CancelResponseRequest,
    CompactedResponse,
    DeletedResponse,
    DeleteResponseRequest,
    GetResponseRequest,
    InputTokenCount,
    ItemList,
    ListInputItemsRequest,
    ResumeResponseRequest,
)

from service.api.compaction import Compactor
from service.api.responses import Responses
from service.engine.base import Engine
from service.rpc.auth import owner_of
from service.rpc.incoming import check_typed
from service.rpc.models import list_models
from service.rpc.status import ErrorsAsStatus
from service.rpc.warning import warn, warned

Context = grpc.aio.ServicerContext[Any, Any]


class ResponsesServicer(ResponsesServiceServicer):
    """Serves ResponsesService."""

    def __init__(self, responses: Responses, compactor: Compactor, engine: Engine) -> None:
        self._responses = responses
        self._compactor = compactor
        self._engine = engine

    # The transport takes a coroutine that writes as well as an iterator; the stubs know the latter only.
    async def StreamResponse(  # type: ignore[override]
        self,
        request: CreateResponseRequest,
        context: grpc.aio.ServicerContext[CreateResponseRequest, ResponseStreamEvent],
    ) -> None:
        """Stream a new response's events."""
        async with ErrorsAsStatus(context):
            await check_typed(request)
            async with (
                aclosing(self._responses.stream(request, owner_of(context))) as batches,
                aclosing(warned(batches, request, context)) as told,
            ):
                async for events in told:
                    for event in events:
                        await context.write(event)

    async def CreateResponse(self, request: CreateResponseRequest, context: Context) -> Response:
        """Return a new response whole."""
        async with ErrorsAsStatus(context):
            await check_typed(request)
            response = await self._responses.create(request, owner_of(context))
            await warn(request, context)
            return response

    async def GetResponse(self, request: GetResponseRequest, context: Context) -> Response:
        """Return a kept response."""
        async with ErrorsAsStatus(context):
            return await self._responses.get(request.response_id, owner_of(context))

    async def ResumeResponse(  # type: ignore[override]
        self,
        request: ResumeResponseRequest,
        context: grpc.aio.ServicerContext[ResumeResponseRequest, ResponseStreamEvent],
    ) -> None:
        """Stream a background response's events."""
        after = request.starting_after if request.HasField("starting_after") else -1
        async with (
            ErrorsAsStatus(context),
            aclosing(self._responses.resume(request.response_id, owner_of(context), after)) as batches,
        ):
            async for events in batches:
                for event in events:
                    await context.write(event)

    async def CancelResponse(self, request: CancelResponseRequest, context: Context) -> Response:
        """End a background response."""
        async with ErrorsAsStatus(context):
            return await self._responses.cancel(request.response_id, owner_of(context))

    async def DeleteResponse(self, request: DeleteResponseRequest, context: Context) -> DeletedResponse:
        """Forget a kept response."""
        async with ErrorsAsStatus(context):
            return await self._responses.delete(request.response_id, owner_of(context))

    async def ListInputItems(self, request: ListInputItemsRequest, context: Context) -> ItemList:
        """List a kept response's input items."""
        async with ErrorsAsStatus(context):
            return await self._responses.input_items(request.response_id, owner_of(context), request.page)

    async def CountInputTokens(self, request: CreateResponseRequest, context: Context) -> InputTokenCount:
        """Count a request's tokens."""
        async with ErrorsAsStatus(context):
            await check_typed(request)
            return await self._responses.count_tokens(request, owner_of(context))

    async def CompactResponse(self, request: CreateResponseRequest, context: Context) -> CompactedResponse:
        """Make a conversation compact."""
        async with ErrorsAsStatus(context):
            await check_typed(request)
            return await self._compactor.compact(request, owner_of(context))

    async def ListModels(self, request: ListModelsRequest, context: Context) -> ListModelsResponse:
        """List the models."""
        return list_models(self._engine)
