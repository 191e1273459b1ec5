"""Stored responses: written once, when they are over, and read by those they belong to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openresponses.v1.item_pb2 import InputItem, InputItemList
from openresponses.v1.response_pb2 import Response
from openresponses.v1.status_pb2 import RESPONSE_STATUS_IN_PROGRESS, ResponseStatus
from sqlalchemy import CTE, Row, delete, false, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import InvalidRequest, NotFound
from service.items import is_id
from service.store.conversations import ConversationStore
from service.store.database import Database
from service.store.tables import LEASES, RESPONSES

MAX_CHAIN_RESPONSES: Final = 1000
"""Most responses that one continues, by way of one another."""
MAX_CHAIN_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of them all together."""

_MAX_RENEWAL_S: Final = 86_400
_RENEWALS: Final = 10
"""A chain that is gone on with lives on. It is written again after a day, or a tenth of its time if that is
less: not with every turn."""
_SWEPT_AT_ONCE: Final = 100
"""Responses that are forgotten in one transaction: other writers wait for it, and each may have thousands of
events."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much is kept."""

    ttl_s: int
    """Seconds from a response's end until it is forgotten."""
    max_bytes: int
    """Most bytes of one response and its input together."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A response that is kept."""

    response: Response
    input: Sequence[InputItem]
    """What was new in its request; each item has an id."""
    background: bool
    """It has, or had, a producer of its own, and its events are kept."""


class ResponseStore:
    """Keeps responses. `clock` gives Unix time in seconds."""

    def __init__(
        self,
        database: Database,
        conversations: ConversationStore,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._conversations = conversations
        self._limits = limits
        self._clock = clock

    async def save(self, owner: str, response: Response, items: Sequence[InputItem]) -> bool:
        """Keep a response that is over, and add it to its conversation; False when it is too large."""
        row = new_row(owner, response, items, self.expiry())
        if (size := row_bytes(row)) > self._limits.max_bytes:
            _log.warning("response %s is not kept: it has %d bytes", response.id, size)
            return False
        async with self._database.writing() as connection:
            await connection.execute(RESPONSES.insert().values(**row))
            await self.go_on(connection, owner, response, items)
        return True

    async def go_on(
        self, connection: AsyncConnection, owner: str, response: Response, items: Iterable[InputItem]
    ) -> None:
        """Let what a response that is over goes on with know: its chain lives on, its conversation grows."""
        await self._renew_chain(connection, owner, response.previous_response_id)
        await self._conversations.add_turn(connection, owner, response, items)

    def expiry(self) -> int:
        """Return when a response that ends now is forgotten, in Unix time in seconds."""
        return int(self._clock()) + self._limits.ttl_s

    async def get(self, owner: str, response_id: str) -> Stored:
        """Return a response.

        Raises:
            NotFound: there is none of that id that belongs to `owner`.

        """
        query = select(RESPONSES)
        async with self._database.reading() as connection:
            row = (await connection.execute(query.where(self.visible(owner, response_id)))).one_or_none()
        if row is None:
            raise no_such_response(response_id)
        return _stored(row)

    async def delete(self, owner: str, response_id: str) -> None:
        """Forget a response and its events.

        Raises:
            NotFound: there is none of that id that belongs to `owner`.

        """
        visible = self.visible(owner, response_id)
        async with self._database.writing() as connection:
            # Locked in the order of those that append and end: the lease first.
            await connection.execute(
                delete(LEASES).where(LEASES.c.response_id.in_(select(RESPONSES.c.id).where(visible)))
            )
            done = await connection.execute(delete(RESPONSES).where(visible))
        if not done.rowcount:
            raise no_such_response(response_id)

    async def chain(self, owner: str, response_id: str) -> list[Stored]:
        """Return a response and those before it, the oldest first: what `previous_response_id` names.

        Raises:
            NotFound: it, or one before it, is not there or belongs to somebody else.
            InvalidRequest: the chain is too long.

        """
        link = _links(owner, self.visible(owner, response_id))
        size = func.coalesce(func.sum(func.length(RESPONSES.c.response) + func.length(RESPONSES.c.input)), 0)
        rows = (
            select(RESPONSES, link.c.depth)
            .join(link, RESPONSES.c.id == link.c.id)
            .order_by(link.c.depth.desc())
        )
        async with self._database.reading() as connection:
            total = await connection.scalar(select(size).join(link, RESPONSES.c.id == link.c.id))
            if total is not None and total > MAX_CHAIN_BYTES:
                raise _too_long()
            found = (await connection.execute(rows)).all()
        if len(found) > MAX_CHAIN_RESPONSES:
            raise _too_long()
        missing = found[0].previous_id if found else response_id
        if missing is not None:
            raise NotFound(
                f"The response {missing[:100]!r} does not exist (any more): send the conversation as input.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return list(map(_stored, found))

    async def is_background(self, owner: str, response_id: str) -> bool:
        """Whether a response has, or had, a producer of its own. Raises as `get`."""
        query = select(RESPONSES.c.background).where(self.visible(owner, response_id))
        async with self._database.reading() as connection:
            background: bool | None = await connection.scalar(query)
        if background is None:
            raise no_such_response(response_id)
        return background

    async def input(self, owner: str, response_id: str) -> Sequence[InputItem]:
        """Return what was new in a response's request; each item has an id. Raises as `get`."""
        query = select(RESPONSES.c.input).where(self.visible(owner, response_id))
        async with self._database.reading() as connection:
            found = await connection.scalar(query)
        if found is None:
            raise no_such_response(response_id)
        return InputItemList.FromString(found).items

    async def sweep(self) -> None:
        """Forget what has outlived its time, a few responses at a time."""
        old = (
            select(RESPONSES.c.id)
            .where(RESPONSES.c.expires_at <= self._clock())
            .limit(_SWEPT_AT_ONCE)
            # What somebody writes at this moment is not waited for: another replica sweeps it, or the chain
            # that it is part of is gone on with.
            .with_for_update(skip_locked=True)
        )
        swept = _SWEPT_AT_ONCE
        while swept == _SWEPT_AT_ONCE:
            async with self._database.writing() as connection:
                ids = list(await connection.scalars(old))
                await connection.execute(delete(RESPONSES).where(RESPONSES.c.id.in_(ids)))
                swept = len(ids)

    def visible(self, owner: str, response_id: str) -> Any:
        """Return the condition that picks a response for its owner."""
        if not is_id(response_id):
            # Databases differ in what texts they take.
            return false()
        return (
            (RESPONSES.c.id == response_id)
            & (RESPONSES.c.owner == owner)
            & (RESPONSES.c.expires_at > self._clock())
        )

    async def _renew_chain(self, connection: AsyncConnection, owner: str, last_id: str) -> None:
        if not last_id:
            return
        expiry = self.expiry()
        link = _links(owner, (RESPONSES.c.id == last_id) & (RESPONSES.c.owner == owner))
        stale = (
            select(RESPONSES.c.id)
            .where(
                RESPONSES.c.id.in_(select(link.c.id)),
                RESPONSES.c.expires_at < expiry - min(_MAX_RENEWAL_S, self._limits.ttl_s // _RENEWALS),
            )
            # Chains may share their beginnings: all lock them in one order.
            .order_by(RESPONSES.c.id)
            .with_for_update()
        )
        if ids := list(await connection.scalars(stale)):
            await connection.execute(
                update(RESPONSES).where(RESPONSES.c.id.in_(ids)).values(expires_at=expiry)
            )


def _links(owner: str, is_last: Any) -> CTE:
    """Return ids and depths of a response, which a condition picks, and of those that it continues."""
    last = select(RESPONSES.c.id, RESPONSES.c.previous_id, literal(1).label("depth")).where(is_last)
    link = last.cte("link", recursive=True)
    return link.union_all(
        select(RESPONSES.c.id, RESPONSES.c.previous_id, link.c.depth + 1)
        .join(link, RESPONSES.c.id == link.c.previous_id)
        .where(RESPONSES.c.owner == owner, link.c.depth <= MAX_CHAIN_RESPONSES)
    )


def new_row(owner: str, response: Response, items: Iterable[InputItem], expires_at: int) -> dict[str, Any]:
    """Return what is written of a response."""
    return {
        "id": response.id,
        "owner": owner,
        "expires_at": expires_at,
        "previous_id": response.previous_response_id or None,
        "status": status_name(response),
        "background": response.background,
        "response": response.SerializeToString(),
        "input": InputItemList(items=items).SerializeToString(),
    }


def row_bytes(row: dict[str, Any]) -> int:
    """Return how much a row holds."""
    return len(row["response"]) + len(row["input"])


def status_name(response: Response) -> str:
    """Return the status in OpenAI's words."""
    return ResponseStatus.Name(response.status).removeprefix("RESPONSE_STATUS_").lower()


def no_such_response(response_id: str) -> NotFound:
    """Return the error for an id that nobody, or somebody else, has a response of."""
    return NotFound(
        f"The response {response_id[:100]!r} does not exist here (any more).",
        code="response_not_found",
        param="response_id",
    )


def _stored(row: Row[*tuple[Any, ...]]) -> Stored:
    response = Response.FromString(row.response)
    if row.status == "in_progress":
        # Written anew only when it ends.
        response.status = RESPONSE_STATUS_IN_PROGRESS
    return Stored(response, InputItemList.FromString(row.input).items, background=row.background)


def _too_long() -> InvalidRequest:
    return InvalidRequest(
        f"The chain of previous responses is too long: {MAX_CHAIN_RESPONSES} responses or "
        f"{MAX_CHAIN_BYTES >> 20} MiB at most. Send what matters as input.",
        param="previous_response_id",
    )
