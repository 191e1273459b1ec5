"""Hypothesis strategies made from descriptors: any message of the contract, or those that are also plausible.

Plausible is what the openai package's model of the same thing accepts: its literals, its required fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st
from openresponses.v1.json_pb2 import UnknownVariant

from service.wire.json_shape import (
    INTEGER_RANGES,
    TYPE_KEY,
    UNKNOWN_MEMBER,
    Array,
    Bare,
    Field,
    Object,
    Tagged,
    enum_names,
    shape_of,
)
from tests.property import sdk_types as sdk

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_MAX_DEPTH = 12
"""Messages in one another, beyond which lists are empty: some messages hold themselves."""

_INTEGERS = {kind: st.integers(*ends) for kind, ends in INTEGER_RANGES.items()}


@st.composite
def messages(
    draw: st.DrawFn,
    message_class: type[Message],
    like: sdk.Annotation = object,
    *,
    complete: bool = False,
    tag: str | None = None,
) -> Message:
    """A message; plausible as `like`, an annotation of the openai package.

    Args:
        draw: given by hypothesis.
        message_class: of the contract.
        like: `object` for any message at all, those that nobody would send included.
        complete: set every field that `like` has, and leave no list empty.
        tag: of the wanted member, when the message is a tagged union.
    """
    return _Drawing(draw, complete).message(message_class.DESCRIPTOR, sdk.members(like), 0, tag)


_Likes: TypeAlias = tuple[sdk.Annotation, ...]
"""What a value may be by the openai package; `object` for anything."""


class _Drawing:
    def __init__(self, draw: st.DrawFn, complete: bool) -> None:
        self.draw = draw
        self.complete = complete

    def message(self, descriptor: Descriptor, likes: _Likes, depth: int, tag: str | None = None) -> Message:
        message = message_factory.GetMessageClass(descriptor)()
        match shape_of(descriptor):
            case Object(fields):
                self.fields(message, fields, self.model_of(likes), depth)
            case Array(field):
                getattr(message, field.name).extend(self.elements(field, likes, depth))
            case Tagged() as shape:
                self.tagged(message, shape, likes, depth, tag)
            case Bare(_, members):
                kinds = [
                    kind
                    for kind in members
                    if likes == (object,) or any(kind == sdk.kind(like) for like in likes)
                ]
                kind = self.draw(st.sampled_from(kinds))
                inner = tuple(like for like in likes if like is object or sdk.kind(like) == kind)
                self.put(message, members[kind], inner, depth)
        return message

    def tagged(self, message: Message, shape: Tagged, likes: _Likes, depth: int, tag: str | None) -> None:
        models: dict[str, list[sdk.Annotation]] = {}
        for model in filter(sdk.is_object, likes):
            for name in sdk.literals(sdk.members(sdk.keys(model)["type"].annotation)) or ():
                models.setdefault(name, []).append(model)
        assert models.keys() <= shape.members.keys(), f"{message.DESCRIPTOR.full_name} lacks members"
        tag = tag or self.draw(
            st.sampled_from([*(models or shape.members), *self.unknown_tag(shape, models)])
        )
        if shape.has_type:
            setattr(message, TYPE_KEY, tag)
        model = self.model_of(tuple(models.get(tag, ())))
        self.fields(message, shape.beside, model, depth)
        if tag in shape.members:
            name, fields = shape.members[tag]
            getattr(message, name).SetInParent()
            self.fields(getattr(message, name), fields, model, depth + 1)
        else:
            value = {**self.draw(sdk.JSON_BY_KIND["object"]), TYPE_KEY: tag}
            getattr(message, UNKNOWN_MEMBER).MergeFrom(UnknownVariant(type=tag, json=_compact(value)))

    def unknown_tag(self, shape: Tagged, models: dict[str, list[sdk.Annotation]]) -> list[str]:
        return [f"{self.draw(sdk.TEXT)}?"] if shape.unknown and not models else []

    def model_of(self, likes: _Likes) -> sdk.Annotation | None:
        models = [like for like in likes if sdk.is_object(like)]
        return self.draw(st.sampled_from(models)) if models else None

    def fields(
        self, message: Message, fields: Iterable[Field], model: sdk.Annotation | None, depth: int
    ) -> None:
        for field in fields:
            key = sdk.keys(model).get(field.name) if model else sdk.Key(object, required=False)
            if key is None:
                continue
            likes = sdk.members(key.annotation)
            if field.is_map:
                values = getattr(message, field.name)
                for name in self.draw(st.sets(sdk.TEXT, min_size=self.complete, max_size=2)):
                    value = self.value(field, _inner(likes, "object"), depth)
                    values[name].CopyFrom(value) if field.message else values.update({name: value})
            elif field.is_repeated:
                getattr(message, field.name).extend(self.elements(field, likes, depth))
            elif (
                self.complete
                or (key.required and not sdk.nullable(key.annotation))
                or not (field.optional or field.enum)
                or self.draw(st.booleans())
            ):
                self.put(message, field, likes, depth)

    def put(self, message: Message, field: Field, likes: _Likes, depth: int) -> None:
        value = self.value(field, likes, depth)
        if field.message:
            getattr(message, field.name).SetInParent()
            getattr(message, field.name).CopyFrom(value)
        else:
            setattr(message, field.name, value)

    def elements(self, field: Field, likes: _Likes, depth: int) -> list[Any]:
        size = self.draw(st.integers(int(self.complete), 2)) if depth < _MAX_DEPTH else 0
        return [self.value(field, _inner(likes, "array"), depth) for _ in range(size)]

    def value(self, field: Field, likes: _Likes, depth: int) -> Any:
        if field.message:
            return self.message(field.message, likes, depth + 1)
        only = sdk.literals(likes)
        if field.enum:
            names = enum_names(field.enum)
            return self.draw(
                st.sampled_from([number for number in names if only is None or names[number] in only])
            )
        if only:
            return self.draw(st.sampled_from(only))
        if field.raw:
            kinds = [sdk.kind(like) for like in likes if like is not object] or list(sdk.JSON_BY_KIND)
            return _compact(self.draw(sdk.JSON_BY_KIND[self.draw(st.sampled_from(kinds))]))
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING:
                return self.draw(sdk.TEXT)
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.draw(st.booleans())
            case FieldDescriptor.CPPTYPE_DOUBLE:
                return self.draw(sdk.DOUBLE)
            case integer:
                return self.draw(_INTEGERS[integer])


def _inner(likes: _Likes, kind: str) -> _Likes:
    """What the elements of those arrays, or the values of those objects, may be."""
    inner = [sdk.element(like) for like in likes if like is not object and sdk.kind(like) == kind]
    return tuple(member for annotation in inner for member in sdk.members(annotation)) or (object,)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
