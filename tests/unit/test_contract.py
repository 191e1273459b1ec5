"""The contract has all of OpenAI's Responses API, as the installed openai package knows it, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import openai.types
import pytest
from openai.types import conversations, responses
from openai.types.responses import response_create_params
from openresponses.v1 import conversation_pb2, event_pb2, item_pb2, json_pb2, service_pb2, stored_pb2

from tests.unit import openai_types as sdk
from tests.unit.contract_walk import ContractWalk, message_options, tag

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

EVENTS = event_pb2.ResponseStreamEvent.DESCRIPTOR
REQUEST = service_pb2.CreateResponseRequest.DESCRIPTOR

# Fields of ours that OpenAI's API does not have.
ADDITIONS = {
    "Response.store": "Open Responses asks for it, and OpenAI's service sends it",
    "Response.presence_penalty": "Open Responses asks for it",
    "Response.frequency_penalty": "Open Responses asks for it",
    "CreateResponseRequest.seed": "an extension that other servers know",
    "CreateResponseRequest.presence_penalty": "an extension that other servers know",
    "CreateResponseRequest.frequency_penalty": "an extension that other servers know",
    **{
        f"Model.{name}": "catalogues of models read it"
        for name in (
            *("context_window", "context_length", "max_model_len", "max_output_tokens"),
            *("input_modalities", "output_modalities", "capabilities"),
        )
    },
    "StreamOptions.stream_interval": "our own: when to flush",
    "StreamOptions.stream_interval_ms": "our own: when to flush",
    "ResponseErrorEvent.error": "some clients read the fault nested",
}

# Fields that OpenAI may leave out and we always give.
ALWAYS_GIVEN = {
    "CreateResponseRequest.model": "this server has no stored prompt that could name a model instead",
    "CreateResponseRequest.stream": "false is what leaving it out means",
    "Response.background": "Open Responses asks for it",
    "Response.service_tier": "Open Responses asks for it",
    "Response.top_logprobs": "Open Responses asks for it",
    "TopLogprob.token": "without it the entry says nothing",
    "TopLogprob.logprob": "without it the entry says nothing",
}

# Messages that have no counterpart among OpenAI's types.
OUR_OWN = {
    "ErrorBody": "the body of HTTP errors, which the package reads by hand",
    "ListModelsRequest": "gRPC wants a request",
    "ListModelsResponse": "the package has a generic page",
    "JsonField": "says how the JSON looks",
    "JsonMessage": "says how the JSON looks",
    "UnknownVariant": "what the contract does not know",
    "ModelCapabilities": "catalogues of models read it",
    "GetResponseRequest": "gRPC wants a request",
    "ResumeResponseRequest": "gRPC wants a request",
    "CancelResponseRequest": "gRPC wants a request",
    "DeleteResponseRequest": "gRPC wants a request",
    "DeletedResponse": "what OpenAI's service answers; the package throws it away",
    "ListInputItemsRequest": "the package's parameters are those of a query",
    "Page": "the package's parameters are those of a query",
}


@pytest.fixture(scope="module")
def walk() -> ContractWalk:
    walk = ContractWalk(ADDITIONS, ALWAYS_GIVEN)
    walk.visit(EVENTS, sdk.members(responses.ResponseStreamEvent), "event")
    walk.visit(REQUEST, sdk.members(response_create_params.ResponseCreateParams), "request")
    walk.visit(service_pb2.Model.DESCRIPTOR, (openai.types.Model,), "model")
    walk.visit(stored_pb2.InputTokenCount.DESCRIPTOR, (responses.InputTokenCountResponse,), "count")
    for ours, theirs in (
        (conversation_pb2.ConversationResource, conversations.Conversation),
        (conversation_pb2.DeletedConversation, conversations.ConversationDeletedResource),
        (conversation_pb2.CreateConversationRequest, conversations.ConversationCreateParams),
        (stored_pb2.ItemList, responses.ResponseItemList),
        (stored_pb2.CompactedResponse, responses.CompactedResponse),
    ):
        walk.visit(ours.DESCRIPTOR, (theirs,), theirs.__name__)
    return walk


def test_every_message_has_just_the_fields_of_the_openai_package(walk: ContractWalk) -> None:
    problems = walk.finish()
    assert not problems, "\n" + "\n".join(problems)


def test_every_message_stands_for_something_of_the_openai_package(walk: ContractWalk) -> None:
    messages = {name for file in contract_files() for name in file.message_types_by_name}
    assert messages - walk.reached == set(OUR_OWN)


def test_an_event_is_called_as_in_the_openai_package() -> None:
    ours = {(tag(field), message_of(field).name) for field in union_of(EVENTS)}
    theirs = {(sdk.tags(cls)[0], cls.__name__) for cls in sdk.members(responses.ResponseStreamEvent)}
    assert ours == theirs
    assert len(ours) == 59


def test_a_member_of_the_event_union_is_called_as_its_type() -> None:
    assert [field.name for field in union_of(EVENTS)] == [
        tag(field).removeprefix("response.").replace(".", "_") for field in union_of(EVENTS)
    ]


def test_what_is_sent_per_flush_has_a_tag_of_one_byte() -> None:
    hot = ["output_text_delta", "reasoning_text_delta", "function_call_arguments_delta"]
    assert all(EVENTS.fields_by_name[name].number < 16 for name in [*hot, "type", "sequence_number"])


def test_output_and_input_items_share_numbers_and_messages() -> None:
    output = {field.number: field for field in union_of(item_pb2.OutputItem.DESCRIPTOR)}
    given = {field.number: field for field in union_of(item_pb2.InputItem.DESCRIPTOR)}
    assert len(output) == 28
    for number, field in output.items():
        assert given[number].name == field.name
        assert field.name == "message" or given[number].message_type == field.message_type


def test_a_constant_type_agrees_with_the_tag_of_its_unions() -> None:
    for message in (message for file in contract_files() for message in file.message_types_by_name.values()):
        if message_options(message).union == json_pb2.JSON_UNION_TAGGED:
            for field in union_of(message):
                assert message_options(message_of(field)).type in ("", tag(field))


def test_the_service_has_just_the_methods_of_this_version() -> None:
    methods = service_pb2.DESCRIPTOR.services_by_name["ResponsesService"].methods
    assert [(m.name, m.input_type.name, m.output_type.name, m.server_streaming) for m in methods] == [
        ("StreamResponse", "CreateResponseRequest", "ResponseStreamEvent", True),
        ("CreateResponse", "CreateResponseRequest", "Response", False),
        ("GetResponse", "GetResponseRequest", "Response", False),
        ("ResumeResponse", "ResumeResponseRequest", "ResponseStreamEvent", True),
        ("CancelResponse", "CancelResponseRequest", "Response", False),
        ("DeleteResponse", "DeleteResponseRequest", "DeletedResponse", False),
        ("ListInputItems", "ListInputItemsRequest", "ItemList", False),
        ("CountInputTokens", "CreateResponseRequest", "InputTokenCount", False),
        ("CompactResponse", "CreateResponseRequest", "CompactedResponse", False),
        ("ListModels", "ListModelsRequest", "ListModelsResponse", False),
    ]
    assert not any(method.client_streaming for method in methods)


def union_of(message: Descriptor) -> list[FieldDescriptor]:
    return list(message.oneofs[0].fields)


def message_of(field: FieldDescriptor) -> Descriptor:
    assert field.message_type is not None, f"{field.full_name} is no message"
    return field.message_type


def contract_files() -> list[FileDescriptor]:
    """The files that service.proto is made of."""
    found: dict[str, FileDescriptor] = {}
    waiting = [service_pb2.DESCRIPTOR]
    while waiting:
        file = waiting.pop()
        if file.package == EVENTS.file.package and file.name not in found:
            found[file.name] = file
            waiting += file.dependencies
    return list(found.values())
