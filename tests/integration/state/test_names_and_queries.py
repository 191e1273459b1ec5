"""Ids that are odd or empty, and queries that are wrong: each is refused by name, and the path decides."""

import grpc
import openai
import pytest
from openresponses.v1.conversation_pb2 import GetConversationRequest, GetItemRequest, ListItemsRequest
from openresponses.v1.conversation_pb2_grpc import ConversationsServiceStub
from openresponses.v1.item_pb2 import Input, InputItem, InputItemList, ItemReference
from openresponses.v1.service_pb2 import ConversationChoice, CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.stored_pb2 import (
    CancelResponseRequest,
    DeleteResponseRequest,
    GetResponseRequest,
    ListInputItemsRequest,
    ResumeResponseRequest,
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
