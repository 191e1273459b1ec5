"""Errors of the typed face are statuses: they name the field, and what has no JSON is refused."""

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from openresponses.v1.content_pb2 import InputContent
from openresponses.v1.conversation_pb2 import CreateConversationRequest, CreateItemsRequest
from openresponses.v1.conversation_pb2_grpc import ConversationsServiceStub
from openresponses.v1.item_pb2 import ROLE_USER, Input, InputItem, InputItemList, InputMessage
from openresponses.v1.service_pb2 import CreateResponseRequest, StreamOptions
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.tool_pb2 import FunctionTool, Tool

from service.api.responses import MAX_INPUT_ITEMS
from tests.integration.grpc_calls import TIMEOUT_S, request

WITHOUT_STATUS = InputItem(message=InputMessage(role=ROLE_USER, content=InputContent(text="x"), status=9))


def test_an_engine_failure_without_a_stream_is_a_status(channel):
    with pytest.raises(grpc.RpcError) as caught:
        ResponsesServiceStub(channel).CreateResponse(request("fails"), timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.INTERNAL


BAD_REQUESTS = [
    (request("nobody"), grpc.StatusCode.NOT_FOUND, "model_not_found", "model"),
    (request(""), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value", "model"),
    (CreateResponseRequest(model="hello"), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value", "input"),
    (request("hello", temperature=3), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value", "temperature"),
    (
        request("hello", temperature=float("nan")),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "temperature",
    ),
    (
        # What has no JSON could be kept, and never be shown.
        request("hello", truncation=7),
        grpc.StatusCode.INVALID_ARGUMENT,
        "unknown_value",
        "truncation",
    ),
    (
        request("hello", max_output_tokens=0),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "max_output_tokens",
    ),
    (
        request("hello", stream_options=StreamOptions(stream_interval=0)),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "stream_options.stream_interval",
    ),
    (
        request("hello", background=True, store=False),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "store",
    ),
]


@pytest.mark.parametrize("method", ["CreateResponse", "CountInputTokens", "CompactResponse"])
def test_what_has_no_json_is_refused_by_every_method(channel, method):
    bad = request("hello", tools=[Tool(function=FunctionTool(name="f", parameters="not json"))])
    with pytest.raises(grpc.RpcError, match="must be JSON text") as caught:
        getattr(ResponsesServiceStub(channel), method)(bad, timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("method", "bad"),
    [
        ("CreateConversation", CreateConversationRequest(items=[InputItem()])),
        ("CreateItems", CreateItemsRequest(conversation_id="conv_1", items=[WITHOUT_STATUS])),
    ],
)
def test_items_of_conversations_that_have_no_json_are_refused(channel, method, bad):
    with pytest.raises(grpc.RpcError, match=r"items\[0\]") as caught:
        getattr(ConversationsServiceStub(channel), method)(bad, timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_large_messages_are_checked_for_json_and_items_are_counted(channel):
    """In a thread."""
    create = ResponsesServiceStub(channel).CreateResponse
    items = [
        InputItem(message=InputMessage(role=ROLE_USER, content=InputContent(text="x" * 9)))
    ] * MAX_INPUT_ITEMS
    bad = CreateResponseRequest(model="hello", input=Input(items=InputItemList(items=[*items, InputItem()])))
    with pytest.raises(grpc.RpcError, match=rf"input\[{MAX_INPUT_ITEMS}\] is empty"):
        create(bad, timeout=TIMEOUT_S)
    bad.input.items.items[-1].CopyFrom(items[0])
    with pytest.raises(grpc.RpcError, match=f"input may hold {MAX_INPUT_ITEMS} items at most"):
        create(bad, timeout=TIMEOUT_S)
    del bad.input.items.items[-1]
    assert create(bad, timeout=TIMEOUT_S).output


@pytest.mark.parametrize(("bad", "code", "reason", "param"), BAD_REQUESTS)
def test_bad_requests_are_statuses_that_name_the_field(channel, bad, code, reason, param):
    with pytest.raises(grpc.RpcError) as caught:
        next(ResponsesServiceStub(channel).StreamResponse(bad, timeout=TIMEOUT_S))
    assert caught.value.code() is code
    status = rpc_status.from_call(caught.value)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.metadata["param"]) == (reason, param)
