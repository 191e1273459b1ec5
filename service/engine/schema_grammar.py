"""JSON Schemas and lark grammars for llama.cpp, which holds a text to them by llguidance."""

from __future__ import annotations

import re
from typing import Any, Final

import llguidance
import orjson

from service.engine.base import FunctionSchema
from service.engine.grammar_size import TooLarge, check_size
from service.errors import InvalidRequest

MAX_SCHEMA_VALUES: Final = 2000
"""Most keys and values in a schema: grammars grow with them, to seconds and beyond."""

MAX_FREE_INTEGER: Final = 10**15
"""Largest integer where a schema sets no bound: below 2**53, so that every client reads it right."""

_HEADER: Final = "%llguidance {}\n"
_BYTES: Final = llguidance.LLTokenizer("byte")
"""A vocabulary to try grammars with: some show only there that they are beyond the runtime's limits."""
_SHOWN_LINES: Final = re.compile(r"\n +\d+ \| ")
_PLACE: Final = re.compile(r"(?:at )?(\d+)\((\d+)\): ")
_OF_JSON: Final = "failed to compile JSON schema: "
_FOUND: Final = re.compile(r" \(at .*\)$", re.DOTALL)
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
        if "%json" in function.text_grammar:
            # The schemas in it would come with no limits.
            raise _unusable(function.path, "%json is not offered")
        return _checked(_HEADER + function.text_grammar, function.path)
    schema = function.schema()
    # A call's arguments are an object, even where the schema does not say so; and a small model, left free to
    # add properties, adds them.
    if "properties" in schema and _COMBINING.isdisjoint(schema):
        schema = {"additionalProperties": False, **schema}
    return _json_grammar({**schema, "type": "object"}, function.path)


def answer_grammar(schema: str) -> str:
    """Return what holds an answer to a JSON Schema, given as JSON text. Raises as `arguments_grammar`."""
    return _json_grammar(orjson.loads(schema), "text.format.schema")


def _json_grammar(schema: dict[str, Any], path: str) -> str:
    if _values(schema) > MAX_SCHEMA_VALUES:
        raise _unusable(path, f"it has more than {MAX_SCHEMA_VALUES} keys and values")
    try:
        check_size(schema)
    except TooLarge as error:
        raise _unusable(path, str(error)) from None
    compact = {**_with_bounds(schema), "x-guidance": {"whitespace_flexible": False}}
    return _checked(f"{_HEADER}start: %json {orjson.dumps(compact).decode()}", path)


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


def _checked(grammar: str, path: str) -> str:
    if fault := llguidance.LLMatcher(_BYTES, grammar, log_level=0).get_error():
        raise _unusable(path, _in_words(fault))
    return grammar


def _unusable(path: str, fault: str) -> InvalidRequest:
    return InvalidRequest(f"{path} cannot be used: {fault:.300}.", param=path)


def _in_words(fault: str) -> str:
    """Return what llguidance found wrong, without the lines of a grammar that the client has not written."""
    said, place = _SHOWN_LINES.split(fault)[0], ""
    if at := _PLACE.match(said):
        said = said[at.end() :]
        # The first line is the header.
        place = f"line {int(at[1]) - 1}, column {at[2]}: "
    if said.startswith(_OF_JSON):
        said, place = said.removeprefix(_OF_JSON), ""
    if "regex parse error" in said:
        said = f"a regular expression is wrong: {said.rpartition('error: ')[2]}"
    elif "fuel exhausted" in said:
        said = "it is too complex"
    said = _FOUND.sub("", said).partition("; following ")[0]
    return place + said.replace(r"'\n'", "the end of the line").strip()


def _values(value: object) -> int:
    """Count keys and values, all levels together."""
    match value:
        case dict():
            return 1 + sum(1 + _values(child) for child in value.values())
        case list():
            return 1 + sum(map(_values, value))
        case _:
            return 1
