"""Conversations: lists of items that outlive the responses that read and add to them.

Every change locks the conversation's row first: writers of one conversation wait for one another, and what
is deleted meanwhile is seen to be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from openresponses.v1.conversation_pb2 import ConversationResource
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED, RESPONSE_STATUS_INCOMPLETE
from sqlalchemy import delete, false, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import InvalidRequest, NotFound
from service.items import as_later_input, check_ids, check_unique, is_id, item_id, with_ids, with_new_id
from service.store.database import Database
from service.store.pages import PageBounds, not_in_list
from service.store.tables import CONVERSATION_ITEMS, CONVERSATIONS

MAX_CONVERSATION_ITEMS: Final = 10_000
MAX_CONVERSATION_BYTES: Final = 64 * 1024 * 1024

_ADDED: Final = (RESPONSE_STATUS_COMPLETED, RESPONSE_STATUS_INCOMPLETE)
_ITEMS: Final = CONVERSATION_ITEMS.c
_IDS_AT_ONCE: Final = 1000
"""Ids that one statement names: PostgreSQL takes 32,767 parameters, and a turn may have more items."""


class ConversationStore:
    """Keeps conversations. `new_id` gives unique alphanumeric texts."""

    def __init__(self, database: Database, new_id: Callable[[], str]) -> None:
        self._database = database
        self._new_id = new_id

    async def create(
        self, owner: str, items: Sequence[InputItem], metadata: dict[str, str], created_at: int
    ) -> ConversationResource:
        """Begin a conversation.

        Raises:
            InvalidRequest: an item's id is none, or comes twice.

        """
        conversation = ConversationResource(
            id=f"conv_{self._new_id()}", object="conversation", created_at=created_at, metadata=metadata
        )
        check_unique(items, path="items")
        kept = with_ids(items, self._new_id(), "items")
        async with self._database.writing() as connection:
            await connection.execute(
                CONVERSATIONS.insert().values(
                    id=conversation.id, owner=owner, conversation=conversation.SerializeToString()
                )
            )
            await _insert(connection, conversation.id, kept)
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
            conversation = await _get(connection, owner, conversation_id, lock=True)
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
            await _get(connection, owner, conversation_id, lock=True)
            await connection.execute(delete(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation_id))

    async def add(self, owner: str, conversation_id: str, items: Sequence[InputItem]) -> list[InputItem]:
        """Add items, and return them with their ids.

        Raises:
            NotFound: as `get`.
            InvalidRequest: there is no room for them, or an item's id is none, or is there already.

        """
        added = with_ids(items, self._new_id(), "items")
        async with self._database.writing() as connection:
            await _get(connection, owner, conversation_id, lock=True)
            await _check_fits(connection, conversation_id, added)
            check_unique(added, await _taken(connection, conversation_id, added), path="items")
            await _insert(connection, conversation_id, added)
        return added

    async def add_turn(
        self, connection: AsyncConnection, owner: str, response: Response, items: Iterable[InputItem]
    ) -> None:
        """Add a response that is over to the conversation that it is part of, if any: input and output.

        One that has failed or was cancelled is not added: it can be tried again. Any other is, since a
        response must end: what is gone stays gone; a turn that began while there was room is added whole; and
        an item whose id has come in meanwhile gets another.
        """
        conversation_id = response.conversation.id
        if (
            not conversation_id
            or response.status not in _ADDED
            or not await _is_there(connection, owner, conversation_id)
        ):
            return
        turn = [*items, *as_later_input(response.output)]
        taken = await _taken(connection, conversation_id, turn)
        for i, item in enumerate(turn):
            if item_id(item) in taken:
                turn[i] = with_new_id(item, self._new_id())
            taken.add(item_id(item))
        await _insert(connection, conversation_id, turn)

    async def history(self, owner: str, conversation_id: str, coming: Sequence[InputItem]) -> list[InputItem]:
        """Return all items, the oldest first, to a request that goes on with the items that are `coming`.

        Raises:
            NotFound: as `get`.
            InvalidRequest: there is no room for these, or one is there already, or its id is none.

        """
        # PostgreSQL could not even look for some.
        check_ids(coming)
        async with self._database.reading() as connection:
            await _get(connection, owner, conversation_id)
            await _check_fits(connection, conversation_id, coming)
            check_unique(coming, await _taken(connection, conversation_id, coming))
            rows = await connection.scalars(
                select(_ITEMS.item).where(_ITEMS.conversation_id == conversation_id).order_by(_ITEMS.position)
            )
            return [InputItem.FromString(item) for item in rows]

    async def page(
        self, owner: str, conversation_id: str, bounds: PageBounds
    ) -> tuple[list[InputItem], bool]:
        """Return a page of the items, and whether the list goes on behind it, in the direction of paging.

        Raises:
            NotFound: as `get`, and where `after` or `before` is no item of the list.

        """
        backwards = bool(bounds.before and not bounds.after)
        query = select(_ITEMS.item).where(_ITEMS.conversation_id == conversation_id).limit(bounds.limit + 1)
        async with self._database.reading() as connection:
            await _get(connection, owner, conversation_id)
            for wanted, param in ((bounds.after, "after"), (bounds.before, "before")):
                if wanted:
                    at = await _position(connection, conversation_id, wanted, param)
                    query = query.where(
                        _ITEMS.position > at
                        if bounds.descending == (param == "before")
                        else _ITEMS.position < at
                    )
            downwards = bounds.descending != backwards
            query = query.order_by(_ITEMS.position.desc() if downwards else _ITEMS.position)
            found = [InputItem.FromString(item) for item in await connection.scalars(query)]
        shown = found[: bounds.limit]
        return (shown[::-1] if backwards else shown), len(found) > len(shown)

    async def item(self, owner: str, conversation_id: str, wanted: str) -> InputItem:
        """Return one item. Raises as `get`, and where there is no such item."""
        async with self._database.reading() as connection:
            await _get(connection, owner, conversation_id)
            found = await connection.scalar(select(_ITEMS.item).where(_item(conversation_id, wanted)))
        if found is None:
            raise _no_such_item(wanted)
        return InputItem.FromString(found)

    async def delete_item(self, owner: str, conversation_id: str, wanted: str) -> ConversationResource:
        """Remove one item, and return the conversation. Raises as `item`."""
        async with self._database.writing() as connection:
            conversation = await _get(connection, owner, conversation_id, lock=True)
            done = await connection.execute(delete(CONVERSATION_ITEMS).where(_item(conversation_id, wanted)))
        if not done.rowcount:
            raise _no_such_item(wanted)
        return conversation


async def _get(
    connection: AsyncConnection, owner: str, conversation_id: str, *, lock: bool = False
) -> ConversationResource:
    query = select(CONVERSATIONS.c.conversation).where(
        CONVERSATIONS.c.id == conversation_id, CONVERSATIONS.c.owner == owner
    )
    if lock:
        # SQLite has no such lock, and needs none: it has one writer at a time.
        query = query.with_for_update()
    found = await connection.scalar(query) if is_id(conversation_id) else None
    if found is None:
        raise NotFound(
            f"The conversation {conversation_id[:100]!r} does not exist here (any more).",
            code="conversation_not_found",
            param="conversation",
        )
    return ConversationResource.FromString(found)


async def _is_there(connection: AsyncConnection, owner: str, conversation_id: str) -> bool:
    """Whether a conversation is there; it is locked from here on."""
    try:
        await _get(connection, owner, conversation_id, lock=True)
    except NotFound:
        return False
    return True


async def _check_fits(connection: AsyncConnection, conversation_id: str, coming: Sequence[InputItem]) -> None:
    count, size = (
        await connection.execute(
            select(func.count(), func.coalesce(func.sum(func.length(_ITEMS.item)), 0)).where(
                _ITEMS.conversation_id == conversation_id
            )
        )
    ).one()
    size += sum(item.ByteSize() for item in coming)
    # What is full takes nothing more, be it the answer to nothing new.
    if count + max(1, len(coming)) > MAX_CONVERSATION_ITEMS or size > MAX_CONVERSATION_BYTES:
        raise InvalidRequest(
            f"A conversation may have {MAX_CONVERSATION_ITEMS} items and {MAX_CONVERSATION_BYTES >> 20} MiB "
            "at most: begin another.",
            param="conversation",
        )


async def _taken(connection: AsyncConnection, conversation_id: str, items: Iterable[InputItem]) -> set[str]:
    """Return those ids of `items` that the conversation has already."""
    ids = [name for item in items if (name := item_id(item))]
    taken: set[str] = set()
    for at in range(0, len(ids), _IDS_AT_ONCE):
        some = _ITEMS.id.in_(ids[at : at + _IDS_AT_ONCE])
        taken.update(
            await connection.scalars(select(_ITEMS.id).where(_ITEMS.conversation_id == conversation_id, some))
        )
    return taken


async def _insert(connection: AsyncConnection, conversation_id: str, items: Sequence[InputItem]) -> None:
    """Add items behind the last; the conversation is locked, and has none of their ids."""
    if not items:
        return
    last = await connection.scalar(
        select(func.max(_ITEMS.position)).where(_ITEMS.conversation_id == conversation_id)
    )
    first = 0 if last is None else last + 1
    rows = [
        {
            "conversation_id": conversation_id,
            "position": first + i,
            "id": item_id(item),
            "item": item.SerializeToString(),
        }
        for i, item in enumerate(items)
    ]
    await connection.execute(CONVERSATION_ITEMS.insert(), rows)


async def _position(connection: AsyncConnection, conversation_id: str, wanted: str, param: str) -> int:
    at: int | None = await connection.scalar(select(_ITEMS.position).where(_item(conversation_id, wanted)))
    if at is None:
        raise not_in_list(wanted, param)
    return at


def _item(conversation_id: str, wanted: str) -> Any:
    if not is_id(wanted):
        return false()
    return (_ITEMS.conversation_id == conversation_id) & (_ITEMS.id == wanted)


def _no_such_item(wanted: str) -> NotFound:
    return NotFound(
        f"The item {wanted[:100]!r} does not exist here (any more).", code="item_not_found", param="item_id"
    )
