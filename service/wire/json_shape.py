"""What a message's JSON looks like: its descriptor and the options of `json.proto`, as one of four shapes.

Mistakes in the contract show here, as a TypeError that names the message or field.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from openresponses.v1 import json_pb2

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, OneofDescriptor

TYPE_KEY = "type"
UNKNOWN_MEMBER = "unknown"
DEFAULT_TAG = "message"
"""A tagged object without `type` is read as the member of this tag: OpenAI's clients leave it out there."""

INTEGER_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
"""The integer types and the values they hold, both ends included."""
_PLAIN = {FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL, *INTEGER_RANGES}
"""The types that may stand beside a oneof."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field and its options.

    Attributes:
        descriptor: what `Message.ListFields` knows the field by.
        cpp_type, message, enum: the type of the field's value, of each element, or of a map's values.
        is_map: whether the field is a map from strings.
        optional: whether unset differs from zero.
        null_when_unset, omit_when_empty, raw, tag: see `JsonField` in json.proto.

    """

    descriptor: FieldDescriptor
    name: str
    full_name: str
    cpp_type: int
    message: Descriptor | None
    enum: EnumDescriptor | None
    is_map: bool
    is_repeated: bool
    optional: bool
    null_when_unset: bool
    omit_when_empty: bool
    raw: bool
    tag: str


@dataclass(frozen=True, slots=True)
class Object:
    """An object with a key for each field, after `type` when that is given."""

    fields: tuple[Field, ...]
    type: str | None


@dataclass(frozen=True, slots=True)
class Array:
    """The array of the message's only field."""

    field: Field


@dataclass(frozen=True, slots=True)
class Tagged:
    """An object told apart by its `type` key: a member's own fields, and those beside the oneof.

    Attributes:
        members: by tag, a member's name and the fields of its message; `unknown` is not among them.
        unknown: the member for what the contract does not know, if there is one.
        beside: the fields beside the oneof, plain scalars, without `type`.
        has_type: whether a field `type` stands beside the oneof. It repeats the tag.

    """

    oneof: str
    members: dict[str, tuple[str, tuple[Field, ...]]]
    unknown: Field | None
    beside: tuple[Field, ...]
    has_type: bool


@dataclass(frozen=True, slots=True)
class Bare:
    """One of several JSON kinds.

    Attributes:
        members: by JSON kind: "string", "number", "boolean", "array" or "object".

    """

    oneof: str
    members: dict[str, Field]


Shape: TypeAlias = Object | Array | Tagged | Bare


def shape_of(message: Descriptor) -> Shape:
    """Read the shape of a message's JSON.

    Raises:
        TypeError: the contract says something that the rules cannot express.

    """
    options = _options(message)
    match options.union:
        case json_pb2.JSON_UNION_TAGGED:
            return _tagged(message)
        case json_pb2.JSON_UNION_BARE:
            return _bare(message)
    fields = fields_of(message)
    if options.list:
        if len(fields) != 1 or not fields[0].is_repeated:
            raise TypeError(f"{message.full_name}: a list has one repeated field")
        return Array(fields[0])
    return Object(fields, options.type or None)


def fields_of(message: Descriptor) -> tuple[Field, ...]:
    """The message's fields with their options, in the order of the contract."""
    return tuple(_field(field) for field in message.fields)


def enum_names(enum: EnumDescriptor) -> dict[int, str]:
    """The JSON string of each value but the first, which means unset."""
    prefix = "".join(f"_{char}" if char.isupper() else char for char in enum.name).lower().lstrip("_") + "_"
    return {value.number: value.name.lower().removeprefix(prefix) for value in enum.values if value.number}


def _options(message: Descriptor) -> json_pb2.JsonMessage:
    return message.GetOptions().Extensions[json_pb2.json_message]


def _field(field: FieldDescriptor) -> Field:
    options = field.GetOptions().Extensions[json_pb2.json]
    entry = field.message_type if field.message_type and field.message_type.GetOptions().map_entry else None
    if entry and entry.fields_by_name["key"].cpp_type != FieldDescriptor.CPPTYPE_STRING:
        raise TypeError(f"{field.full_name}: the keys of a map are strings")
    value = entry.fields_by_name["value"] if entry else field
    if value.type == FieldDescriptor.TYPE_BYTES or value.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        raise TypeError(f"{field.full_name}: bytes and float have no JSON form here; use string and double")
    if options.raw and value.cpp_type != FieldDescriptor.CPPTYPE_STRING:
        raise TypeError(f"{field.full_name}: raw is for strings")
    oneof = field.containing_oneof
    if field.enum_type and oneof and not _is_written(oneof):
        raise TypeError(f"{field.full_name}: the zero of an enum is unset already; leave `optional` out")
    can_be_unset = field.has_presence or field.is_repeated or options.raw or field.enum_type
    if options.null_when_unset and not can_be_unset:
        raise TypeError(f"{field.full_name}: null_when_unset is for fields that can be unset; add `optional`")
    return Field(
        descriptor=field,
        name=field.name,
        full_name=field.full_name,
        cpp_type=value.cpp_type,
        message=value.message_type,
        enum=value.enum_type,
        is_map=entry is not None,
        is_repeated=field.is_repeated and entry is None,
        optional=field.has_presence,
        null_when_unset=options.null_when_unset,
        omit_when_empty=options.omit_when_empty,
        raw=options.raw,
        tag=options.tag or field.name,
    )


def _is_written(oneof: OneofDescriptor) -> bool:
    """Whether a oneof stands in the contract: an `optional` field is one of its own, named with a `_`."""
    return not oneof.name.startswith("_")


def _oneof(message: Descriptor) -> tuple[str, list[Field], list[Field]]:
    """The name of a union's oneof, its members, and the fields beside it."""
    oneofs = [oneof for oneof in message.oneofs if _is_written(oneof)]
    if len(oneofs) != 1:
        raise TypeError(f"{message.full_name}: a union has one oneof")
    names = {field.name for field in oneofs[0].fields}
    fields = fields_of(message)
    inside = [field for field in fields if field.name in names]
    return oneofs[0].name, inside, [field for field in fields if field.name not in names]


def _tagged(message: Descriptor) -> Tagged:
    oneof, inside, beside = _oneof(message)
    members: dict[str, tuple[str, tuple[Field, ...]]] = {}
    unknown = None
    for field in inside:
        body = field.message
        if body is None or (options := _options(body)).union or options.list:
            raise TypeError(f"{field.full_name}: a member of a tagged union is a plain message")
        if field.name == UNKNOWN_MEMBER:
            unknown = field
            continue
        if field.tag in members:
            raise TypeError(f"{field.full_name}: another member has the tag {field.tag}")
        if TYPE_KEY in body.fields_by_name or options.type not in ("", field.tag):
            raise TypeError(f"{field.full_name}: its message must leave `type` to the tag, {field.tag}")
        members[field.tag] = (field.name, fields_of(body))
    others = tuple(field for field in beside if field.name != TYPE_KEY)
    inner_names = {inner.name for _, fields in members.values() for inner in fields}
    for field in others:
        if field.cpp_type not in _PLAIN or field.optional or field.is_repeated or field.is_map or field.raw:
            raise TypeError(f"{field.full_name}: beside a oneof stand plain texts, integers and booleans")
        if unknown:
            raise TypeError(f"{field.full_name}: nothing stands beside a member that is printed as it came")
        if field.name in inner_names:
            raise TypeError(f"{field.full_name}: a member of the oneof has a field of that name, too")
    return Tagged(oneof, members, unknown, others, has_type=len(others) < len(beside))


def _bare(message: Descriptor) -> Bare:
    oneof, inside, beside = _oneof(message)
    if beside:
        raise TypeError(f"{message.full_name}: nothing stands beside the oneof of a bare union")
    members: dict[str, Field] = {}
    for field in inside:
        kind = _kind(field)
        if members.setdefault(kind, field) is not field:
            raise TypeError(f"{field.full_name}: another member is of the JSON kind {kind}")
    return Bare(oneof, members)


def _kind(field: Field) -> str:
    if field.raw:
        raise TypeError(f"{field.full_name}: a member of a bare union is not raw")
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING | FieldDescriptor.CPPTYPE_ENUM:
            return "string"
        case FieldDescriptor.CPPTYPE_BOOL:
            return "boolean"
        case FieldDescriptor.CPPTYPE_MESSAGE:
            assert field.message is not None
            options = _options(field.message)
            if options.union == json_pb2.JSON_UNION_BARE:
                raise TypeError(f"{field.full_name}: a member of a bare union is not itself one")
            return "array" if options.list else "object"
        case _:
            return "number"
