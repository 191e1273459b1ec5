"""Every message of the contract: what is printed is what the openai package reads, and nothing is lost."""

from __future__ import annotations

import copy
import functools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from openai.types import responses as sdk
from openai.types.responses import response_create_params
from openresponses.v1 import event_pb2, item_pb2, response_pb2, service_pb2, tool_pb2
from pydantic import BaseModel, TypeAdapter, ValidationError

from service.errors import InvalidRequest
from service.wire.json_decoder import decoder_of
from service.wire.json_mismatch import Mismatch
from service.wire.json_shape import Tagged, shape_of
from service.wire.json_text import parse_exactly
from service.wire.openai_json import decode, encode
from tests.property.json_values import JSON, json_values
from tests.property.messages import messages
from tests.unit import openai_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.message import Message

# Keys that the service prints and the openai package's models do not have.
ADDED = {
    ("response.Response", "store"),  # Open Responses asks for it, and OpenAI's service sends it.
    ("response.Response", "presence_penalty"),  # Open Responses asks for it.
    ("response.Response", "frequency_penalty"),  # Open Responses asks for it.
    ("response_error_event.ResponseErrorEvent", "error"),  # Some clients read the fault nested.
    # One message stands for several types of the package, which differ in this key.
    ("response_text_delta_event.Logprob", "bytes"),
    ("response_text_delta_event.LogprobTopLogprob", "bytes"),
    ("response_text_done_event.Logprob", "bytes"),
    ("response_text_done_event.LogprobTopLogprob", "bytes"),
    ("response_configuration_update_item_param.Reasoning", "summary"),
}


def tags(message_class: type[Message]) -> list[str]:
    shape = shape_of(message_class.DESCRIPTOR)
    assert isinstance(shape, Tagged)
    return sorted(shape.members)


EVENTS = (event_pb2.ResponseStreamEvent, sdk.ResponseStreamEvent)
ITEMS = (item_pb2.OutputItem, sdk.ResponseOutputItem)
RESPONSES = (response_pb2.Response, sdk.Response)

ANSWERS = [
    *(pytest.param(*EVENTS, tag, id=tag) for tag in tags(EVENTS[0])),
    *(pytest.param(*ITEMS, tag, id=tag) for tag in tags(ITEMS[0])),
    pytest.param(*RESPONSES, None, id="response"),
]


@pytest.mark.parametrize(("message_class", "model_class", "tag"), ANSWERS)
@given(data=st.data())
@settings(max_examples=20)
def test_the_openai_package_reads_all_that_is_printed(
    message_class: type[Message], model_class: Any, tag: str | None, data: st.DataObject
) -> None:
    message = data.draw(messages(message_class, model_class, tag=tag))
    text = encode(message)
    model = read(model_class, text)
    assert set(keys(model, extra)) <= ADDED
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True) == json.loads(text)
    assert decode(message_class, text) == message


@pytest.mark.parametrize(("message_class", "model_class", "tag"), ANSWERS)
@given(data=st.data())
@settings(max_examples=5)
def test_no_key_of_the_openai_package_is_missing(
    message_class: type[Message], model_class: Any, tag: str | None, data: st.DataObject
) -> None:
    message = data.draw(messages(message_class, model_class, tag=tag, complete=True))
    assert not set(keys(read(model_class, encode(message)), unset))


ANY = [
    EVENTS[0],
    service_pb2.CreateResponseRequest,
    item_pb2.InputItem,
    tool_pb2.Tool,
    service_pb2.ListModelsResponse,
]


@pytest.mark.parametrize("message_class", ANY)
@given(data=st.data())
def test_every_message_is_read_back_as_it_was(message_class: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(message_class))
    text = encode(message)
    assert b"\n" not in text
    assert decode(message_class, text) == message


GIVEN = [
    (service_pb2.CreateResponseRequest, response_create_params.ResponseCreateParamsNonStreaming),
    (service_pb2.CreateResponseRequest, response_create_params.ResponseCreateParamsStreaming),
    *((item_pb2.InputItem, cls) for cls in openai_types.members(sdk.ResponseInputItemParam)),
    *((tool_pb2.Tool, cls) for cls in openai_types.members(sdk.ToolParam)),
]


@pytest.mark.parametrize(("message_class", "params"), GIVEN)
@given(data=st.data())
@settings(max_examples=30)
def test_all_that_the_openai_package_sends_is_kept(
    message_class: type[Message], params: Any, data: st.DataObject
) -> None:
    sent = data.draw(json_values(params))
    printed = json.loads(encode(decode(message_class, json.dumps(sent).encode())))
    assert list(lost(sent, printed)) == []


@pytest.mark.parametrize("tag", tags(ITEMS[0]))
@given(data=st.data())
@settings(max_examples=20)
def test_output_is_accepted_as_input(tag: str, data: st.DataObject) -> None:
    text = encode(data.draw(messages(*ITEMS, tag=tag)))
    again = encode(decode(item_pb2.InputItem, text))
    assert list(lost(json.loads(text), json.loads(again))) == []


@given(sent=json_values(response_create_params.ResponseCreateParamsNonStreaming), wrong=JSON, data=st.data())
def test_a_wrong_value_anywhere_is_read_or_named(sent: Any, wrong: Any, data: st.DataObject) -> None:
    assume(sent)
    path = data.draw(st.sampled_from(list(paths(sent))))
    error = refusal(json.dumps(put(sent, path, wrong)).encode())
    if error is not None:
        at = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
        blamed = f".{error.param}"
        assert blamed.startswith(at) or at.startswith(blamed) or "[*]" in blamed
        assert error.message.startswith(f"{error.param} ")
        assert error.message.isprintable()


@given(st.binary() | st.text().map(str.encode))
def test_bytes_are_read_or_refused(body: bytes) -> None:
    error = refusal(body)
    assert error is None or error.message.isprintable()


@given(sent=json_values(response_create_params.ResponseCreateParamsNonStreaming), wrong=JSON, data=st.data())
def test_a_document_is_read_as_if_every_digit_were_looked_at(
    sent: Any, wrong: Any, data: st.DataObject
) -> None:
    assume(sent)
    body = json.dumps(put(sent, data.draw(st.sampled_from(list(paths(sent)))), wrong)).encode()
    try:
        expected: object = exactly(body)
    except Mismatch as mismatch:
        expected = told(mismatch.as_error())
    error = refusal(body)
    assert (decode(service_pb2.CreateResponseRequest, body) if error is None else told(error)) == expected


def exactly(body: bytes) -> service_pb2.CreateResponseRequest:
    message = service_pb2.CreateResponseRequest()
    read_exactly(message, parse_exactly(body))
    return message


read_exactly = decoder_of(service_pb2.CreateResponseRequest)


def told(error: InvalidRequest) -> tuple[str, str | None]:
    return error.message, error.param


def refusal(body: bytes) -> InvalidRequest | None:
    try:
        decode(service_pb2.CreateResponseRequest, body)
    except InvalidRequest as error:
        return error
    return None


@functools.cache
def adapter(model_class: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model_class)


def read(model_class: Any, text: bytes) -> BaseModel:
    """Parse with the openai package. A failure names only the variants whose `type` fits."""
    try:
        model: BaseModel = adapter(model_class).validate_json(text, strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        others = [problem["loc"][:-1] for problem in problems if problem["loc"][-1] == "type"]
        near = [p for p in problems if not any(p["loc"][: len(other)] == other for other in others)]
        raise AssertionError(f"{near or problems}\n{text.decode()}") from None
    return model


def keys(value: Any, of: Callable[[BaseModel], set[str]]) -> Iterator[tuple[str, str]]:
    """Some keys of a model and of all that it holds."""
    match value:
        case BaseModel():
            name = f"{type(value).__module__.rpartition('.')[2]}.{type(value).__name__}"
            yield from ((name, key) for key in of(value))
            yield from keys([getattr(value, key) for key in type(value).model_fields], of)
        case list():
            for item in value:
                yield from keys(item, of)
        case dict():
            yield from keys(list(value.values()), of)


def extra(model: BaseModel) -> set[str]:
    return set(model.model_extra or ())


def unset(model: BaseModel) -> set[str]:
    return type(model).model_fields.keys() - model.model_fields_set


def lost(sent: Any, printed: Any, path: str = "") -> Iterator[str]:
    """What was sent and is not printed. Null counts as absent; an empty list or object may be left out."""
    match sent, printed:
        case dict(), dict():
            for key, value in sent.items():
                yield from lost(value, printed.get(key), f"{path}.{key}")
        case list(), list() if len(sent) == len(printed):
            for index, (value, other) in enumerate(zip(sent, printed, strict=True)):
                yield from lost(value, other, f"{path}[{index}]")
        case (None, _):
            pass
        case ((list() | dict()), None) if not sent:
            pass
        case _ if sent != printed or isinstance(sent, bool) != isinstance(printed, bool):
            yield f"{path}: {sent!r} became {printed!r}"


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a value has values, itself not counted."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from paths(item, (*path, key))


def put(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """The same with another value at a path."""
    changed = copy.deepcopy(value)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = new
    return changed
