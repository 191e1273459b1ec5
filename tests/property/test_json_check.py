"""A typed message is refused exactly when it has no JSON; what passes is printed, and so is what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1 import conversation_pb2, item_pb2, service_pb2, tool_pb2

from service.engine.base import ModelInfo
from service.errors import InvalidRequest
from service.items import as_items, with_ids
from service.run.opening import opened_response
from service.wire.json_text import MAX_NESTING_LEVELS
from service.wire.openai_json import check, encode
from tests.property.messages import messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

TYPED = [
    service_pb2.CreateResponseRequest,
    conversation_pb2.CreateConversationRequest,
    conversation_pb2.CreateItemsRequest,
    item_pb2.InputItem,
    tool_pb2.Tool,
]


@pytest.mark.parametrize("message_class", TYPED)
@given(data=st.data())
def test_a_message_passes_exactly_when_it_is_printed(
    message_class: type[Message], data: st.DataObject
) -> None:
    message = data.draw(messages(message_class))
    for _ in range(data.draw(st.integers(0, 2))):
        spoil(message, data)
    assert passes(message) == is_printed(message)


@given(data=st.data())
def test_what_is_kept_of_a_message_that_passes_is_printed(data: st.DataObject) -> None:
    request = data.draw(messages(service_pb2.CreateResponseRequest))
    assert isinstance(request, service_pb2.CreateResponseRequest)
    spoil(request, data)
    if passes(request):
        model = ModelInfo("m", 100, 100)
        encode(opened_response(request, model, response_id="resp_1", created_at=1))
        try:
            kept = with_ids(as_items(request.input), "1")
        except InvalidRequest:
            return
        encode(item_pb2.InputItemList(items=kept))


def spoil(message: Message, data: st.DataObject) -> None:
    """Change one place that could have no JSON."""
    places = list(changes(message))
    if places:
        holder, field, value = data.draw(st.sampled_from(places))
        if value is None:
            holder.ClearField(field.name)
        elif field.is_repeated:
            getattr(holder, field.name).append(value)
        else:
            setattr(holder, field.name, value)


def changes(message: Message) -> Iterator[tuple[Message, FieldDescriptor, Any]]:
    for field in message.DESCRIPTOR.fields:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_ENUM:
                yield from ((message, field, number) for number in (0, 1, 99))
            case FieldDescriptor.CPPTYPE_DOUBLE:
                yield from ((message, field, value) for value in (float("nan"), float("inf"), 1.5))
            case FieldDescriptor.CPPTYPE_STRING if not field.message_type:
                yield from ((message, field, value) for value in ("{", "", "[1]"))
            case FieldDescriptor.CPPTYPE_MESSAGE if field.containing_oneof and message.HasField(field.name):
                yield message, field, None
    for field, value in message.ListFields():
        if field.message_type and field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type:
                for each in value.values():
                    yield from changes(each)
        elif field.message_type:
            for each in value if field.is_repeated else [value]:
                yield from changes(each)


def passes(message: Message) -> bool:
    error = refusal(message)
    if error is not None:
        assert error.message.isprintable()
        assert error.param is None or error.message.startswith(f"{error.param} ")
    return error is None


def refusal(message: Message) -> InvalidRequest | None:
    try:
        check(message)
    except InvalidRequest as error:
        return error
    return None


def is_printed(message: Message) -> bool:
    try:
        encode(message)
    except ValueError:
        return False
    return True


def request() -> service_pb2.CreateResponseRequest:
    made = service_pb2.CreateResponseRequest(model="m")
    made.tools.add().function.name = "f"
    made.tools.add().namespace.tools.add().custom.name = "c"
    made.input.items.items.add().message.content.parts.parts.add().input_text.text = "x"
    return made


# What is wrong, and the path that says so.
WRONG = [
    (lambda r: setattr(r.tools[0].function, "parameters", "not json"), "tools[0].parameters"),
    (lambda r: setattr(r.tools[0].function, "parameters", "[" * 99 + "]" * 99), "tools[0].parameters"),
    (lambda r: setattr(r.tool_choice, "mode", 9), "tool_choice"),
    (lambda r: setattr(r, "truncation", 7), "truncation"),
    (lambda r: r.text.format.SetInParent(), "text.format"),
    (lambda r: r.tools[1].namespace.tools.add(), "tools[1].tools[1]"),
    (lambda r: r.tool_choice.SetInParent(), "tool_choice"),
    (lambda r: r.tools[1].namespace.tools[0].custom.format.SetInParent(), "tools[1].tools[0].format"),
    (lambda r: setattr(r.input.items.items[0].message, "status", 9), "input[0].status"),
    (lambda r: r.input.items.items[0].message.content.parts.parts.add(), "input[0].content[1]"),
    (lambda r: r.input.items.items.add(), "input[1]"),
    (lambda r: setattr(r.input.items.items.add().unknown, "json", "{"), "input[1]"),
    (lambda r: setattr(r, "temperature", float("nan")), "temperature"),
    (lambda r: r.input.SetInParent() or r.input.ClearField("items"), "input"),
]


@pytest.mark.parametrize(("spoiled", "param"), WRONG)
def test_what_is_wrong_is_named(spoiled: Any, param: str) -> None:
    wrong = request()
    check(wrong)
    spoiled(wrong)
    with pytest.raises(InvalidRequest) as caught:
        check(wrong)
    assert caught.value.param == param


def test_raw_text_has_the_limits_of_a_document() -> None:
    deepest = request()
    deepest.tools[0].function.parameters = "[" * MAX_NESTING_LEVELS + "]" * MAX_NESTING_LEVELS
    check(deepest)
