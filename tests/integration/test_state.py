"""What is kept, on both databases and through the gateway: responses, chains, conversations; whose it is."""

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
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
from openresponses.v1.item_pb2 import ROLE_USER, Input, InputItem, InputItemList, InputMessage, ItemReference
from openresponses.v1.service_pb2 import ConversationChoice, CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.stored_pb2 import (
    CancelResponseRequest,
    DeleteResponseRequest,
    GetResponseRequest,
    ListInputItemsRequest,
    Page,
    ResumeResponseRequest,
)
from sqlalchemy import func, select

from service.items import as_items, with_ids
from service.store.conversations import MAX_CONVERSATION_ITEMS
from service.store.database import Database
from service.store.tables import CONVERSATION_ITEMS, METADATA, SECRETS
from tests.processes import Running, client_of, start_gateway, start_service
from tests.scripts import write_script

FUNCTION = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}

CALL = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"}
IMAGE = {"type": "input_image", "image_url": "http://example.com/a.png"}
FILE_ELSEWHERE = {"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}


@pytest.fixture(scope="module")
def service(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    script = write_script(tmp_path_factory.mktemp("script"))
    with start_service("--engine", "scripted", "--script", script, "--database", database) as running:
        yield running


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_kept_as_it_ended(client, stream):
    if stream:
        response = list(client.responses.create(model="hello", input="Hi", stream=True))[-1].response
    else:
        response = client.responses.create(model="hello", input="Hi", metadata={"a": "b"})
    assert response.store is True
    assert client.responses.retrieve(response.id) == response


@pytest.mark.parametrize(("model", "status"), [("fails", "failed"), ("hello", "incomplete")])
def test_so_is_one_that_did_not_end_well(client, model, status):
    events = list(client.responses.create(model=model, input="Hi", stream=True, max_output_tokens=12))
    assert events[-1].response.status == status
    assert client.responses.retrieve(events[-1].response.id) == events[-1].response


def test_grpc_clients_see_the_same(client, channel):
    stub = ResponsesServiceStub(channel)
    key = [("authorization", "Bearer alice")]
    made = stub.CreateResponse(CreateResponseRequest(model="hello", input=Input(text="Hi")), metadata=key)
    assert stub.GetResponse(GetResponseRequest(response_id=made.id), metadata=key) == made
    assert client.responses.retrieve(made.id).output_text == "Hello, wörld! 👋 How are you?"
    listed = stub.ListInputItems(
        ListInputItemsRequest(response_id=made.id, page=Page(order="asc")), metadata=key
    )
    assert listed.data[0].message.content.parts.parts[0].input_text.text == "Hi"
    with pytest.raises(grpc.RpcError) as caught:
        stub.GetResponse(GetResponseRequest(response_id=made.id))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def rows(url: str) -> int:
    """How many rows all tables hold; the secrets do not count."""

    async def count() -> int:
        database = await Database.open(url)
        async with database.reading() as connection:
            tables = [table for table in METADATA.sorted_tables if table is not SECRETS]
            counts = [await connection.scalar(select(func.count()).select_from(table)) for table in tables]
        await database.close()
        return sum(count or 0 for count in counts)

    return asyncio.run(count())


def test_without_store_nothing_is_left_behind(client, database):
    before = rows(database)
    response = client.responses.create(model="hello", input="Hi", store=False)
    list(client.responses.create(model="hello", input="Hi", store=False, stream=True))
    assert response.store is False
    assert rows(database) == before
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_deleted_is_gone_with_everything(client, database):
    before = rows(database)
    response = client.responses.create(model="slow", input="Hi", background=True)
    list(client.responses.retrieve(response.id, stream=True))
    assert rows(database) > before
    client.responses.delete(response.id)
    assert rows(database) == before


def test_deletion_says_so(gateway, client):
    response = client.responses.create(model="hello", input="Hi")
    url = f"http://{gateway.address}/v1/responses/{response.id}"
    headers = {"authorization": "Bearer alice"}
    assert httpx.delete(url, headers=headers).json() == {
        "id": response.id,
        "object": "response",
        "deleted": True,
    }
    assert httpx.delete(url, headers=headers).status_code == 404


@pytest.mark.parametrize("name", ["include", "include[]", "include%5B%5D"])
def test_include_is_read_in_every_spelling(gateway, client, name):
    response = client.responses.create(model="hello", input="Hi")
    query = f"{name}=reasoning.encrypted_content&{name}=message.output_text.logprobs&limit=1"
    for path in ("", "/input_items"):
        url = f"http://{gateway.address}/v1/responses/{response.id}{path}?{query}"
        assert httpx.get(url, headers={"authorization": "Bearer alice"}).status_code == 200


def test_input_items_come_in_pages(client):
    texts = [f"text {i}" for i in range(25)]
    response = client.responses.create(
        model="hello", input=[{"role": "user", "content": text} for text in texts]
    )

    def listed(**page: Any) -> list[str]:
        return [item.content[0].text for item in client.responses.input_items.list(response.id, **page)]

    # The package asks for page after page.
    assert listed(order="asc", limit=4) == texts
    assert listed(limit=10) == texts[::-1]
    first = client.responses.input_items.list(response.id)
    assert (len(first.data), first.has_more, first.last_id) == (20, True, first.data[-1].id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.input_items.list(response.id, limit=101)
    assert caught.value.param == "limit"


def test_a_response_continues_another(client):
    first = client.responses.create(
        model="weather", input="How is Oslo?", tools=[FUNCTION], instructions="Be brief."
    )
    answer = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "sunny"}
    second = client.responses.create(
        model="weather", input=[answer], tools=[FUNCTION], previous_response_id=first.id
    )
    assert second.output_text == "It is sunny in Oslo."
    assert second.previous_response_id == first.id
    assert second.instructions is None
    # The whole conversation, sent at once, makes the same prompt.
    whole = [{"role": "user", "content": "How is Oslo?"}, *first.output, answer]
    again = client.responses.create(model="weather", input=whole, tools=[FUNCTION])
    assert again.usage.input_tokens == second.usage.input_tokens
    assert [item.type for item in client.responses.input_items.list(second.id)] == ["function_call_output"]


def test_what_is_not_kept_itself_may_continue_what_is(client):
    first = client.responses.create(model="hello", input="Hi")
    kept = client.responses.create(model="hello", input="And?", previous_response_id=first.id)
    not_kept = client.responses.create(
        model="hello", input="And?", previous_response_id=first.id, store=False
    )
    assert not_kept.usage.input_tokens == kept.usage.input_tokens
    assert (not_kept.store, not_kept.previous_response_id) == (False, first.id)


def test_a_long_chain(client):
    last = client.responses.create(model="hello", input="0")
    for i in range(1, 12):
        last = client.responses.create(model="hello", input=str(i), previous_response_id=last.id)
    history: list[Any] = []
    for i in range(12):
        history.append({"role": "user", "content": str(i)})
        if i < 11:
            history.append({"role": "assistant", "content": "Hello, wörld! 👋 How are you?"})
    assert (
        last.usage.input_tokens
        == client.responses.input_tokens.count(model="hello", input=history).input_tokens
    )


def test_what_is_missing_or_foreign_is_not_found(gateway, client):
    mine = client.responses.create(model="hello", input="Hi")
    gone = client.responses.create(model="hello", input="And?", previous_response_id=mine.id)
    client.responses.delete(mine.id)
    with client_of(gateway, "bob") as bob:
        theirs = bob.responses.create(model="hello", input="Hi")
    for previous in ("resp_never", theirs.id, mine.id, gone.id, "x" * 500):
        for stream in (False, True):
            with pytest.raises(openai.NotFoundError) as caught:
                client.responses.create(
                    model="hello", input="Hi", previous_response_id=previous, stream=stream
                )
            assert (caught.value.code, caught.value.param) == (
                "previous_response_not_found",
                "previous_response_id",
            )


ODD_IDS = ["a\0b", "ü", "a b", "x" * 10_000, "'; DROP TABLE responses; --", "\n", "resp_%"]


@pytest.mark.parametrize("odd", ODD_IDS)
def test_odd_ids_are_not_found(channel, odd):
    stub, conversations = ResponsesServiceStub(channel), ConversationsServiceStub(channel)
    hello = {"model": "hello", "input": Input(text="Hi")}
    reference = InputItem(item_reference=ItemReference(id=odd))
    for attempt in (
        lambda: stub.GetResponse(GetResponseRequest(response_id=odd)),
        lambda: list(stub.ResumeResponse(ResumeResponseRequest(response_id=odd))),
        lambda: stub.CancelResponse(CancelResponseRequest(response_id=odd)),
        lambda: stub.DeleteResponse(DeleteResponseRequest(response_id=odd)),
        lambda: stub.ListInputItems(ListInputItemsRequest(response_id=odd)),
        lambda: stub.CreateResponse(CreateResponseRequest(**hello, previous_response_id=odd)),
        lambda: stub.CreateResponse(CreateResponseRequest(**hello, conversation=ConversationChoice(id=odd))),
        lambda: stub.CreateResponse(
            CreateResponseRequest(model="hello", input=Input(items=InputItemList(items=[reference])))
        ),
        lambda: conversations.GetConversation(GetConversationRequest(conversation_id=odd)),
        lambda: conversations.ListItems(ListItemsRequest(conversation_id=odd)),
        lambda: conversations.GetItem(GetItemRequest(conversation_id=odd, item_id=odd)),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            attempt()
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


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


def test_one_key_never_sees_what_is_anothers(gateway, client):
    response = client.responses.create(model="endless", input="Hi", background=True)
    conversation = client.conversations.create(items=[{"role": "user", "content": "Hi"}])
    (item,) = client.conversations.items.list(conversation.id).data
    with client_of(gateway, "bob") as bob:
        attempts = [
            lambda: bob.responses.retrieve(response.id),
            lambda: list(bob.responses.retrieve(response.id, stream=True)),
            lambda: bob.responses.cancel(response.id),
            lambda: bob.responses.delete(response.id),
            lambda: bob.responses.input_items.list(response.id),
            lambda: bob.responses.create(model="hello", input="Hi", previous_response_id=response.id),
            lambda: bob.responses.create(model="hello", input="Hi", conversation=conversation.id),
            lambda: bob.responses.create(
                model="hello", input=[{"type": "item_reference", "id": f"msg_{response.id[5:]}i0000"}]
            ),
            lambda: bob.conversations.retrieve(conversation.id),
            lambda: bob.conversations.update(conversation.id, metadata={}),
            lambda: bob.conversations.delete(conversation.id),
            lambda: bob.conversations.items.list(conversation.id),
            lambda: bob.conversations.items.create(
                conversation.id, items=[{"role": "user", "content": "Hi"}]
            ),
            lambda: bob.conversations.items.retrieve(item.id, conversation_id=conversation.id),
            lambda: bob.conversations.items.delete(item.id, conversation_id=conversation.id),
        ]
        for attempt in attempts:
            with pytest.raises(openai.NotFoundError):
                attempt()
    assert client.responses.retrieve(response.id).status in ("queued", "in_progress")
    assert client.responses.cancel(response.id).status == "cancelled"
    assert len(client.conversations.items.list(conversation.id).data) == 1


def test_items_are_referred_to_by_their_ids(client):
    first = client.responses.create(model="hello", input="Hi")
    asked = client.responses.input_items.list(first.id).data[0]
    references = [{"type": "item_reference", "id": item.id} for item in (asked, *first.output)]
    by_reference = client.responses.create(
        model="hello", input=[*references, {"role": "user", "content": "And?"}]
    )
    chained = client.responses.create(model="hello", input="And?", previous_response_id=first.id)
    assert by_reference.usage.input_tokens == chained.usage.input_tokens
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model="hello", input=[{"type": "item_reference", "id": "msg_1"}])
    assert caught.value.param == "input[0].id"


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


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"previous_response_id": ""}, "previous_response_id"),
        ({"conversation": ""}, "conversation"),
        ({"conversation": {}}, "conversation"),
        ({"conversation": {"id": ""}}, "conversation"),
    ],
)
def test_an_empty_name_names_nothing(client, given, param):
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="hello", input="Hi", **given)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("stream=maybe", "stream"),
        ("stream=true&starting_after=abc", "starting_after"),
        ("stream=true&starting_after=1.5", "starting_after"),
        ("stream=true&starting_after=99999999999", "starting_after"),
        ("/input_items?limit=x", "limit"),
        ("/input_items?limit=", "limit"),
        ("/input_items?limit=0", "limit"),
        ("/input_items?order=up", "order"),
    ],
)
def test_wrong_queries_are_told_by_name(client, query, param):
    response = client.responses.create(model="hello", input="Hi")
    path = query if query.startswith("/") else f"?{query}"
    with pytest.raises(openai.BadRequestError) as caught:
        client.get(f"/responses/{response.id}{path}", cast_to=object)
    assert caught.value.param == param


def test_the_path_decides_whatever_the_query_says(client):
    first, second = (client.responses.create(model="hello", input="Hi") for _ in range(2))
    deleted = client.delete(f"/responses/{first.id}?response_id={second.id}", cast_to=object)
    assert deleted["id"] == first.id
    assert client.responses.retrieve(second.id).id == second.id
    one, other = (client.conversations.create(metadata={"a": "b"}) for _ in range(2))
    client.post(
        f"/conversations/{one.id}?conversation_id={other.id}&body.data=e30=",
        body={"metadata": {"c": "d"}},
        cast_to=object,
    )
    assert client.conversations.retrieve(one.id).metadata == {"c": "d"}
    assert client.conversations.retrieve(other.id).metadata == {"a": "b"}


def test_only_one_kind_of_context(client):
    response = client.responses.create(model="hello", input="Hi")
    conversation = client.conversations.create()
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            model="hello", input="Hi", previous_response_id=response.id, conversation=conversation.id
        )
    assert caught.value.param == "previous_response_id"


def test_what_is_too_old_is_forgotten(database, tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--database", database)
    before = rows(database)
    with (
        start_service(*flags, "--store-ttl-s", "1") as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        response = client.responses.create(model="hello", input="Hi")
        # Time goes by, and nothing tells of it.
        while found(client, response.id):
            pass
        assert rows(database) == before + 1
    # A service that starts tidies up first.
    with start_service(*flags):
        while rows(database) > before:
            pass


def found(client: openai.OpenAI, response_id: str) -> bool:
    try:
        client.responses.retrieve(response_id)
    except openai.NotFoundError:
        return False
    return True


def test_what_is_too_large_is_answered_but_not_kept(database, tmp_path):
    flags = ("--database", database, "--max-stored-bytes", "1024")
    with (
        start_service("--engine", "scripted", "--script", write_script(tmp_path), *flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        response = client.responses.create(model="hello", input="Hi " * 500)
        assert (response.status, response.store) == ("completed", False)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(response.id)
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="hello", input="Hi " * 500, background=True)
        assert caught.value.param == "input"


def test_keys_are_checked_where_there_are_some(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# ours\nalice\n\n  bob  \n")
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--api-keys-file", keys)
    with start_service(*flags) as service, start_gateway(service.address) as gateway:
        for key in ("alice", "bob"):
            with client_of(gateway, key) as client:
                assert client.responses.create(model="hello", input="Hi").status == "completed"
        for key in ("mallory", "alic", "alicee", "# ours"):
            with client_of(gateway, key) as client:
                for attempt in (
                    lambda: client.responses.create(model="hello", input="Hi"),
                    lambda: client.responses.create(model="hello", input="Hi", stream=True),
                    lambda: client.models.list(),
                    lambda: client.conversations.create(),
                ):
                    with pytest.raises(openai.AuthenticationError) as caught:
                        attempt()
                    assert caught.value.code == "invalid_api_key"
        assert httpx.get(f"http://{gateway.address}/v1/models").status_code == 401
        assert httpx.get(f"http://{gateway.address}/health").status_code == 200
        assert "mallory" not in service.stderr()
        with grpc.insecure_channel(service.address) as channel, pytest.raises(grpc.RpcError) as refused:
            list(ResponsesServiceStub(channel).StreamResponse(CreateResponseRequest(model="hello")))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("path", ["missing", "empty"])
def test_a_file_without_keys_is_refused(tmp_path, path):
    (tmp_path / "empty").write_text("# none\n")
    with (
        pytest.raises(AssertionError, match="See --api-keys-file"),
        start_service(
            "--engine", "scripted", "--script", write_script(tmp_path), "--api-keys-file", tmp_path / path
        ),
    ):
        pass
