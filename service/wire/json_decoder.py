"""JSON values to message, by functions that are put together once for each message type from its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from google.protobuf.descriptor import FieldDescriptor

from service.wire import json_shape, json_text
from service.wire.json_mismatch import KINDS, Mismatch, expected, key_path, not_one_of
from service.wire.json_shape import DEFAULT_TAG, INTEGER_RANGES, TYPE_KEY, Array, Bare, Field, Object, Tagged
from service.wire.json_text import DigitsNeeded, JsonValue, Number
from service.wire.per_type import PerType, remembered

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

Reader: TypeAlias = Callable[[Any, Any], None]
"""Reads a JSON value into a message, or into one field of it. Mismatch: it is not the JSON of one.
DigitsNeeded: it may be, where it is read exactly."""

Scalar: TypeAlias = Callable[[Any], Any]
"""Reads a JSON value as a field's scalar. Mismatch: it is not one."""


class _Decoders(PerType[Reader]):
    def build(self, message: Descriptor) -> Reader:
        match json_shape.shape_of(message):
            case Object() as shape:
                return self._object(shape)
            case Array(field):
                return self._field(field)
            case Tagged() as shape:
                return self._tagged(shape)
            case Bare() as shape:
                return self._bare(shape)
            case never:
                assert_never(never)

    def _object(self, shape: Object) -> Reader:
        keys = self._keys(shape.fields)
        if shape.type is not None:
            keys[TYPE_KEY] = _constant(shape.type)

        def read(message: Message, value: JsonValue) -> None:
            if type(value) is not dict:
                raise expected("an object", value)
            _read_keys(keys, message, value)

        return read

    def _tagged(self, shape: Tagged) -> Reader:
        beside = self._keys(shape.beside)
        members = {tag: (name, self._keys(fields)) for tag, (name, fields) in shape.members.items()}
        default = DEFAULT_TAG if DEFAULT_TAG in members else None
        unknown = shape.unknown.name if shape.unknown else None

        def read(union: Message, value: JsonValue) -> None:
            if type(value) is not dict:
                raise expected("an object", value)
            tag = value.get(TYPE_KEY)
            if tag is None and (tag := default) is None:
                raise not_one_of(members, "is missing; it must be").within(".type")
            if type(tag) is not str:
                raise expected("a string", tag).within(".type")
            if shape.has_type:
                setattr(union, TYPE_KEY, tag)
            _read_keys(beside, union, value)
            if tag in members:
                name, keys = members[tag]
                body = getattr(union, name)
                body.SetInParent()
                _read_keys(keys, body, value)
            elif unknown:
                body = getattr(union, unknown)
                body.type, body.json = tag, json_text.compact(value)
            else:
                raise not_one_of(members).within(".type")

        return read

    def _bare(self, shape: Bare) -> Reader:
        members = {kind: self._one(field) for kind, field in shape.members.items()}
        kinds = " or ".join(phrase for kind, phrase in dict(KINDS.values()).items() if kind in members)

        def read(union: Message, value: JsonValue) -> None:
            member = members.get(KINDS[type(value)][0])
            if member is None:
                raise expected(kinds, value)
            member(union, value)

        return read

    def _keys(self, fields: Iterable[Field]) -> dict[str, Reader]:
        return {field.name: self._field(field) for field in fields}

    def _field(self, field: Field) -> Reader:
        if field.is_map:
            return self._map(field)
        return self._many(field) if field.is_repeated else self._one(field)

    def _one(self, field: Field) -> Reader:
        name = field.name
        if field.message:
            nested = self.of(field.message)

            def read_message(message: Message, value: JsonValue) -> None:
                body = getattr(message, name)
                body.SetInParent()
                nested(body, value)

            return read_message
        scalar = _scalar(field)
        return lambda message, value: setattr(message, name, scalar(value))

    def _many(self, field: Field) -> Reader:
        name = field.name
        add: Callable[[Any, JsonValue], None]
        if field.message:
            nested = self.of(field.message)
            add = lambda values, item: nested(values.add(), item)  # noqa: E731
        else:
            scalar = _scalar(field)
            add = lambda values, item: values.append(scalar(item))  # noqa: E731

        def read(message: Message, value: JsonValue) -> None:
            if type(value) is not list:
                raise expected("an array", value)
            values = getattr(message, name)
            for index, item in enumerate(value):
                try:
                    add(values, item)
                except Mismatch as mismatch:
                    raise mismatch.within(f"[{index}]") from None

        return read

    def _map(self, field: Field) -> Reader:
        name = field.name
        put: Callable[[Any, str, JsonValue], None]
        if field.message:
            nested = self.of(field.message)
            put = lambda values, key, item: nested(values[key], item)  # noqa: E731
        else:
            scalar = _scalar(field)
            put = lambda values, key, item: values.__setitem__(key, scalar(item))  # noqa: E731

        def read(message: Message, value: JsonValue) -> None:
            if type(value) is not dict:
                raise expected("an object", value)
            values = getattr(message, name)
            for key, item in value.items():
                try:
                    put(values, key, item)
                except Mismatch as mismatch:
                    raise mismatch.within(key_path(key)) from None

        return read


def _read_keys(keys: dict[str, Reader], message: Message, value: dict[str, JsonValue]) -> None:
    for key, item in value.items():
        if item is not None and (reader := keys.get(key)):
            try:
                reader(message, item)
            except Mismatch as mismatch:
                raise mismatch.within(f".{key}") from None


def _constant(text: str) -> Reader:
    def read(_: Message, value: JsonValue) -> None:
        if value != text:
            raise not_one_of([text])

    return read


def _scalar(field: Field) -> Scalar:
    if field.raw:
        return json_text.compact
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return _string
        case FieldDescriptor.CPPTYPE_BOOL:
            return _boolean
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return _double
        case FieldDescriptor.CPPTYPE_ENUM:
            assert field.enum is not None
            return _enum({name: number for number, name in json_shape.enum_names(field.enum).items()})
        case integer:
            return _integer(*INTEGER_RANGES[integer])


def _string(value: JsonValue) -> str:
    if type(value) is not str:
        raise expected("a string", value)
    return value


def _boolean(value: JsonValue) -> bool:
    if type(value) is not bool:
        raise expected("a boolean", value)
    return value


def _double(value: JsonValue) -> float:
    if type(value) is Number:
        return value.value
    if type(value) is not int and type(value) is not float:
        raise expected("a number", value)
    return float(value)


def _integer(lowest: int, highest: int) -> Scalar:
    def read(value: JsonValue) -> int:
        if type(value) is float:
            raise DigitsNeeded
        number = value.integer if type(value) is Number else value
        if type(value) is Number and number is None:
            raise Mismatch("must be an integer, not a number with a fraction")
        if type(number) is not int:
            raise expected("an integer", value)
        if not lowest <= number <= highest:
            raise Mismatch(f"must be an integer from {lowest} to {highest}", "invalid_value")
        return number

    return read


def _enum(numbers: dict[str, int]) -> Scalar:
    def read(value: JsonValue) -> int:
        number = numbers.get(_string(value))
        if number is None:
            raise not_one_of(numbers)
        return number

    return read


decoder_of: Final = remembered(_Decoders)
"""Returns the decoder of a message type, which is built when it is first asked for."""
