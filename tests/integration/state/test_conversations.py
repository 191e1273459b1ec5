"""Conversations, as clients see them: read, added to, full, and wrong items refused."""

import asyncio
from typing import Any

import openai
import pytest
from openresponses.v1.content_pb2 import InputContent
from openresponses.v1.conversation_pb2 import (
    CreateConversationRequest,
    CreateItemsRequest,
    DeleteConversationRequest,
    DeleteItemRequest,
    GetConversationRequest,
    GetItemRequest,
    ListItemsRequest,
    UpdateConversationRequest,
)
from openresponses.v1.conversation_pb2_grpc import ConversationsServiceStub
from openresponses.v1.item_pb2 import ROLE_USER, Input, InputItem, InputMessage
from openresponses.v1.stored_pb2 import Page

from service.items import as_items, with_ids
from service.store.conversations import MAX_CONVERSATION_ITEMS
from service.store.database import Database
from service.store.tables import CONVERSATION_ITEMS
from tests.scripts import FUNCTION

CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"}
IMAGE = {"type": "input_image", "image_url": "http://example.com/a.png"}
FILE_ELSEWHERE = {"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}


def test_conversations_over_grpc(channel):
    stub = ConversationsServiceStub(channel)
    said = [
        InputItem(message=InputMessage(role=ROLE_USER, content=InputContent(text=text))) for text in "abc"
    ]
    made = stub.CreateConversation(CreateConversationRequest(items=said[:2], metadata={"a": "\0"}))
    added = stub.CreateItems(CreateItemsRequest(conversation_id=made.id, items=said[2:]))
    listed = stub.ListItems(ListItemsRequest(conversation_id=made.id, page=Page(order="asc")))
    assert [item.message.content.parts.parts[0].input_text.text for item in listed.data] == ["a", "b", "c"]
    assert listed.data[2] == added.data[0]
    one = GetItemRequest(conversation_id=made.id, item_id=listed.data[0].message.id)
    assert stub.GetItem(one) == listed.data[0]
    stub.DeleteItem(DeleteItemRequest(conversation_id=made.id, item_id=one.item_id))
    assert len(stub.ListItems(ListItemsRequest(conversation_id=made.id)).data) == 2
    updated = stub.UpdateConversation(UpdateConversationRequest(conversation_id=made.id, metadata={"b": "c"}))
    assert stub.GetConversation(GetConversationRequest(conversation_id=made.id)) == updated
    assert stub.DeleteConversation(DeleteConversationRequest(conversation_id=made.id)).deleted


def test_a_conversation_is_read_and_added_to(client):
    conversation = client.conversations.create(
        items=[{"role": "user", "content": "How is Oslo?"}], metadata={"topic": "weather"}
    )
    first = client.responses.create(
        model="weather", input="Now?", tools=[FUNCTION], conversation=conversation.id
    )
    answer = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "sunny"}
    second = client.responses.create(
        model="weather", input=[answer], tools=[FUNCTION], conversation={"id": conversation.id}
    )
    assert second.output_text == "It is sunny in Oslo."
    assert second.conversation.id == conversation.id
    items = list(client.conversations.items.list(conversation.id, order="asc", limit=2))
    assert [item.type for item in items] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    client.conversations.items.delete(items[1].id, conversation_id=conversation.id)
    assert len(list(client.conversations.items.list(conversation.id))) == 4
    assert client.conversations.retrieve(conversation.id).metadata == {"topic": "weather"}
    assert client.conversations.update(conversation.id, metadata={"a": "b"}).metadata == {"a": "b"}
    assert client.conversations.delete(conversation.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(conversation.id)
    assert client.responses.retrieve(second.id) == second


def test_an_item_comes_once(client):
    """As OpenAI has it; and pages, which go by ids, come to an end."""
    items = [{"role": "user", "content": text, "id": f"msg_{text}"} for text in "abca"]
    conversation = client.conversations.create(items=items[:1])
    first = client.responses.create(model="hello", input="Hi", conversation=conversation.id)
    again = [*first.output, {"role": "user", "content": "And?"}]
    reference = {"type": "item_reference", "id": first.output[0].id}
    for attempt, param in (
        (lambda: client.responses.create(model="hello", input=items), "input[3].id"),
        (lambda: client.responses.create(model="hello", input=items, store=False), "input[3].id"),
        (lambda: client.responses.create(model="hello", input=items, background=True), "input[3].id"),
        (lambda: client.responses.create(model="hello", input=items, stream=True), "input[3].id"),
        (lambda: client.responses.create(model="hello", input=[reference, reference]), "input[1].id"),
        (
            lambda: client.responses.create(model="hello", input=again, conversation=conversation.id),
            "input[0].id",
        ),
        (lambda: client.conversations.create(items=items), "items[3].id"),
        (lambda: client.conversations.items.create(conversation.id, items=items[1:]), "items[2].id"),
        (lambda: client.conversations.items.create(conversation.id, items=items[:1]), "items[0].id"),
    ):
        with pytest.raises(openai.BadRequestError, match="Duplicate item found with id") as caught:
            attempt()
        assert caught.value.param == param
    listed = [item.id for item in client.conversations.items.list(conversation.id, limit=1, order="asc")]
    assert len(listed) == len(set(listed)) == 4
    client.conversations.items.create(conversation.id, items=items[1:3])
    assert len(list(client.conversations.items.list(conversation.id, limit=2))) == 6


def test_a_full_conversation_takes_no_more_requests(client, database):
    conversation = client.conversations.create()
    fill(database, conversation.id, MAX_CONVERSATION_ITEMS - 3)
    # It has room for this turn: a message in, a thought and a message out.
    last = client.responses.create(model="hello", input="Hi", conversation=conversation.id, truncation="auto")
    assert (last.status, last.store) == ("completed", True)
    fields = {"model": "hello", "input": "Hi", "conversation": conversation.id, "truncation": "auto"}
    for attempt in (
        lambda: client.responses.create(**fields),
        lambda: client.responses.create(**fields, stream=True),
        lambda: client.responses.create(**fields, background=True),
        lambda: client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "Hi"}]),
    ):
        with pytest.raises(openai.BadRequestError, match="begin another") as caught:
            attempt()
        assert caught.value.param == "conversation"
    newest = client.conversations.items.list(conversation.id, limit=1).data
    assert newest[0].id == last.output[-1].id
    client.conversations.items.delete(newest[0].id, conversation_id=conversation.id)
    # Room for one: what began there is added whole.
    over = client.responses.create(**fields, background=True)
    assert list(client.responses.retrieve(over.id, stream=True))[-1].type == "response.completed"
    assert client.conversations.items.list(conversation.id, limit=1).data[0].id.startswith("msg_")


def fill(url: str, conversation_id: str, count: int) -> None:
    """Put items into a conversation; through its API it would take hundreds of requests."""

    async def insert() -> None:
        database = await Database.open(url)
        items = with_ids(as_items(Input(text="Hi")), "filling")
        rows = [
            {"conversation_id": conversation_id, "position": i, "id": f"msg_{i}", "item": item}
            for i, item in enumerate([items[0].SerializeToString()] * count)
        ]
        async with database.writing() as connection:
            await connection.execute(CONVERSATION_ITEMS.insert(), rows)
        await database.close()

    asyncio.run(insert())


def test_a_turn_that_fails_can_be_tried_again(client):
    """It leaves its conversation as it was; so does one that is cancelled."""
    conversation = client.conversations.create()
    first = client.responses.create(
        model="weather", input="How is Oslo?", tools=[FUNCTION], conversation=conversation.id
    )
    before = [item.id for item in client.conversations.items.list(conversation.id)]
    fields: Any = {
        "input": [{"type": "function_call_output", "call_id": first.output[0].call_id, "output": "sunny"}],
        "tools": [FUNCTION],
        "conversation": conversation.id,
    }
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model="fails", **fields)
    hanging = client.responses.create(model="hangs", **fields, background=True)
    client.responses.cancel(hanging.id)
    assert [item.id for item in client.conversations.items.list(conversation.id)] == before
    again = client.responses.create(model="weather", **fields)
    assert again.output_text == "It is sunny in Oslo."


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([{"role": "user", "content": "Hi"}] * 21, "items"),
        ([{"role": "user"}], "items[0].content"),
        ([{"role": "user", "content": "Hi"}, {"type": "brand_new"}], "items[1]"),
        ([{"role": "user", "content": "Hi", "id": "no spaces"}], "items[0].id"),
        ([{"type": "item_reference", "id": "msg_1"}], "items[0]"),
        ([CALL, CALL], "items[1].call_id"),
        ([{"type": "function_call_output", "call_id": "call_9", "output": [IMAGE]}], "items[0].output[0]"),
        ([{"type": "function_call_output", "call_id": "", "output": ""}], "items[0].call_id"),
        ([{"type": "reasoning", "encrypted_content": "a", "summary": []}], "items[0].encrypted_content"),
        ([{"type": "compaction", "encrypted_content": "a"}], "items[0].encrypted_content"),
        ([FILE_ELSEWHERE], "items[0].content[0].file_id"),
    ],
)
def test_wrong_items_are_refused_before_they_are_kept(client, items, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.conversations.create(items=items)
    assert caught.value.param == param


def test_what_no_longer_fits_together_is_left_out(client):
    output = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
    conversation = client.conversations.create(items=[CALL, output, {"role": "user", "content": "Hi"}])
    # Nothing tells that the conversation has this call already.
    client.conversations.items.create(conversation.id, items=[CALL])
    whole = client.responses.input_tokens.count(model="hello", input="Hi", conversation=conversation.id)
    call = next(
        i for i in client.conversations.items.list(conversation.id, order="asc") if i.type != "message"
    )
    client.conversations.items.delete(call.id, conversation_id=conversation.id)
    response = client.responses.create(model="hello", input="Hi", conversation=conversation.id)
    assert response.status == "completed"
    assert response.usage.input_tokens < whole.input_tokens


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": "x"}])
def test_a_conversations_notes_are_not_lost_by_a_slip(client, metadata):
    conversation = client.conversations.create(metadata={"a": "b"})
    with pytest.raises(openai.BadRequestError) as caught:
        client.post(f"/conversations/{conversation.id}", body=metadata, cast_to=object)
    assert caught.value.param == "metadata"
    assert client.conversations.retrieve(conversation.id).metadata == {"a": "b"}
    assert client.conversations.update(conversation.id, metadata={}).metadata == {}
