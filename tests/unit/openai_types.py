"""What the openai package's types say, read the same way from its pydantic models and its TypedDicts."""

from __future__ import annotations

import collections.abc
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from pydantic import BaseModel
from typing_extensions import get_type_hints, is_typeddict


@dataclass(frozen=True, slots=True)
class Field:
    """One key of one of the package's objects."""

    types: tuple[Any, ...]
    """What it may hold: classes, Literals, lists and dicts, but no unions and no None."""
    given: bool
    """Always there, be it null."""
    nullable: bool
    of_response: bool
    """Of a pydantic model: the service writes it. Of a TypedDict: it only reads it."""


def members(annotation: Any) -> tuple[Any, ...]:
    """Everything that a value may be: unions opened, wrappers taken off. None stands for null."""
    origin = get_origin(annotation)
    if origin is Annotated or origin in (Required, NotRequired):
        return members(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return tuple(member for part in get_args(annotation) for member in members(part))
    return (None,) if annotation is type(None) else (annotation,)


def fields(cls: type) -> dict[str, Field]:
    """The keys of an object, by their JSON names."""
    return _model_fields(cls) if issubclass(cls, BaseModel) else _typed_dict_fields(cls)


def _model_fields(cls: type[BaseModel]) -> dict[str, Field]:
    # The package gives every nullable field a default, but lists the fields that are always there first.
    names = list(cls.model_fields)
    last_given = max((i for i, name in enumerate(names) if cls.model_fields[name].is_required()), default=-1)
    found = {}
    for position, (name, info) in enumerate(cls.model_fields.items()):
        held = members(info.annotation)
        found[info.alias or name] = Field(
            types=tuple(member for member in held if member is not None),
            given=position <= last_given,
            nullable=None in held,
            of_response=True,
        )
    return found


def _typed_dict_fields(cls: type) -> dict[str, Field]:
    found = {}
    for name, annotation in get_type_hints(cls, include_extras=True).items():
        held = members(annotation)
        found[name] = Field(
            types=tuple(member for member in held if member is not None),
            given=get_origin(annotation) is Required,
            nullable=None in held,
            of_response=False,
        )
    return found


def is_object(member: Any) -> bool:
    return isinstance(member, type) and (is_typeddict(member) or issubclass(member, BaseModel))


def is_open_object(member: Any) -> bool:
    """Any JSON value, or any JSON object: the package does not say more."""
    return member is object or (get_origin(member) is dict and get_args(member)[1] is object)


def literals(member: Any) -> tuple[Any, ...]:
    return get_args(member) if get_origin(member) is Literal else ()


def is_text(member: Any) -> bool:
    return member is str or any(isinstance(value, str) for value in literals(member))


def list_of(member: Any) -> tuple[Any, ...] | None:
    """What a list holds; None for anything else."""
    arrays = (list, collections.abc.Iterable, collections.abc.Sequence)
    if get_origin(member) in arrays or getattr(get_origin(member), "__name__", "") == "SequenceNotStr":
        return members(get_args(member)[0])
    return None


def dict_of(member: Any) -> tuple[Any, ...] | None:
    """What an object with free keys holds; None for anything else."""
    return members(get_args(member)[1]) if get_origin(member) is dict else None


def tags(cls: type) -> tuple[str, ...]:
    """The values that the `type` key of an object may have; none where it has no such key."""
    return tuple(str(value) for member in fields(cls)["type"].types for value in literals(member))
