"""Whose it is: no API key sees what is another's, and where there is a file of keys, no other may call."""

import grpc
import httpx
import openai
import pytest
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from tests.processes import client_of, start_gateway, start_service
from tests.scripts import write_script


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
