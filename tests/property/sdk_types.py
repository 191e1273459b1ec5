"""What the openai package's annotations say about JSON, for pydantic models and TypedDicts alike."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Required, TypeAlias, Union

import typing_extensions as te
from hypothesis import strategies as st
from pydantic import BaseModel

Annotation: TypeAlias = Any

_WRAPPERS = (Annotated, te.Annotated, Required, te.Required, te.NotRequired)
_UNIONS = (Union, UnionType)


class Key(NamedTuple):
    """One key of an object: what its value may be, and whether the object must have it."""

    annotation: Annotation
    required: bool


@functools.cache
def members(annotation: Annotation) -> tuple[Annotation, ...]:
    """The members of a union, without None; of anything else, that itself."""
    origin = te.get_origin(annotation)
    if origin in _WRAPPERS:
        return members(te.get_args(annotation)[0])
    if origin in _UNIONS:
        return tuple(inner for member in te.get_args(annotation) for inner in members(member))
    return () if annotation is NoneType else (annotation,)


@functools.cache
def nullable(annotation: Annotation) -> bool:
    origin = te.get_origin(annotation)
    if origin in _WRAPPERS:
        return nullable(te.get_args(annotation)[0])
    return annotation is NoneType or (origin in _UNIONS and any(map(nullable, te.get_args(annotation))))


@functools.cache
def keys(model: Annotation) -> dict[str, Key]:
    """The keys of a model or TypedDict."""
    if issubclass(model, BaseModel):
        return {
            field.alias or name: Key(field.annotation, field.is_required())
            for name, field in model.model_fields.items()
        }
    return {
        name: Key(hint, te.get_origin(hint) is te.Required or name in model.__required_keys__)
        for name, hint in te.get_type_hints(model, include_extras=True).items()
    }


def is_object(annotation: Annotation) -> bool:
    """Whether it is a model or a TypedDict: an object of known keys."""
    return isinstance(annotation, type) and (issubclass(annotation, BaseModel) or te.is_typeddict(annotation))


def kind(annotation: Annotation) -> str:
    """The JSON kind of a member of a union."""
    origin = te.get_origin(annotation) or annotation
    if origin is Literal or origin is te.Literal:
        return kind(type(te.get_args(annotation)[0]))
    for types, name in (
        ((str,), "string"),
        ((bool,), "boolean"),
        ((int, float), "number"),
        ((dict,), "object"),
        ((list, Sequence, Iterable), "array"),
    ):
        if isinstance(origin, type) and issubclass(origin, types):
            return name
    return "object"


def literals(annotations: Iterable[Annotation]) -> list[Any] | None:
    """The only values accepted, None when others are too."""
    found: list[Any] = []
    for annotation in annotations:
        if te.get_origin(annotation) not in (Literal, te.Literal):
            return None
        found += te.get_args(annotation)
    return found or None


def element(annotation: Annotation) -> Annotation:
    """Of an array's elements, or of a dict's values."""
    return te.get_args(annotation)[-1] if te.get_args(annotation) else object


TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
INT32 = st.integers(-(2**31), 2**31 - 1)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number or 0.0)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | DOUBLE | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
JSON_BY_KIND = {
    "object": st.dictionaries(TEXT, JSON, max_size=3),
    "array": st.lists(JSON, max_size=3),
    "string": TEXT,
}


def draw_json(draw: st.DrawFn, annotation: Annotation) -> Any:
    """JSON that an annotation accepts."""
    if nullable(annotation) and draw(st.booleans()):
        return None
    member = draw(st.sampled_from(members(annotation)))
    if is_object(member):
        return {
            name: draw_json(draw, key.annotation)
            for name, key in keys(member).items()
            if key.required or draw(st.booleans())
        }
    if only := literals([member]):
        return draw(st.sampled_from(only))
    if member is object:
        return draw(JSON)
    match kind(member):
        case "array":
            return [draw_json(draw, element(member)) for _ in range(draw(st.integers(0, 2)))]
        case "object":
            return {name: draw_json(draw, element(member)) for name in draw(st.sets(TEXT, max_size=2))}
        case "boolean":
            return draw(st.booleans())
        case "number":
            return draw(INT32 if member is int else DOUBLE)
        case _:
            return draw(TEXT)
