"""JSON Schemas and lark grammars for llama.cpp, which holds a text to them by llguidance."""

from __future__ import annotations

from typing import Any, Final

import llguidance
import orjson

from service.engine.base import FunctionSchema
from service.errors import InvalidRequest

MAX_SCHEMA_VALUES: Final = 2000
"""Most keys and values in a schema: grammars grow with them, to seconds and beyond."""

MAX_SCHEMA_ITEMS: Final = 10_000
"""Most items that `minItems` and `maxItems` of a schema count together: the runtime lays each of them out."""

MAX_FREE_INTEGER: Final = 10**15
"""Largest integer where a schema sets no bound: below 2**53, so that every client reads it right."""

_HEADER: Final = "%llguidance {}\n"
# Keywords whose values are no schemas.
_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "examples"})
# Keywords that add to an object's properties.
_COMBINING: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"})


def arguments_grammar(function: FunctionSchema) -> str:
    """Return what holds a call's arguments to the function's schema, or a tool's text to its own grammar.

    Raises:
        InvalidRequest: it is wrong, too large, or beyond what the runtime can hold a text to. It must not
            come so far: given a grammar that it cannot read, the runtime goes on without.

    """
    if function.text_grammar is not None:
        subject = f"The grammar of tool {function.name!r}"
        if "%json" in function.text_grammar:
            # The schemas in it would come with no limits.
            raise _unusable(subject, "%json is not offered", "tools")
        return _checked(_HEADER + function.text_grammar, subject, "tools")
    schema = function.schema()
    # A call's arguments are an object, even where the schema does not say so; and a small model, left free to
    # add properties, adds them.
    if "properties" in schema and _COMBINING.isdisjoint(schema):
        schema = {"additionalProperties": False, **schema}
    subject = f"The parameters of function {function.name!r}"
    return _json_grammar({**schema, "type": "object"}, subject, "tools")


def answer_grammar(schema: str) -> str:
    """Return what holds an answer to a JSON Schema, given as JSON text. Raises as `arguments_grammar`."""
    return _json_grammar(orjson.loads(schema), "The schema", "text.format.schema")


def _json_grammar(schema: dict[str, Any], subject: str, param: str) -> str:
    if _values(schema) > MAX_SCHEMA_VALUES:
        raise _unusable(subject, f"it has more than {MAX_SCHEMA_VALUES} keys and values", param)
    if _items(schema) > MAX_SCHEMA_ITEMS:
        raise _unusable(subject, f"its arrays have more than {MAX_SCHEMA_ITEMS} items", param)
    compact = {**_with_bounds(schema), "x-guidance": {"whitespace_flexible": False}}
    return _checked(f"{_HEADER}start: %json {orjson.dumps(compact).decode()}", subject, param)


def _with_bounds(value: Any) -> Any:
    """Return a schema in which integers have bounds: a small model, once it writes digits, writes on."""
    match value:
        case dict():
            bounded = {
                key: child if key in _DATA_KEYWORDS else _with_bounds(child) for key, child in value.items()
            }
            if value.get("type") in ("integer", ["integer", "null"], ["null", "integer"]):
                least = _bound(value, "minimum", "exclusiveMinimum")
                most = _bound(value, "maximum", "exclusiveMaximum")
                if least is None:
                    bounded["minimum"] = min(0, most or 0) - MAX_FREE_INTEGER
                if most is None:
                    bounded["maximum"] = max(0, least or 0) + MAX_FREE_INTEGER
            return bounded
        case list():
            return [_with_bounds(child) for child in value]
        case _:
            return value


def _bound(schema: dict[str, Any], *names: str) -> int | float | None:
    return next((schema[name] for name in names if isinstance(schema.get(name), int | float)), None)


def _checked(grammar: str, subject: str, param: str) -> str:
    if fault := llguidance.LLMatcher.validate_grammar(grammar):
        first = fault.partition("\n")[0]
        raise _unusable(subject, first.partition("failed to compile JSON schema: ")[2] or first, param)
    return grammar


def _unusable(subject: str, fault: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{subject} cannot be used: {fault:.300}.", param=param)


def _items(value: object) -> float:
    """Count the items that arrays must or may have, all of them together."""
    match value:
        case dict():
            bounds = [value.get("minItems"), value.get("maxItems")]
            own = max([bound for bound in bounds if isinstance(bound, int | float)], default=0)
            return own + sum(map(_items, value.values()))
        case list():
            return sum(map(_items, value))
        case _:
            return 0


def _values(value: object) -> int:
    """Count keys and values, all levels together."""
    match value:
        case dict():
            return 1 + sum(1 + _values(child) for child in value.values())
        case list():
            return 1 + sum(map(_values, value))
        case _:
            return 1
