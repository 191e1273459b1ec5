"""Conversations, created and changed by clients. Everything here belongs to an owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from openresponses.v1.conversation_pb2 import (
    ConversationResource,
    CreateConversationRequest,
    CreateItemsRequest,
    DeletedConversation,
    UpdateConversationRequest,
)
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.stored_pb2 import ItemList, Page

from service.api.paging import bounds_of, item_list
from service.errors import InvalidRequest
from service.run.validation import check_metadata
from service.store.conversations import ConversationStore

MAX_NEW_ITEMS: Final = 20
"""Most items that a request may add."""


class Conversations:
    """Looks after conversations. `check` raises InvalidRequest where no prompt could hold an owner's items.

    Unless said otherwise, every method raises NotFound when there is no such conversation that belongs to
    `owner`.
    """

    def __init__(
        self,
        store: ConversationStore,
        check: Callable[[Sequence[InputItem], str], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        """`clock` gives Unix time in seconds."""
        self._store = store
        self._check = check
        self._clock = clock

    async def create(self, request: CreateConversationRequest, owner: str) -> ConversationResource:
        """Begin a conversation.

        Raises:
            InvalidRequest: there are too many items or notes, or an item is wrong or comes twice.

        """
        check_metadata(request.metadata)
        if request.items:
            await self._check_items(request.items, owner)
        return await self._store.create(owner, request.items, dict(request.metadata), int(self._clock()))

    async def get(self, conversation_id: str, owner: str) -> ConversationResource:
        """Return a conversation."""
        return await self._store.get(owner, conversation_id)

    async def update(self, request: UpdateConversationRequest, owner: str) -> ConversationResource:
        """Replace a conversation's notes. Raises InvalidRequest when there are too many."""
        check_metadata(request.metadata)
        metadata: Mapping[str, str] = request.metadata
        return await self._store.set_metadata(owner, request.conversation_id, dict(metadata))

    async def delete(self, conversation_id: str, owner: str) -> DeletedConversation:
        """Forget a conversation and its items."""
        await self._store.delete(owner, conversation_id)
        return DeletedConversation(id=conversation_id, object="conversation.deleted", deleted=True)

    async def add_items(self, request: CreateItemsRequest, owner: str) -> ItemList:
        """Add items, and return them with their ids.

        Raises:
            InvalidRequest: as `create`; or the conversation is full, or has an item of that id.

        """
        if not request.items:
            raise InvalidRequest("items is missing: send a list of items.", param="items")
        await self._check_items(request.items, owner)
        added = await self._store.add(owner, request.conversation_id, request.items)
        return item_list(added, has_more=False)

    async def items(self, conversation_id: str, owner: str, page: Page) -> ItemList:
        """Return a page of the items.

        Raises:
            InvalidRequest: limit or order are wrong; `param` names the field.
            NotFound: `after` or `before` is no item of the conversation, too.

        """
        data, has_more = await self._store.page(owner, conversation_id, bounds_of(page))
        return item_list(data, has_more=has_more)

    async def item(self, conversation_id: str, wanted: str, owner: str) -> InputItem:
        """Return one item. Raises NotFound when there is none."""
        return await self._store.item(owner, conversation_id, wanted)

    async def delete_item(self, conversation_id: str, wanted: str, owner: str) -> ConversationResource:
        """Remove one item, and return the conversation. Raises NotFound when there is none."""
        return await self._store.delete_item(owner, conversation_id, wanted)

    async def _check_items(self, items: Sequence[InputItem], owner: str) -> None:
        if len(items) > MAX_NEW_ITEMS:
            raise InvalidRequest(f"items may hold {MAX_NEW_ITEMS} items at most.", param="items")
        await self._check(items, owner)
