"""Whether a message that a client has made can be printed as JSON, by functions that are put together once.

JSON that is read cannot say what has no JSON. A typed message can: an enum number without a name, a union
without a member, NaN, raw text that is not JSON. It is refused here, at the door: kept, it could never be
shown. What passes is printed by `json_encoder`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from google.protobuf.descriptor import FieldDescriptor

from service.errors import InvalidRequest
from service.wire import json_shape, json_text
from service.wire.json_mismatch import Mismatch, key_path
from service.wire.json_shape import UNKNOWN_MEMBER, Array, Bare, Field, Object, Tagged
from service.wire.per_type import PerType, remembered

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

Check: TypeAlias = Callable[[Any], None]
"""Looks at a message, or at one value of a field. Mismatch: it has no JSON."""


class _Checks(PerType[Check]):
    def build(self, message: Descriptor) -> Check:
        match json_shape.shape_of(message):
            case Object(fields):
                return self._fields(fields)
            case Array(field):
                return self._array(field)
            case Tagged() as shape:
                return self._tagged(shape)
            case Bare() as shape:
                return self._bare(shape)
            case never:
                assert_never(never)

    def _array(self, field: Field) -> Check:
        name, every = field.name, self._field(field)
        return lambda message: every(getattr(message, name)) if every else None

    def _tagged(self, shape: Tagged) -> Check:
        members = {name: self._fields(fields) for name, fields in shape.members.values()}

        def check(union: Message) -> None:
            member = union.WhichOneof(shape.oneof)
            if member is None:
                raise _unset(shape.oneof)
            body = getattr(union, member)
            if member == UNKNOWN_MEMBER:
                _json_text(body.json)
            else:
                members[member](body)

        return check

    def _bare(self, shape: Bare) -> Check:
        members = {field.name: self._value(field) for field in shape.members.values()}

        def check(union: Message) -> None:
            member = union.WhichOneof(shape.oneof)
            if member is None:
                raise _unset(shape.oneof)
            if value := members[member]:
                value(getattr(union, member))

        return check

    def _fields(self, fields: Iterable[Field]) -> Check:
        checks = {
            field.descriptor: (f".{field.name}", check) for field in fields if (check := self._field(field))
        }

        def check_set(message: Message) -> None:
            for field, value in message.ListFields():
                if field not in checks:
                    continue
                part, check = checks[field]
                try:
                    check(value)
                except Mismatch as mismatch:
                    raise mismatch.within(part) from None

        return check_set

    def _field(self, field: Field) -> Check | None:
        """The check of a field's value, or of all its values; None when every one has JSON."""
        value = self._value(field)
        if value is None or not (field.is_map or field.is_repeated):
            return value

        def check_every(values: Any) -> None:
            pairs = ((key_path(key), values[key]) for key in values) if field.is_map else _indexed(values)
            for part, each in pairs:
                try:
                    value(each)
                except Mismatch as mismatch:
                    raise mismatch.within(part) from None

        return check_every

    def _value(self, field: Field) -> Check | None:
        """The check of one value, None when every one has JSON."""
        if field.raw:
            return _raw
        if field.message:
            return self.of(field.message)
        if field.enum:
            return _named(json_shape.enum_names(field.enum))
        return _finite if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE else None


def _indexed(values: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    return ((f"[{index}]", value) for index, value in enumerate(values))


def _unset(oneof: str) -> Mismatch:
    return Mismatch(f"is empty: set one member of its oneof {oneof!r}", "invalid_value")


def _named(names: dict[int, str]) -> Check:
    def check(number: int) -> None:
        if number not in names:
            raise Mismatch(f"must be a value that the contract names, not number {number}", "unknown_value")

    return check


def _finite(value: float) -> None:
    if not math.isfinite(value):
        raise Mismatch("must be a finite number", "invalid_value")


def _raw(text: str) -> None:
    # Empty, it is printed as null.
    if text:
        _json_text(text)


def _json_text(text: str) -> None:
    try:
        json_text.parse(text.encode())
    except InvalidRequest as error:
        problem = error.message.removeprefix("The body ").removesuffix(".")
        raise Mismatch(f"must be JSON text: it {problem}", "invalid_value") from None


check_of: Final = remembered(_Checks)
"""Returns the check of a message type, which is built when it is first asked for."""
