"""ConversationsService: the typed face of conversations."""

# The contract's names.
# ruff: noqa: N802

from __future__ import annotations

from typing import Any

import grpc
from openresponses.v1.conversation_pb2 import (
    ConversationResource,
    CreateConversationRequest,
    CreateItemsRequest,
    DeleteConversationRequest,
    DeletedConversation,
    DeleteItemRequest,
    GetConversationRequest,
    GetItemRequest,
    ListItemsRequest,
    UpdateConversationRequest,
)
from openresponses.v1.conversation_pb2_grpc import ConversationsServiceServicer
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.stored_pb2 import ItemList

from service.api.conversations import Conversations
from service.rpc.auth import owner_of
from service.rpc.incoming import check_typed
from service.rpc.status import ErrorsAsStatus

Context = grpc.aio.ServicerContext[Any, Any]


class ConversationsServicer(ConversationsServiceServicer):
    """Serves ConversationsService."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    async def CreateConversation(
        self, request: CreateConversationRequest, context: Context
    ) -> ConversationResource:
        """Create a conversation."""
        async with ErrorsAsStatus(context):
            await check_typed(request)
            return await self._conversations.create(request, owner_of(context))

    async def GetConversation(
        self, request: GetConversationRequest, context: Context
    ) -> ConversationResource:
        """Return a conversation."""
        async with ErrorsAsStatus(context):
            return await self._conversations.get(request.conversation_id, owner_of(context))

    async def UpdateConversation(
        self, request: UpdateConversationRequest, context: Context
    ) -> ConversationResource:
        """Replace a conversation's metadata."""
        async with ErrorsAsStatus(context):
            await check_typed(request)
            return await self._conversations.update(request, owner_of(context))

    async def DeleteConversation(
        self, request: DeleteConversationRequest, context: Context
    ) -> DeletedConversation:
        """Forget a conversation."""
        async with ErrorsAsStatus(context):
            return await self._conversations.delete(request.conversation_id, owner_of(context))

    async def CreateItems(self, request: CreateItemsRequest, context: Context) -> ItemList:
        """Add items."""
        async with ErrorsAsStatus(context):
            await check_typed(request)
            return await self._conversations.add_items(request, owner_of(context))

    async def ListItems(self, request: ListItemsRequest, context: Context) -> ItemList:
        """List items."""
        async with ErrorsAsStatus(context):
            return await self._conversations.items(request.conversation_id, owner_of(context), request.page)

    async def GetItem(self, request: GetItemRequest, context: Context) -> InputItem:
        """Return an item."""
        async with ErrorsAsStatus(context):
            return await self._conversations.item(request.conversation_id, request.item_id, owner_of(context))

    async def DeleteItem(self, request: DeleteItemRequest, context: Context) -> ConversationResource:
        """Remove an item."""
        async with ErrorsAsStatus(context):
            return await self._conversations.delete_item(
                request.conversation_id, request.item_id, owner_of(context)
            )
