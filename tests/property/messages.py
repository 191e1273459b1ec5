"""A hypothesis strategy made from descriptors: any message of the contract, or those that are also plausible.

Plausible is what the openai package's type for the same thing accepts: its literals, its required keys.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st
from openresponses.v1.json_pb2 import UnknownVariant

from service.wire import json_shape as shapes
from service.wire.json_shape import Array, Bare, Object, Tagged
from tests.property import json_values
from tests.unit import openai_types as sdk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_Likes: TypeAlias = tuple[Any, ...]
"""What a value may be by the openai package, unions opened; `object` stands for anything."""

_MAX_DEPTH = 12
"""Messages in one another, beyond which lists are empty: some messages hold themselves."""

_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: json_values.TEXT,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_DOUBLE: json_values.DOUBLE,
    **{cpp_type: st.integers(*ends) for cpp_type, ends in shapes.INTEGER_RANGES.items()},
}


@st.composite
def messages(
    draw: st.DrawFn,
    message_class: type[Message],
    like: Any = object,
    *,
    tag: str | None = None,
    complete: bool = False,
) -> Message:
    """A message of a type.

    Args:
        draw: given by hypothesis.
        message_class: the type.
        like: the openai package's type for the same thing; `object` for any message at all.
        tag: of the wanted member, when the message is a tagged union.
        complete: set every field that `like` has, and leave no list empty.
    """
    return _Drawing(draw, complete).message(message_class.DESCRIPTOR, sdk.members(like), 0, tag)


class _Drawing:
    def __init__(self, draw: st.DrawFn, complete: bool) -> None:
        self.draw = draw
        self.complete = complete

    def message(self, descriptor: Descriptor, likes: _Likes, depth: int, tag: str | None = None) -> Message:
        message = message_factory.GetMessageClass(descriptor)()
        match shapes.shape_of(descriptor):
            case Object(fields):
                self.fields(message, fields, self.one_object(likes), depth)
            case Array(field):
                getattr(message, field.name).extend(self.elements(field, likes, depth))
            case Tagged() as shape:
                self.tagged(message, shape, likes, depth, tag)
            case Bare(_, members):
                kinds = [kind for kind in members if _of_kind(likes, kind)]
                kind = self.draw(st.sampled_from(kinds))
                self.put(message, members[kind], _of_kind(likes, kind), depth)
        return message

    def tagged(self, message: Message, shape: Tagged, likes: _Likes, depth: int, tag: str | None) -> None:
        classes: dict[str, list[type]] = {}
        for cls in filter(sdk.is_object, likes):
            for name in sdk.tags(cls):
                classes.setdefault(name, []).append(cls)
        if tag is None:
            new = [f"{self.draw(json_values.TEXT)}?"] if shape.unknown and not classes else []
            tag = self.draw(st.sampled_from([*(classes or shape.members), *new]))
        if shape.has_type:
            setattr(message, shapes.TYPE_KEY, tag)
        cls = self.one_object(tuple(classes.get(tag, ())))
        self.fields(message, shape.beside, cls, depth)
        if tag in shape.members:
            name, fields = shape.members[tag]
            getattr(message, name).SetInParent()
            self.fields(getattr(message, name), fields, cls, depth + 1)
        else:
            value = {**self.draw(json_values.OBJECT), shapes.TYPE_KEY: tag}
            getattr(message, shapes.UNKNOWN_MEMBER).MergeFrom(UnknownVariant(type=tag, json=_compact(value)))

    def one_object(self, likes: _Likes) -> type | None:
        classes = [like for like in likes if sdk.is_object(like)]
        return self.draw(st.sampled_from(classes)) if classes else None

    def fields(self, message: Message, fields: Iterable[shapes.Field], cls: type | None, depth: int) -> None:
        keys = sdk.fields(cls) if cls else {}
        for field in fields:
            key = keys.get(field.name)
            if cls and key is None:
                continue
            likes = key.types if key else (object,)
            if field.is_map:
                self.map(message, field, likes, depth)
            elif field.is_repeated:
                getattr(message, field.name).extend(self.elements(field, likes, depth))
            elif (
                self.complete
                or (key is not None and key.given and not key.nullable)
                or not (field.optional or field.enum)
                or self.draw(st.booleans())
            ):
                self.put(message, field, likes, depth)

    def map(self, message: Message, field: shapes.Field, likes: _Likes, depth: int) -> None:
        values = getattr(message, field.name)
        inner = tuple(member for like in likes for member in sdk.dict_of(like) or ()) or (object,)
        for name in self.draw(st.sets(json_values.TEXT, min_size=int(self.complete), max_size=2)):
            value = self.value(field, inner, depth)
            if field.message:
                values[name].CopyFrom(value)
            else:
                values[name] = value

    def elements(self, field: shapes.Field, likes: _Likes, depth: int) -> list[Any]:
        inner = tuple(member for like in likes for member in sdk.list_of(like) or ()) or (object,)
        size = self.draw(st.integers(int(self.complete), 2)) if depth < _MAX_DEPTH else 0
        return [self.value(field, inner, depth) for _ in range(size)]

    def put(self, message: Message, field: shapes.Field, likes: _Likes, depth: int) -> None:
        value = self.value(field, likes, depth)
        if field.message:
            getattr(message, field.name).SetInParent()
            getattr(message, field.name).CopyFrom(value)
        else:
            setattr(message, field.name, value)

    def value(self, field: shapes.Field, likes: _Likes, depth: int) -> Any:
        if field.message:
            return self.message(field.message, likes, depth + 1)
        only = [value for like in likes for value in sdk.literals(like)] if str not in likes else []
        if field.enum:
            names = shapes.enum_names(field.enum)
            return self.draw(
                st.sampled_from([number for number in names if not only or names[number] in only])
            )
        if field.raw:
            any_json = json_values.OBJECT | json_values.ARRAY | json_values.TEXT
            is_dict = any(sdk.dict_of(like) for like in likes)
            return _compact(self.draw(json_values.OBJECT if is_dict else any_json))
        return self.draw(st.sampled_from(only) if only else _SCALARS[field.cpp_type])


def _of_kind(likes: _Likes, kind: str) -> _Likes:
    return tuple(like for like in likes if like is object or json_values.kind(like) == kind)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
