"""Conversations in the store, on both databases: full ones, deleted ones, ids that come once, and pages."""

import asyncio

import pytest
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.status_pb2 import (
    RESPONSE_STATUS_CANCELLED,
    RESPONSE_STATUS_COMPLETED,
    RESPONSE_STATUS_FAILED,
)
from sqlalchemy import delete

import service.store.conversations as conversations_module
from service.api.paging import page_of
from service.errors import InvalidRequest, NotFound
from service.items import item_id
from service.store.pages import PageBounds
from service.store.tables import CONVERSATIONS
from tests.stores import LEASE_S, a_response, said, scenario, status, stores, texts, the_events, thought


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


@pytest.mark.parametrize("name", ["\0", "msg_\0", "msg_é", "a b", "x" * 129, "x" * 100_000])
@scenario
async def test_what_cannot_be_an_id_is_refused_before_it_is_looked_for(database, name):
    async with stores(database) as at:
        conversation = await at.conversations.create(at.owner, [said("Hi")], {}, 0)
        for path, change in (
            ("items", at.conversations.create(at.owner, [said("1"), said("2", name)], {}, 0)),
            ("items", at.conversations.add(at.owner, conversation.id, [said("1"), said("2", name)])),
            ("input", at.conversations.history(at.owner, conversation.id, [said("1"), said("2", name)])),
        ):
            with pytest.raises(InvalidRequest) as caught:
                await change
            assert caught.value.param == f"{path}[1].id"
        # Nor is anything of that name there.
        with pytest.raises(NotFound):
            await at.conversations.item(at.owner, conversation.id, name)
        with pytest.raises(NotFound):
            await at.conversations.history(at.owner, name, [])
        assert await texts(at, conversation.id) == ["Hi"]


@scenario
async def test_a_turn_of_more_items_than_a_statement_may_name_is_added_whole(database, monkeypatch):
    """PostgreSQL takes 32,767 parameters, SQLite some more."""
    monkeypatch.setattr(conversations_module, "MAX_CONVERSATION_ITEMS", 10**6)
    async with stores(database) as at:
        conversation = await at.conversations.create(
            at.owner, [said("Hi", "in_0"), said("Hi", "rs_7")], {}, 0
        )
        response = a_response(conversation=conversation.id)
        response.output.extend(thought(str(i), f"rs_{i}") for i in range(33_000))
        assert await at.responses.save(at.owner, response, [said("And?", "in_0")])
        said_now = await texts(at, conversation.id)
        assert said_now == ["Hi", "Hi", "And?", *map(str, range(33_000))]


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
