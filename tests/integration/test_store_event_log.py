"""The store's event log: what a flush and an end cost, and that a response ends once, whoever ends it."""

import asyncio
from typing import Any

import pytest
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import (
    RESPONSE_STATUS_CANCELLED,
    RESPONSE_STATUS_FAILED,
    RESPONSE_STATUS_IN_PROGRESS,
)
from sqlalchemy import select, update

from service.api.background import Background
from service.config import Settings
from service.engine.scripted import ScriptedEngine
from service.errors import NotFound
from service.metrics import Metrics
from service.run.drain import Drain
from service.store.event_log import PAGE_EVENTS, Ended
from service.store.responses import ResponseStore
from service.store.tables import EVENTS
from service.wiring import wire
from tests.scripts import write_script
from tests.stores import LEASE_S, scenario, status, stores, the_events, thought


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
        background = Background(at.log, at.responses, Drain(), lease_s=1, silence_s=1)
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
