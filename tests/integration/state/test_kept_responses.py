"""A response is kept as it ended, and read again with its input, over HTTP and gRPC."""

from typing import Any

import grpc
import httpx
import openai
import pytest
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.stored_pb2 import GetResponseRequest, ListInputItemsRequest, Page


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
