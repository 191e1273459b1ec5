"""OpenAIHttpService: the HTTP face. Bodies are OpenAI's JSON, streams are server-sent events.

The gateway transcodes routes and statuses; what the bytes of a body are is decided here. Every operation is
that of the typed face.
"""

# The contract's names.
# ruff: noqa: N802

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import unquote

import grpc
import orjson
from google.api.httpbody_pb2 import HttpBody
from google.protobuf.message import Message
from openresponses.v1 import openai_http_pb2 as http
from openresponses.v1.conversation_pb2 import (
    CreateConversationRequest,
    CreateItemsRequest,
    UpdateConversationRequest,
)
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.openai_http_pb2_grpc import OpenAIHttpServiceServicer
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.api.compaction import Compactor
from service.api.conversations import Conversations
from service.api.responses import Responses
from service.engine.base import Engine
from service.errors import InvalidRequest
from service.long_work import in_thread_if_long
from service.rpc.auth import owner_of
from service.rpc.event_bodies import event_bodies
from service.rpc.incoming import read_json
from service.rpc.models import get_model, list_models
from service.rpc.query import boolean, number, page
from service.rpc.status import ErrorsAsStatus
from service.rpc.warning import warn, warned
from service.run.drain import Drain
from service.wire.openai_json import encode

Context = grpc.aio.ServicerContext[Any, HttpBody]

_JSON: Final = "application/json"


class OpenAIHttpServicer(OpenAIHttpServiceServicer):
    """Serves OpenAIHttpService."""

    def __init__(
        self,
        responses: Responses,
        conversations: Conversations,
        compactor: Compactor,
        engine: Engine,
        drain: Drain,
    ) -> None:
        self._responses = responses
        self._conversations = conversations
        self._compactor = compactor
        self._engine = engine
        self._drain = drain

    # Responses. The transport takes a coroutine that writes as well as an iterator; the stubs know only that.

    async def CreateResponse(self, request: HttpBody, context: Context) -> None:  # type: ignore[override]
        """Answer with one document, or with a stream, as the body's `stream` says."""
        async with ErrorsAsStatus(context):
            create, owner = await read_json(CreateResponseRequest, request.data), owner_of(context)
            if create.stream:
                async with aclosing(self._responses.stream(create, owner)) as events:
                    await self._deliver(context, warned(events, create, context))
            else:
                response = await self._responses.create(create, owner)
                await warn(create, context)
                await context.write(await _document(response))

    async def GetResponse(  # type: ignore[override]
        self, request: http.GetResponseHttpRequest, context: Context
    ) -> None:
        """Answer with one document, or with a stream, as the query's `stream` says."""
        async with ErrorsAsStatus(context):
            owner = owner_of(context)
            if request.HasField("stream") and boolean(request.stream, "stream"):
                given = request.HasField("starting_after")
                after = number(request.starting_after, "starting_after") if given else -1
                events = self._responses.resume(request.response_id, owner, after)
                await self._deliver(context, events, after)
            else:
                await context.write(await _document(await self._responses.get(request.response_id, owner)))

    async def DeleteResponse(self, request: http.DeleteResponseHttpRequest, context: Context) -> HttpBody:
        """Forget a kept response."""
        async with ErrorsAsStatus(context):
            return await _document(await self._responses.delete(request.response_id, owner_of(context)))

    async def CancelResponse(self, request: http.CancelResponseHttpRequest, context: Context) -> HttpBody:
        """End a background response."""
        async with ErrorsAsStatus(context):
            return await _document(await self._responses.cancel(request.response_id, owner_of(context)))

    async def ListInputItems(self, request: http.ListInputItemsHttpRequest, context: Context) -> HttpBody:
        """List a kept response's input items."""
        async with ErrorsAsStatus(context):
            owner = owner_of(context)
            return await _document(
                await self._responses.input_items(request.response_id, owner, page(request))
            )

    async def CountInputTokens(self, request: HttpBody, context: Context) -> HttpBody:
        """Count a request's tokens."""
        async with ErrorsAsStatus(context):
            create = await read_json(CreateResponseRequest, request.data)
            return await _document(await self._responses.count_tokens(create, owner_of(context)))

    async def CompactResponse(self, request: HttpBody, context: Context) -> HttpBody:
        """Make a conversation compact."""
        async with ErrorsAsStatus(context):
            create = await read_json(CreateResponseRequest, request.data)
            return await _document(await self._compactor.compact(create, owner_of(context)))

    # Conversations.

    async def CreateConversation(self, request: HttpBody, context: Context) -> HttpBody:
        """Create a conversation."""
        async with ErrorsAsStatus(context):
            create = await read_json(CreateConversationRequest, request.data or b"{}")
            return await _document(await self._conversations.create(create, owner_of(context)))

    async def GetConversation(self, request: http.GetConversationHttpRequest, context: Context) -> HttpBody:
        """Return a conversation."""
        async with ErrorsAsStatus(context):
            return await _document(await self._conversations.get(request.conversation_id, owner_of(context)))

    async def UpdateConversation(
        self, request: http.UpdateConversationHttpRequest, context: Context
    ) -> HttpBody:
        """Replace a conversation's metadata."""
        async with ErrorsAsStatus(context):
            update = await read_json(UpdateConversationRequest, request.body.data)
            data = request.body.data
            if not update.metadata and not await in_thread_if_long(len(data), _has_metadata, data):
                # Else a slip would clear them.
                raise InvalidRequest("metadata is missing: send an object, {} to clear it.", param="metadata")
            update.conversation_id = request.conversation_id
            return await _document(await self._conversations.update(update, owner_of(context)))

    async def DeleteConversation(
        self, request: http.DeleteConversationHttpRequest, context: Context
    ) -> HttpBody:
        """Forget a conversation."""
        async with ErrorsAsStatus(context):
            return await _document(
                await self._conversations.delete(request.conversation_id, owner_of(context))
            )

    async def CreateItems(self, request: http.CreateItemsHttpRequest, context: Context) -> HttpBody:
        """Add items."""
        async with ErrorsAsStatus(context):
            create = await read_json(CreateItemsRequest, request.body.data)
            create.conversation_id = request.conversation_id
            return await _document(await self._conversations.add_items(create, owner_of(context)))

    async def ListItems(self, request: http.ListItemsHttpRequest, context: Context) -> HttpBody:
        """List items."""
        async with ErrorsAsStatus(context):
            owner = owner_of(context)
            return await _document(
                await self._conversations.items(request.conversation_id, owner, page(request))
            )

    async def GetItem(self, request: http.GetItemHttpRequest, context: Context) -> HttpBody:
        """Return an item."""
        async with ErrorsAsStatus(context):
            owner = owner_of(context)
            return await _document(
                await self._conversations.item(request.conversation_id, request.item_id, owner)
            )

    async def DeleteItem(self, request: http.DeleteItemHttpRequest, context: Context) -> HttpBody:
        """Remove an item."""
        async with ErrorsAsStatus(context):
            owner = owner_of(context)
            conversation = await self._conversations.delete_item(
                request.conversation_id, request.item_id, owner
            )
            return await _document(conversation)

    # Models and health.

    async def ListModels(self, request: http.ListModelsHttpRequest, context: Context) -> HttpBody:
        """List the models."""
        return await _document(list_models(self._engine))

    async def GetModel(self, request: http.GetModelHttpRequest, context: Context) -> HttpBody:
        """Describe one model."""
        async with ErrorsAsStatus(context):
            # The gateway leaves a slash escaped.
            return await _document(get_model(self._engine, unquote(request.model)))

    async def GetHealth(self, request: http.GetHealthHttpRequest, context: Context) -> HttpBody:
        """Answer once the engine can serve."""
        async with ErrorsAsStatus(context):
            self._drain.check_open()
            await self._engine.health()
            return HttpBody(content_type=_JSON, data=b'{"status":"ok"}')

    async def _deliver(
        self, context: Context, events: AsyncGenerator[list[ResponseStreamEvent], None], after: int = -1
    ) -> None:
        async with aclosing(events) as batches, aclosing(event_bodies(batches, after)) as bodies:
            async for body in bodies:
                await context.write(body)


async def _document(message: Message) -> HttpBody:
    data = await in_thread_if_long(message.ByteSize(), encode, message)
    return HttpBody(content_type=_JSON, data=data)


def _has_metadata(data: bytes) -> bool:
    """Whether a body that has been read has an object there, if only an empty one."""
    return isinstance(orjson.loads(data).get("metadata"), dict)
