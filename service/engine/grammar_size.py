"""How large the runtime's grammar of a JSON Schema becomes, counted before it is made. Sans-IO.

llguidance lays a schema out: each item that an array may have takes a rule of its own, and schemas that hold
for the same place (`allOf`, a `$ref` with others beside it...) are made one schema for each choice among
`anyOf` and `oneOf`, with all that is inside of them. So a few lines of schema can become gigabytes. Here the
same is done with nothing but a count, up to a limit.

What the count leaves out only makes it too high: that some choices exclude one another, and that parts of
some kinds need no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote

from service.json_pointer import pointed

MAX_GRAMMAR_PARTS: Final = 10_000
"""Most schemas and array items of a schema that is laid out; the runtime takes some 10 KiB for each."""

# Beside them, a reference is nothing but a reference.
_ANNOTATIONS: Final = frozenset(
    {"$comment", "$defs", "definitions", "title", "description", "default", "examples"}
    | {"readOnly", "writeOnly"}
)
# Keywords that give what stands around them another address; references would lead elsewhere.
_ADDRESSES: Final = ("$id", "$schema", "$anchor", "$dynamicAnchor")
_COMBINING: Final = ("allOf", "anyOf", "oneOf", "$ref")
_DATA: Final = ("const", "enum")


class TooLarge(Exception):
    """A schema must not become a grammar; the text says why, as the end of a sentence."""


def check_size(schema: dict[str, Any]) -> None:
    """Check that a schema does not become too large a grammar.

    Raises:
        TooLarge: it does, or refers to what is not part of it.

    """
    _check_addresses(schema)
    _Layout(schema).count()


class _Layout:
    """A schema while it is laid out. A place is the schemas that hold for one value, all of them together."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._left = MAX_GRAMMAR_PARTS
        self._places: list[list[dict[str, Any]]] = []
        self._shared: set[int] = set()
        self._add([schema])

    def count(self) -> None:
        while self._places:
            place = self._places.pop()
            for i, schema in enumerate(place):
                if key := next((key for key in _COMBINING if key in schema), None):
                    rest = {name: value for name, value in schema.items() if name != key}
                    self._combine(key, schema[key], [*place[:i], rest, *place[i + 1 :]])
                    break
            else:
                self._lay_out(place)

    def _combine(self, key: str, combined: Any, others: Sequence[Any]) -> None:
        """Note the place that several schemas make with those of a keyword; one for each choice."""
        match key:
            case "allOf":
                self._add([*others, *_as_list(combined)])
            case "anyOf" | "oneOf":
                for choice in _as_list(combined):
                    self._add([*others, choice])
            case _:
                target = self._target(combined)
                if any(map(_says_something, others)):
                    self._add([*others, target])
                elif id(target) not in self._shared:
                    # What is referred to as it is, is laid out once, however often.
                    self._shared.add(id(target))
                    self._add([target])

    def _lay_out(self, place: Sequence[dict[str, Any]]) -> None:
        """Count what one value needs, and note the places inside of it."""
        self._take(sum(_values(schema[key]) for schema in place for key in _DATA if key in schema))
        self._lay_out_object(place)
        self._lay_out_array(place)

    def _lay_out_object(self, place: Sequence[dict[str, Any]]) -> None:
        others = [schema["additionalProperties"] for schema in place if "additionalProperties" in schema]
        patterns = [pattern for schema in place for pattern in _dict(schema, "patternProperties").values()]
        names = {name for schema in place for name in _dict(schema, "properties")}
        names |= {name for schema in place for name in _list(schema, "required") if isinstance(name, str)}
        for name in names:
            # As if each pattern matched it.
            self._add([*(_property(schema, name) for schema in place), *patterns])
        for pattern in patterns:
            self._add([pattern])
        if others:
            self._add(others)

    def _lay_out_array(self, place: Sequence[dict[str, Any]]) -> None:
        first = [_first_items(schema) for schema in place]
        others = [_other_items(schema) for schema in place]
        length = max(map(len, first), default=0)
        bounds = [_bound(schema, key) for schema in place for key in ("minItems", "maxItems")]
        self._take(max(bounds, default=0))
        for i in range(length):
            self._add([items[i] if i < len(items) else o for items, o in zip(first, others, strict=True)])
        if any(map(_says_something, others)):
            self._add(others)

    def _add(self, place: Sequence[Any]) -> None:
        self._take(max(1, len(place)))
        if saying := [schema for schema in place if _says_something(schema)]:
            self._places.append(saying)

    def _take(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            raise TooLarge(
                f"with all that it refers to, it has more than {MAX_GRAMMAR_PARTS} schemas and array items "
                "(minItems, maxItems)"
            )

    def _target(self, reference: object) -> Any:
        if isinstance(reference, str) and reference.startswith("#"):
            pointer = unquote(reference[1:])
            if not pointer or pointer.startswith("/"):
                for target in pointed(self._schema, pointer):
                    return target
        raise TooLarge(f"$ref {str(reference)[:100]!r} leads to no part of it, as #/$defs/NAME would")


def _check_addresses(schema: dict[str, Any]) -> None:
    values: list[Any] = [*schema.values()]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            for key in _ADDRESSES:
                if isinstance(value.get(key), str):
                    raise TooLarge(f"only its top may have {key}")
        if isinstance(value, dict | list):
            values.extend(value.values() if isinstance(value, dict) else value)


def _says_something(schema: object) -> bool:
    return isinstance(schema, dict) and not _ANNOTATIONS.issuperset(schema)


def _property(schema: dict[str, Any], name: str) -> Any:
    properties = _dict(schema, "properties")
    return properties[name] if name in properties else schema.get("additionalProperties")


def _first_items(schema: dict[str, Any]) -> list[Any]:
    # Of old, a list of `items` was what `prefixItems` is now.
    return _list(schema, "prefixItems") or _list(schema, "items")


def _other_items(schema: dict[str, Any]) -> Any:
    items = schema.get("items")
    return schema.get("additionalItems") if isinstance(items, list) else items


def _bound(schema: dict[str, Any], key: str) -> int:
    bound = schema.get(key)
    # The runtime refuses fractions, be they whole; below zero as well.
    return max(0, int(min(bound, MAX_GRAMMAR_PARTS + 1))) if isinstance(bound, int | float) else 0


def _values(value: Any) -> int:
    """Count values, all levels together."""
    children: Iterable[Any] = ()
    match value:
        case dict():
            children = value.values()
        case list():
            children = value
    return 1 + sum(map(_values, children))


def _dict(schema: dict[str, Any], key: str) -> dict[str, Any]:
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def _list(schema: dict[str, Any], key: str) -> list[Any]:
    return _as_list(schema.get(key))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
