"""Stored responses: written once, when they are over, and read by those they belong to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openresponses.v1.item_pb2 import InputItem, InputItemList
from openresponses.v1.response_pb2 import Response
from openresponses.v1.status_pb2 import RESPONSE_STATUS_IN_PROGRESS, ResponseStatus
from sqlalchemy import Row, delete, false, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.errors import InvalidRequest, NotFound
from service.items import is_id
from service.store.conversations import add_turn
from service.store.database import Database
from service.store.tables import RESPONSES

MAX_CHAIN_RESPONSES: Final = 1000
"""Most responses that one continues, by way of one another."""
MAX_CHAIN_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of them all together."""

_RENEWED_S: Final = 86_400
"""Chains that are gone on with live on; written at most once a day."""

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

    def __init__(self, database: Database, limits: Limits, clock: Callable[[], float]) -> None:
        self._database = database
        self._limits = limits
        self._clock = clock

    async def save(self, owner: str, response: Response, items: Iterable[InputItem], chain: Chain) -> bool:
        """Keep a response that is over, and add it to its conversation; False when it is too large."""
        row = new_row(owner, response, items, self._clock() + self._limits.ttl_s)
        if (size := row_bytes(row)) > self._limits.max_bytes:
            _log.warning("response %s is not kept: it has %d bytes", response.id, size)
            return False
        async with self._database.writing() as connection:
            await connection.execute(RESPONSES.insert().values(**row))
            await self._renew(connection, chain)
            await add_turn(connection, owner, response, items)
        return True

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
        async with self._database.writing() as connection:
            done = await connection.execute(delete(RESPONSES).where(self.visible(owner, response_id)))
        if not done.rowcount:
            raise no_such_response(response_id)

    async def chain(self, owner: str, response_id: str) -> Chain:
        """Return a response and those before it, as a request names it by `previous_response_id`.

        Raises:
            NotFound: it, or one before it, is not there or belongs to somebody else.
            InvalidRequest: the chain is too long.

        """
        link = (
            select(RESPONSES.c.id, RESPONSES.c.previous_id, literal(1).label("depth"))
            .where(self.visible(owner, response_id))
            .cte("link", recursive=True)
        )
        link = link.union_all(
            select(RESPONSES.c.id, RESPONSES.c.previous_id, link.c.depth + 1)
            .join(link, RESPONSES.c.id == link.c.previous_id)
            .where(RESPONSES.c.owner == owner, link.c.depth <= MAX_CHAIN_RESPONSES)
        )
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
        return Chain(tuple(map(_stored, found)), min(row.expires_at for row in found))

    async def sweep(self) -> int:
        """Forget what has outlived its time; return how many responses that were."""
        async with self._database.writing() as connection:
            done = await connection.execute(delete(RESPONSES).where(RESPONSES.c.expires_at <= self._clock()))
        return done.rowcount

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

    async def _renew(self, connection: AsyncConnection, chain: Chain) -> None:
        expires_at = int(self._clock() + self._limits.ttl_s)
        if chain.responses and chain.expires_at < expires_at - _RENEWED_S:
            ids = [stored.response.id for stored in chain.responses]
            await connection.execute(
                update(RESPONSES).where(RESPONSES.c.id.in_(ids)).values(expires_at=expires_at)
            )


@dataclass(frozen=True, slots=True)
class Chain:
    """Responses of which each continues the one before."""

    responses: tuple[Stored, ...] = ()
    """The oldest first."""
    expires_at: int = 0
    """Unix time in seconds at which the first of them is forgotten."""


def new_row(owner: str, response: Response, items: Iterable[InputItem], expires_at: float) -> dict[str, Any]:
    """Return what is written of a response."""
    return {
        "id": response.id,
        "owner": owner,
        "expires_at": int(expires_at),
        "previous_id": response.previous_response_id or None,
        "status": status_name(response),
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
    return Stored(response, InputItemList.FromString(row.input).items, background=row.lease_until is not None)


def _too_long() -> InvalidRequest:
    return InvalidRequest(
        f"The chain of previous responses is too long: {MAX_CHAIN_RESPONSES} responses or "
        f"{MAX_CHAIN_BYTES >> 20} MiB at most. Send what matters as input.",
        param="previous_response_id",
    )
