"""Message to JSON values, by functions that are put together once for each message type from its shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from google.protobuf.descriptor import FieldDescriptor

from service.wire import json_shape, json_text
from service.wire.json_shape import TYPE_KEY, UNKNOWN_MEMBER, Array, Bare, Field, Object, Tagged
from service.wire.per_type import PerType, remembered

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

Encoder: TypeAlias = Callable[[Any], Any]
"""From a message, or one value of a field, to what orjson prints. ValueError: it has no JSON."""

Step: TypeAlias = Callable[[Any, dict[str, Any]], None]
"""From a message, adds one field's key to its object, or leaves it out."""

_MAX_EXACT_INTEGER = 2.0**53
"""Beyond it every double is integral; printing its digits would say more than it knows."""


class _Encoders(PerType[Encoder]):
    def build(self, message: Descriptor) -> Encoder:
        match json_shape.shape_of(message):
            case Object() as shape:
                return self._object(shape)
            case Array(field):
                return self._array(field)
            case Tagged() as shape:
                return self._tagged(message, shape)
            case Bare() as shape:
                return self._bare(message, shape)
            case never:
                assert_never(never)

    def _object(self, shape: Object) -> Encoder:
        start = {} if shape.type is None else {TYPE_KEY: shape.type}
        steps = [self._step(field) for field in shape.fields]

        def encode(message: Message) -> dict[str, Any]:
            keys: dict[str, Any] = start.copy()
            for step in steps:
                step(message, keys)
            return keys

        return encode

    def _array(self, field: Field) -> Encoder:
        name, every = field.name, self._every(field)
        return lambda message: every(getattr(message, name))

    def _tagged(self, message: Descriptor, shape: Tagged) -> Encoder:
        oneof, full_name = shape.oneof, message.full_name
        beside = [self._step(field) for field in shape.beside]
        as_it_came = _raw(shape.unknown) if shape.unknown else None
        members = {
            name: (tag, [self._step(field) for field in fields])
            for tag, (name, fields) in shape.members.items()
        }

        def encode(union: Message) -> Any:
            member = union.WhichOneof(oneof)
            if member is None:
                raise ValueError(f"{full_name}: no member of {oneof} is set")
            body = getattr(union, member)
            if as_it_came and member == UNKNOWN_MEMBER:
                return as_it_came(body.json)
            tag, steps = members[member]
            keys: dict[str, Any] = {TYPE_KEY: tag}
            for step in beside:
                step(union, keys)
            for step in steps:
                step(body, keys)
            return keys

        return encode

    def _bare(self, message: Descriptor, shape: Bare) -> Encoder:
        oneof, full_name = shape.oneof, message.full_name
        members = {field.name: self._value(field) for field in shape.members.values()}

        def encode(union: Message) -> Any:
            member = union.WhichOneof(oneof)
            if member is None:
                raise ValueError(f"{full_name}: no member of {oneof} is set")
            value, convert = getattr(union, member), members[member]
            return convert(value) if convert else value

        return encode

    def _step(self, field: Field) -> Step:
        if field.is_map or field.is_repeated:
            return self._many(field)
        convert = self._value(field)
        if convert and field.enum:
            return _when_named(field, convert)
        return _when_set(field, convert) if field.optional else _always(field.name, convert)

    def _many(self, field: Field) -> Step:
        name, every = field.name, self._every(field)
        empty: Any = None if field.null_when_unset else {} if field.is_map else []
        omit = field.omit_when_empty

        def step(message: Message, keys: dict[str, Any]) -> None:
            values = getattr(message, name)
            if values:
                keys[name] = every(values)
            elif not omit:
                keys[name] = empty

        return step

    def _every(self, field: Field) -> Encoder:
        convert = self._value(field)
        if field.is_map:
            # Maps have no order of their own; sorted keys make equal messages print equal.
            if convert is None:
                return lambda values: {key: values[key] for key in sorted(values)}
            return lambda values: {key: convert(values[key]) for key in sorted(values)}
        return list if convert is None else lambda values: [convert(value) for value in values]

    def _value(self, field: Field) -> Encoder | None:
        """The encoder of one value of a field, None when it is printed as it is."""
        if field.raw:
            embed = _raw(field)
            return lambda text: embed(text) if text else None
        if field.message:
            return self.of(field.message)
        if field.enum:
            return _enum(field)
        if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
            return _double(field)
        return None


def _always(name: str, convert: Encoder | None) -> Step:
    if convert is None:

        def step(message: Message, keys: dict[str, Any]) -> None:
            keys[name] = getattr(message, name)

    else:

        def step(message: Message, keys: dict[str, Any]) -> None:
            keys[name] = convert(getattr(message, name))

    return step


def _when_set(field: Field, convert: Encoder | None) -> Step:
    name, null = field.name, field.null_when_unset

    def step(message: Message, keys: dict[str, Any]) -> None:
        if message.HasField(name):
            value = getattr(message, name)
            keys[name] = convert(value) if convert else value
        elif null:
            keys[name] = None

    return step


def _when_named(field: Field, convert: Encoder) -> Step:
    """An enum's zero has no name: it is unset, `optional` or not."""
    name, null = field.name, field.null_when_unset

    def step(message: Message, keys: dict[str, Any]) -> None:
        value = getattr(message, name)
        if value:
            keys[name] = convert(value)
        elif null:
            keys[name] = None

    return step


def _raw(field: Field) -> Encoder:
    def convert(text: str) -> object:
        try:
            return json_text.embed(text)
        except ValueError:
            raise ValueError(f"{field.full_name}: the text is not JSON") from None

    return convert


def _enum(field: Field) -> Encoder:
    assert field.enum is not None
    names = json_shape.enum_names(field.enum)

    def convert(number: int) -> str:
        try:
            return names[number]
        except KeyError:
            raise ValueError(f"{field.full_name}: {number} has no name") from None

    return convert


def _double(field: Field) -> Encoder:
    def convert(value: float) -> int | float:
        if value.is_integer() and -_MAX_EXACT_INTEGER <= value <= _MAX_EXACT_INTEGER:
            return int(value)
        if not math.isfinite(value):
            raise ValueError(f"{field.full_name}: JSON has no {value}")
        return value

    return convert


encoder_of: Final = remembered(_Encoders)
"""Returns the encoder of a message type, which is built when it is first asked for."""
