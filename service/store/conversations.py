"""Conversations: lists of items that outlive the responses that read and add to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from openresponses.v1.conversation_pb2 import ConversationResource
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.response_pb2 import Response
from sqlalchemy import delete, false, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import InvalidRequest, NotFound
from service.items import as_later_input, is_id, with_ids
from service.store.database import Database
from service.store.tables import CONVERSATION_ITEMS, CONVERSATIONS

MAX_CONVERSATION_ITEMS: Final = 10_000
MAX_CONVERSATION_BYTES: Final = 64 * 1024 * 1024


class ConversationStore:
    """Keeps conversations. `new_id` gives unique alphanumeric texts."""

    def __init__(self, database: Database, new_id: Callable[[], str]) -> None:
        self._database = database
        self._new_id = new_id

    async def create(
        self, owner: str, items: Sequence[InputItem], metadata: dict[str, str], created_at: int
    ) -> ConversationResource:
        """Begin a conversation."""
        conversation = ConversationResource(
            id=f"conv_{self._new_id()}", object="conversation", created_at=created_at, metadata=metadata
        )
        async with self._database.writing() as connection:
            await connection.execute(
                CONVERSATIONS.insert().values(
                    id=conversation.id, owner=owner, conversation=conversation.SerializeToString()
                )
            )
            await _add(connection, conversation.id, with_ids(items, self._new_id(), "items"))
        return conversation

    async def get(self, owner: str, conversation_id: str) -> ConversationResource:
        """Return a conversation.

        Raises:
            NotFound: there is none of that id that belongs to `owner`.

        """
        async with self._database.reading() as connection:
            return await _get(connection, owner, conversation_id)

    async def set_metadata(
        self, owner: str, conversation_id: str, metadata: dict[str, str]
    ) -> ConversationResource:
        """Replace a conversation's notes. Raises as `get`."""
        async with self._database.writing() as connection:
            conversation = await _get(connection, owner, conversation_id)
            conversation.ClearField("metadata")
            conversation.metadata.update(metadata)
            await connection.execute(
                update(CONVERSATIONS)
                .where(CONVERSATIONS.c.id == conversation_id)
                .values(conversation=conversation.SerializeToString())
            )
        return conversation

    async def delete(self, owner: str, conversation_id: str) -> None:
        """Forget a conversation and its items. Raises as `get`."""
        async with self._database.writing() as connection:
            await _get(connection, owner, conversation_id)
            await connection.execute(delete(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation_id))

    async def add(self, owner: str, conversation_id: str, items: Sequence[InputItem]) -> list[InputItem]:
        """Add items, and return them with their ids. Raises as `get`."""
        added = with_ids(items, self._new_id(), "items")
        async with self._database.writing() as connection:
            await _get(connection, owner, conversation_id)
            await _add(connection, conversation_id, added)
        return added

    async def items(self, owner: str, conversation_id: str) -> list[InputItem]:
        """Return all items, the oldest first. Raises as `get`."""
        async with self._database.reading() as connection:
            await _get(connection, owner, conversation_id)
            rows = await connection.scalars(
                select(CONVERSATION_ITEMS.c.item)
                .where(CONVERSATION_ITEMS.c.conversation_id == conversation_id)
                .order_by(CONVERSATION_ITEMS.c.position)
            )
            return [InputItem.FromString(item) for item in rows]

    async def item(self, owner: str, conversation_id: str, item_id: str) -> InputItem:
        """Return one item. Raises as `get`, and where there is no such item."""
        async with self._database.reading() as connection:
            await _get(connection, owner, conversation_id)
            found = await connection.scalar(
                select(CONVERSATION_ITEMS.c.item).where(_item(conversation_id, item_id))
            )
        if found is None:
            raise _no_such_item(item_id)
        return InputItem.FromString(found)

    async def delete_item(self, owner: str, conversation_id: str, item_id: str) -> ConversationResource:
        """Remove one item, and return the conversation. Raises as `item`."""
        async with self._database.writing() as connection:
            conversation = await _get(connection, owner, conversation_id)
            done = await connection.execute(delete(CONVERSATION_ITEMS).where(_item(conversation_id, item_id)))
        if not done.rowcount:
            raise _no_such_item(item_id)
        return conversation


async def add_turn(
    connection: AsyncConnection, owner: str, response: Response, items: Iterable[InputItem]
) -> None:
    """Add a response that is over to its conversation, input and output; one that is gone stays gone."""
    conversation_id = response.conversation.id
    query = select(CONVERSATIONS.c.id).where(
        CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner
    )
    if conversation_id and await connection.scalar(query):
        await _add(connection, conversation_id, [*items, *as_later_input(response.output)])


async def _get(connection: AsyncConnection, owner: str, conversation_id: str) -> ConversationResource:
    query = select(CONVERSATIONS.c.conversation).where(
        CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner
    )
    found = await connection.scalar(query) if is_id(conversation_id) else None
    if found is None:
        raise NotFound(
            f"The conversation {conversation_id[:100]!r} does not exist here (any more).",
            code="conversation_not_found",
            param="conversation",
        )
    return ConversationResource.FromString(found)


async def _add(connection: AsyncConnection, conversation_id: str, items: Sequence[InputItem]) -> None:
    if not items:
        return
    # Taken first: writers of one conversation wait for one another.
    await connection.execute(
        update(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation_id).values(id=conversation_id)
    )
    in_conversation = CONVERSATION_ITEMS.c.conversation_id == conversation_id
    count, size, last = (
        await connection.execute(
            select(
                func.count(),
                func.coalesce(func.sum(func.length(CONVERSATION_ITEMS.c.item)), 0),
                func.coalesce(func.max(CONVERSATION_ITEMS.c.position), -1),
            ).where(in_conversation)
        )
    ).one()
    rows: list[dict[str, Any]] = [
        {
            "conversation_id": conversation_id,
            "position": last + 1 + i,
            "id": getattr(item, item.WhichOneof("item") or "").id,
            "item": item.SerializeToString(),
        }
        for i, item in enumerate(items)
    ]
    size += sum(len(row["item"]) for row in rows)
    if count + len(rows) > MAX_CONVERSATION_ITEMS or size > MAX_CONVERSATION_BYTES:
        raise InvalidRequest(
            f"A conversation may have {MAX_CONVERSATION_ITEMS} items and {MAX_CONVERSATION_BYTES >> 20} MiB "
            "at most: begin another.",
            param="conversation",
        )
    await connection.execute(CONVERSATION_ITEMS.insert(), rows)


def _item(conversation_id: str, item_id: str) -> Any:
    if not is_id(item_id):
        return false()
    return (CONVERSATION_ITEMS.c.conversation_id == conversation_id) & (CONVERSATION_ITEMS.c.id == item_id)


def _no_such_item(item_id: str) -> NotFound:
    return NotFound(
        f"The item {item_id[:100]!r} does not exist here (any more).", code="item_not_found", param="item_id"
    )
