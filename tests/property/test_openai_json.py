"""Every message of the contract: what is printed is what the openai package reads, and nothing is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import (
    ResponseStreamEvent as SdkEvent,
)
from openresponses.v1.event_pb2 import ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from service.wire.json_shape import Tagged, shape_of
from service.wire.openai_json import decode, encode
from tests.property.messages import messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

# Keys that are not OpenAI's: by the openai package's model.
ADDED = {
    ("Response", "presence_penalty"),
    ("Response", "frequency_penalty"),
    ("Response", "store"),
    ("ResponseErrorEvent", "error"),
}


def tags(message_class: type[Message]) -> list[str]:
    shape = shape_of(message_class.DESCRIPTOR)
    assert isinstance(shape, Tagged)
    return sorted(shape.members)


def extra(value: Any) -> Iterator[tuple[str, str]]:
    """The keys that the openai package's model of them does not have."""
    match value:
        case BaseModel():
            name = type(value).__name__
            yield from ((name, key) for key in value.model_extra or {})
            for key in type(value).model_fields:
                yield from extra(getattr(value, key))
        case list():
            for item in value:
                yield from extra(item)
        case dict():
            for item in value.values():
                yield from extra(item)


def unset(value: Any) -> Iterator[tuple[str, str]]:
    """The keys that the openai package's model of them has, and that were not there."""
    match value:
        case BaseModel():
            name = type(value).__name__
            yield from ((name, key) for key in type(value).model_fields if key not in value.model_fields_set)
            for key in value.model_fields_set & type(value).model_fields.keys():
                yield from unset(getattr(value, key))
        case list():
            for item in value:
                yield from unset(item)
        case dict():
            for item in value.values():
                yield from unset(item)


EVENT = TypeAdapter[Any](SdkEvent)


@pytest.mark.parametrize("tag", tags(ResponseStreamEvent))
@given(data=st.data())
@settings(max_examples=20)
def test_events_parse(tag: str, data: st.DataObject) -> None:
    message = data.draw(messages(ResponseStreamEvent, SdkEvent, tag=tag))
    text = encode(message)
    model = EVENT.validate_json(text, strict=True)
    assert set(extra(model)) <= ADDED
    assert model.model_dump(mode="json", by_alias=True, exclude_unset=True) == json.loads(text)
    assert decode(ResponseStreamEvent, text) == message
