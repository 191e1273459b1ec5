"""A function's JSON Schema as a grammar for llama.cpp, which holds the arguments to it by llguidance."""

from __future__ import annotations

from typing import Final

import llguidance
import orjson

from service.engine.base import FunctionSchema
from service.errors import InvalidRequest

MAX_SCHEMA_VALUES: Final = 2000
"""Most keys and values in a function's schema: grammars grow with them, to seconds and beyond."""

# Keywords that add to an object's properties.
_COMBINING: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"})


def schema_grammar(function: FunctionSchema) -> str:
    """Return what holds a text to the function's schema.

    Raises:
        InvalidRequest: the schema is wrong, too large, or beyond what the runtime can hold a text to. It must
            not come so far: given a grammar that it cannot read, the runtime goes on without.

    """
    schema = function.schema()
    # A call's arguments are an object, even where the schema does not say so; and a small model, left free to
    # add properties, adds them.
    if "properties" in schema and _COMBINING.isdisjoint(schema):
        schema = {"additionalProperties": False, **schema}
    schema = {**schema, "type": "object", "x-guidance": {"whitespace_flexible": False}}
    if _values(schema) > MAX_SCHEMA_VALUES:
        fault = f"it has more than {MAX_SCHEMA_VALUES} keys and values"
    else:
        grammar = f"%llguidance {{}}\nstart: %json {orjson.dumps(schema).decode()}"
        fault = llguidance.LLMatcher.validate_grammar(grammar)
        if not fault:
            return grammar
        fault = fault.partition("\n")[0].partition("failed to compile JSON schema: ")[2] or "it is wrong"
    raise InvalidRequest(
        f"The parameters of function {function.name!r} cannot be used: {fault:.300}.", param="tools"
    )


def _values(value: object) -> int:
    """Count keys and values, all levels together."""
    match value:
        case dict():
            return 1 + sum(1 + _values(child) for child in value.values())
        case list():
            return 1 + sum(map(_values, value))
        case _:
            return 1
