"""Walks the contract's messages and the openai package's types together, and notes where they differ.

One message of ours may stand for several of the package's types: for what a client sends and what the
service answers, or for types that are the same but for their names. So the walk first gathers, for each
message, all types that it stands for, and compares with them all in the end: it must have every key that one
of them has, may leave out what one of them may leave out, and must always give what all of them always give.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from openresponses.v1 import json_pb2

from tests.unit import openai_types as sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

_NUMBERS = {
    FieldDescriptor.TYPE_INT32: {int},
    # The package has some times as whole numbers, all scores as fractions.
    FieldDescriptor.TYPE_DOUBLE: {int, float},
}


def json_options(field: FieldDescriptor) -> json_pb2.JsonField:
    return field.GetOptions().Extensions[json_pb2.json]


def message_options(message: Descriptor) -> json_pb2.JsonMessage:
    return message.GetOptions().Extensions[json_pb2.json_message]


def tag(field: FieldDescriptor) -> str:
    return json_options(field).tag or field.name


class ContractWalk:
    """Collects differences in `problems`. `additions` and `always_given` say which are meant to be."""

    def __init__(self, additions: Mapping[str, str], always_given: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self.additions = set(additions)
        self.always_given = set(always_given)
        self.reached: set[str] = set()
        self._pairs: set[tuple[str, Any]] = set()
        self._classes: dict[str, dict[Any, Descriptor]] = defaultdict(dict)
        self._tags: dict[str, set[str]] = defaultdict(set)
        self._unions: dict[str, Descriptor] = {}
        self._enums: dict[Any, set[str]] = defaultdict(set)

    def visit(self, message: Descriptor, held: tuple[Any, ...], where: str) -> None:
        """Notes that `message` stands for a value that is one of `held`."""
        self.reached.add(message.name)
        options = message_options(message)
        if options.list:
            self._visit_list(message.fields[0], held, where)
        elif options.union == json_pb2.JSON_UNION_TAGGED:
            self._visit_tagged(message, held, where)
        elif options.union == json_pb2.JSON_UNION_BARE:
            self._visit_bare(message, held, where)
        else:
            self._visit_object(message, held, where)

    def finish(self) -> list[str]:
        """Compares what was gathered. Returns the problems, sorted."""
        for name, classes in self._classes.items():
            self._compare(name, classes)
        for name, union in self._unions.items():
            ours = {tag(field) for field in union.oneofs[0].fields if field.name != "unknown"}
            self._differ(f"{name}: type", ours, self._tags[name])
        for enum, seen in self._enums.items():
            prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
            ours = {value.name.removeprefix(prefix).lower() for value in enum.values[1:]}
            self._differ(enum.name, ours, seen)
        self.problems += [
            f"{name}: no such difference, drop it" for name in self.additions | self.always_given
        ]
        return sorted(self.problems)

    def _differ(self, where: str, ours: set[str], theirs: set[str]) -> None:
        self.problems += [f"{where} {value!r} is missing" for value in theirs - ours]
        self.problems += [f"{where} {value!r} is not OpenAI's" for value in ours - theirs]

    def _visit_list(self, field: FieldDescriptor, held: tuple[Any, ...], where: str) -> None:
        for member in held:
            items = sdk.list_of(member)
            if items is None:
                self.problems.append(f"{where}: a list stands for {member}")
            else:
                self._visit_value(field, items, f"{where}[]")

    def _visit_tagged(self, message: Descriptor, held: tuple[Any, ...], where: str) -> None:
        self._unions[message.name] = message
        by_tag = {tag(field): field for field in message.oneofs[0].fields}
        beside = [field for field in message.fields if field.containing_oneof is None]
        for member in held:
            if sdk.is_open_object(member):
                continue
            if not sdk.is_object(member):
                self.problems.append(f"{where}: a tagged union stands for {member}")
                continue
            for value in sdk.tags(member):
                self._tags[message.name].add(value)
                if value in by_tag:
                    self._visit_member(
                        by_tag[value].message_type, beside, member, f"{where}.{by_tag[value].name}"
                    )

    def _visit_member(
        self, message: Descriptor, beside: list[FieldDescriptor], cls: type, where: str
    ) -> None:
        theirs = sdk.fields(cls)
        for field in beside:
            if field.name not in theirs:
                self.problems.append(
                    f"{where}: {field.name} stands beside the union, but {cls.__name__} has none"
                )
        self._add(message, cls, where, {"type", *(field.name for field in beside)})

    def _visit_bare(self, message: Descriptor, held: tuple[Any, ...], where: str) -> None:
        """Deals the members of the package's union out to the members of ours, by their JSON kind."""
        dealt: dict[str, list[Any]] = defaultdict(list)
        for member in held:
            for field in message.oneofs[0].fields:
                if _fits(field, member):
                    dealt[field.name].append(member)
                    break
            else:
                self.problems.append(f"{where}: {message.name} has no member for {member}")
        for name, members in dealt.items():
            self._visit_value(message.fields_by_name[name], tuple(members), where)

    def _visit_object(self, message: Descriptor, held: tuple[Any, ...], where: str) -> None:
        constant = message_options(message).type
        for member in held:
            if sdk.is_open_object(member):
                continue
            if not sdk.is_object(member):
                self.problems.append(f"{where}: {message.name} stands for {member}")
                continue
            if constant and sdk.tags(member) != (constant,):
                self.problems.append(f"{where}: type is {constant!r}, OpenAI's is one of {sdk.tags(member)}")
            self._add(message, member, where, {"type"} if constant else set())

    def _add(self, message: Descriptor, cls: type, where: str, elsewhere: set[str]) -> None:
        """Notes that `message` stands for `cls`, whose keys `elsewhere` it need not have."""
        self.reached.add(message.name)
        if (message.full_name, cls) in self._pairs:
            return
        self._pairs.add((message.full_name, cls))
        self._classes[message.name][cls] = message
        for name, theirs in sdk.fields(cls).items():
            if name in elsewhere:
                continue
            field = message.fields_by_name.get(name)
            if field is None:
                self.problems.append(f"{where}: {message.name} lacks {name} of {cls.__name__}")
            else:
                self._visit_field(field, theirs, f"{where}.{name}")

    def _visit_field(self, field: FieldDescriptor, theirs: sdk.Field, where: str) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for member in theirs.types:
                values = sdk.dict_of(member)
                if sdk.is_open_object(member):
                    continue
                if values is None:
                    self.problems.append(f"{where}: a map stands for {member}")
                else:
                    self._visit_value(field.message_type.fields_by_name["value"], values, f"{where}{{}}")
        elif field.is_repeated:
            self._visit_list(field, theirs.types, where)
        else:
            self._visit_value(field, theirs.types, where)

    def _visit_value(self, field: FieldDescriptor, held: tuple[Any, ...], where: str) -> None:
        if field.message_type is not None:
            self.visit(field.message_type, held, where)
            return
        self.problems += [
            f"{where}: {field.name} stands for {member}" for member in held if not _fits(field, member)
        ]
        if field.enum_type is not None:
            self._enums[field.enum_type].update(
                str(value) for member in held for value in sdk.literals(member)
            )

    def _compare(self, name: str, classes: dict[Any, Descriptor]) -> None:
        theirs = [sdk.fields(cls) for cls in classes]
        for field in next(iter(classes.values())).fields:
            where = f"{name}.{field.name}"
            found = [keys[field.name] for keys in theirs if field.name in keys]
            if not found:
                self._note(where, self.additions, "is not OpenAI's")
                continue
            given = len(found) == len(theirs) and all(key.given for key in found)
            nullable = any(key.nullable for key in found)
            self._compare_presence(field, where, given, nullable)
            if json_options(field).null_when_unset and any(k.of_response and not k.nullable for k in found):
                self.problems.append(f"{where} may be null, OpenAI's may not")

    def _compare_presence(self, field: FieldDescriptor, where: str, given: bool, nullable: bool) -> None:
        options = json_options(field)
        always_value = not (
            field.has_presence or field.enum_type or options.null_when_unset or options.omit_when_empty
        )
        may_be_left_out = not always_value and not options.null_when_unset
        # A message or an enum is the server's to set; the contract cannot say that it always is.
        servers = (field.message_type is not None or field.enum_type is not None) and not field.is_repeated
        if given and nullable and may_be_left_out:
            self.problems.append(f"{where} may be left out, OpenAI's is null then")
        elif given and not nullable and not always_value and not servers:
            self.problems.append(f"{where} may be left out, OpenAI's may not")
        elif not given and always_value and not field.is_repeated:
            self._note(where, self.always_given, "is always given, OpenAI's is not")

    def _note(self, where: str, meant: set[str], problem: str) -> None:
        if where in meant:
            meant.discard(where)
        else:
            self.problems.append(f"{where} {problem}")


def _fits(field: FieldDescriptor, member: Any) -> bool:
    """Whether a field of ours can hold a value of the package's type, as far as its JSON kind goes."""
    if field.message_type is not None:
        if message_options(field.message_type).list:
            return sdk.list_of(member) is not None
        return sdk.is_object(member) or sdk.is_open_object(member)
    if field.type == FieldDescriptor.TYPE_STRING and json_options(field).raw:
        return sdk.is_open_object(member)
    if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_ENUM):
        return sdk.is_text(member)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return member is bool or bool in map(type, sdk.literals(member))
    return member in _NUMBERS.get(field.type, ())
