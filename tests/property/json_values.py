"""Hypothesis strategies for JSON values: any, and those that an annotation of the openai package accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.unit import openai_types as sdk

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
INT32 = st.integers(-(2**31), 2**31 - 1)
DOUBLE = st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number or 0.0)
"""Finite, and never -0."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | DOUBLE | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
ARRAY = st.lists(JSON, max_size=3)


def kind(member: Any) -> str:
    """The JSON kind of a member of a union: "string", "boolean", "number", "array" or "object"."""
    if sdk.is_text(member):
        return "string"
    if member is bool or bool in map(type, sdk.literals(member)):
        return "boolean"
    if member in (int, float):
        return "number"
    return "object" if sdk.list_of(member) is None else "array"


@st.composite
def json_values(draw: st.DrawFn, annotation: Any) -> Any:
    """JSON that the annotation accepts."""
    return _draw(draw, sdk.members(annotation))


def _draw(draw: st.DrawFn, members: tuple[Any, ...]) -> Any:
    # Beside types that it does name, the package's `object` stands for more of the same.
    named = [member for member in members if member is not object]
    member = draw(st.sampled_from(named or members))
    if member is None:
        return None
    if sdk.is_object(member):
        return {
            name: _draw(draw, (*field.types, None) if field.nullable else field.types)
            for name, field in sdk.fields(member).items()
            if field.given or draw(st.booleans())
        }
    if (only := sdk.literals(member)) or member is object:
        return draw(st.sampled_from(only) if only else JSON)
    match kind(member):
        case "array":
            inner = sdk.list_of(member) or (object,)
            return [_draw(draw, inner) for _ in range(draw(st.integers(0, 2)))]
        case "object":
            inner = sdk.dict_of(member) or (object,)
            value = {name: _draw(draw, inner) for name in draw(st.sets(TEXT, max_size=2))}
            # An open object may stand for a union of ours, whose variants all have a `type`.
            return value | {"type": draw(TEXT)} if inner == (object,) else value
        case "boolean":
            return draw(st.booleans())
        case "number":
            return draw(INT32 if member is int else DOUBLE)
        case _:
            return draw(TEXT)
