"""Message to JSON values, by functions that are put together once for each message type from its shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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

_ZEROS: Final = {FieldDescriptor.CPPTYPE_STRING: "", FieldDescriptor.CPPTYPE_BOOL: False}
"""The values of unset scalars; those of all other types are 0."""
_LEFT_OUT: Final = object()
"""Stands in an empty object for the value of a key that is printed only when it is set."""

_MAX_EXACT_INTEGER = 2.0**53
"""Beyond it every double is integral; printing its digits would say more than it knows."""


class _Encoders(PerType[Encoder]):
    def build(self, message: Descriptor) -> Encoder:
        match json_shape.shape_of(message):
            case Object(fields, type_):
                return self._object(_empty(fields, type_), fields)
            case Array(field):
                return self._array(field)
            case Tagged() as shape:
                return self._tagged(message, shape)
            case Bare() as shape:
                return self._bare(message, shape)
            case never:
                assert_never(never)

    def _object(self, empty: dict[str, Any], fields: Iterable[Field]) -> Encoder:
        """`empty`: the object of a message without anything set.

        Of most messages little is set, and only that is looked at. What is returned shares the empty arrays
        and objects of `empty`: it is to be printed, not changed.
        """
        printed = {field.descriptor: (field.name, self._field(field)) for field in fields}
        may_be_left_out = [name for name, value in empty.items() if value is _LEFT_OUT]

        def encode(message: Message) -> dict[str, Any]:
            keys = empty.copy()
            for field, value in message.ListFields():
                name, convert = printed[field]
                keys[name] = convert(value) if convert else value
            for name in may_be_left_out:
                if keys[name] is _LEFT_OUT:
                    del keys[name]
            return keys

        return encode

    def _array(self, field: Field) -> Encoder:
        name, every = field.name, self._every(field)
        return lambda message: every(getattr(message, name))

    def _tagged(self, message: Descriptor, shape: Tagged) -> Encoder:
        oneof, full_name = shape.oneof, message.full_name
        beside = [field.name for field in shape.beside]
        members: dict[str, Encoder] = {}
        for tag, (name, fields) in shape.members.items():
            members[name] = self._object(_empty([*shape.beside, *fields], tag), fields)
        if shape.unknown:
            as_it_came = _raw(shape.unknown)
            members[UNKNOWN_MEMBER] = lambda unknown: as_it_came(unknown.json)

        def encode(union: Message) -> Any:
            member = union.WhichOneof(oneof)
            if member is None:
                raise ValueError(f"{full_name}: no member of {oneof} is set")
            keys = members[member](getattr(union, member))
            for name in beside:
                keys[name] = getattr(union, name)
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

    def _field(self, field: Field) -> Encoder | None:
        return self._every(field) if field.is_map or field.is_repeated else self._value(field)

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


def _empty(fields: Iterable[Field], type_: str | None) -> dict[str, Any]:
    """The object of a message without anything set, all its keys in their order."""
    keys: dict[str, Any] = {} if type_ is None else {TYPE_KEY: type_}
    keys.update((field.name, _unset(field)) for field in fields)
    return keys


def _unset(field: Field) -> Any:
    if field.null_when_unset:
        return None
    if field.is_map or field.is_repeated:
        return _LEFT_OUT if field.omit_when_empty else {} if field.is_map else []
    if field.optional or field.enum:
        return _LEFT_OUT
    return None if field.raw else _ZEROS.get(field.cpp_type, 0)


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
