"""How long the store keeps a response: chains that are gone on with live on, what is too old is swept."""

import asyncio

import pytest
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED, RESPONSE_STATUS_QUEUED
from sqlalchemy import select

from service.errors import NotFound
from service.store.tables import RESPONSES
from tests.stores import a_response, scenario, status, stores, the_events

DAY_S = 86_400


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("ttl_s", [10, 3600, DAY_S, 30 * DAY_S])
@scenario
async def test_a_chain_lives_on_for_as_long_as_it_is_gone_on_with(database, ttl_s, background):
    async with stores(database, ttl_s=ttl_s) as at:
        first = last = a_response()
        await at.responses.save(at.owner, first, [])
        for _ in range(12):
            at.now += ttl_s / 4
            following = {"previous_response_id": last.id}
            if background:
                last = await at.begin(**following)
                await at.log.append(last.id, the_events(last, []))
            else:
                last = a_response(**following)
                await at.responses.save(at.owner, last, [])
            await at.responses.sweep()
        assert len(await at.responses.chain(at.owner, last.id)) == 13
        await at.responses.get(at.owner, first.id)
        at.now += ttl_s * 1.01
        await at.responses.sweep()
        with pytest.raises(NotFound):
            await at.responses.get(at.owner, first.id)


@pytest.mark.parametrize("ending", ["cancel", "abandon"])
@scenario
async def test_so_it_does_when_what_goes_on_ends_otherwise(database, ending):
    async with stores(database, ttl_s=1000) as at:
        first = a_response()
        await at.responses.save(at.owner, first, [])
        at.now += 500
        last = await at.begin(previous_response_id=first.id)
        at.now += 400
        if ending == "cancel":
            await at.log.cancel(at.owner, last.id)
        else:
            await at.log.fail_abandoned(())
        at.now += 900
        assert len(await at.responses.chain(at.owner, last.id)) == 2


@scenario
async def test_a_chain_is_not_written_again_with_every_turn(database):
    async with stores(database, ttl_s=1000) as at:
        first = a_response()
        await at.responses.save(at.owner, first, [])
        seen = at.statements()
        at.now += 50
        await at.responses.save(at.owner, a_response(previous_response_id=first.id), [])
        assert not [statement for statement in seen if statement.startswith("UPDATE responses")]
        at.now += 100
        await at.responses.save(at.owner, a_response(previous_response_id=first.id), [])
        assert [statement for statement in seen if statement.startswith("UPDATE responses")]


@scenario
async def test_nobody_elses_chain_is_renewed(database):
    async with stores(database, ttl_s=1000) as at:
        first = a_response()
        await at.responses.save("somebody else", first, [])
        at.now += 500
        await at.responses.save(at.owner, a_response(previous_response_id=first.id), [])
        at.now += 600
        with pytest.raises(NotFound):
            await at.responses.get("somebody else", first.id)


@scenario
async def test_continuing_one_chain_at_once_locks_nobody_out(database):
    async with stores(database, ttl_s=1000) as at, stores(database, ttl_s=1000) as other:
        chain = [a_response()]
        for _ in range(20):
            chain.append(a_response(previous_response_id=chain[-1].id))
        for response in chain:
            await at.responses.save(at.owner, response, [])
        seen = at.statements()
        for _ in range(5):
            at.now = other.now = at.now + 500
            await asyncio.gather(
                *(
                    replica.responses.save(at.owner, a_response(previous_response_id=previous.id), [])
                    for previous in chain[10:]
                    for replica in (at, other)
                ),
                at.responses.sweep(),
                other.responses.sweep(),
            )
        assert len(await at.responses.chain(at.owner, chain[-1].id)) == 21
        if database.startswith("postgresql"):
            # Two that lock the same rows in two orders wait for one another.
            assert [statement for statement in seen if "ORDER BY responses.id FOR UPDATE" in statement]


@scenario
async def test_what_is_still_made_is_not_forgotten(database):
    async with stores(database, ttl_s=1) as at:
        response = await at.begin()
        at.now += 100
        await at.responses.sweep()
        assert await status(at, response) == RESPONSE_STATUS_QUEUED
        await at.log.append(response.id, the_events(response, []))
        assert await status(at, response) == RESPONSE_STATUS_COMPLETED
        at.now += 1.1
        await at.responses.sweep()
        with pytest.raises(NotFound):
            await at.responses.get(at.owner, response.id)


@scenario
async def test_a_sweep_goes_a_few_responses_at_a_time(database):
    async with stores(database, ttl_s=10) as at:
        for _ in range(250):
            await at.responses.save(at.owner, a_response(), [])
        kept = a_response()
        at.now += 11
        await at.responses.save(at.owner, kept, [])
        seen = at.statements()
        await at.responses.sweep()
        assert seen.count("COMMIT") >= 3
        async with at.database.reading() as connection:
            left = list(await connection.scalars(select(RESPONSES.c.id).where(RESPONSES.c.owner == at.owner)))
        assert left == [kept.id]
