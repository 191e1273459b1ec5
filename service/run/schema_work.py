"""How much work a check against a JSON Schema is, counted before it is done. Sans-IO.

A few references to one another, or a schema that leads back to itself twice, make a validator look at the
same place of a document a thousand or a billion times. So the schema is read as a graph first: its objects,
where each leads at the same place of a document (`$ref`, `allOf`, `not`...), and where at the places inside
of it (`properties`, `items`...). One check is one schema object at one place, or one value that it
compares with.

What the count leaves out only makes it too high: that validators stop at the first fault, and that of several
branches only some fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from service.json_pointer import pointed
from service.run.schema_costs import SLOWEST_NUMBER, compared_values, division_checks, names_in

MAX_CHECKS_AT_ONE_PLACE: Final = 100_000
"""Most checks of one place of a document; some 10 ms."""
MAX_SCHEMA_LEVELS: Final = 64
"""Deepest nesting of a schema, in levels of arrays and objects."""
MAX_SCHEMA_OBJECTS: Final = 20_000
"""Most schemas in a schema, itself included; some 200 ms, in Python."""
MAX_CHAIN_LEVELS: Final = 100
"""Most schema objects that lead to one another at the same place."""
MAX_DOCUMENT_LEVELS: Final = 100
"""Deepest nesting of a document, as far as a schema looks into it. Validators go down by recursion, at every
level through all schemas that lead to one another: at some 500 levels of the worst the process dies."""
MAX_PATTERNS: Final = 64
"""Most regular expressions of a schema."""

_ONE: Final = ("not", "if", "then", "else")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_NAMED: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_EVERY_PROPERTY: Final = ("additionalProperties", "unevaluatedProperties")
_EVERY_ITEM: Final = ("items", "additionalItems", "unevaluatedItems", "contains")
_UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})

_UNEVALUATED_TIMES: Final = 4
"""How often what stands beside `unevaluated...` is looked at: measured, somewhat above."""


class TooMuchWork(Exception):
    """A schema must not be used. `path` is the place in it, the text what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(problem)
        self.path = path


@dataclass(slots=True, eq=False)
class _Node:
    """One schema object."""

    path: str
    values: int = 1
    """Checks at any value: one, and one for each that it is compared with."""
    names: int = 0
    """Further ones at an object."""
    divisor: float = 0
    """What a number has to be a multiple of; 0 for nothing."""
    here: list[tuple[_Node, int]] = field(default_factory=list)
    """Schemas of the same place, and how often each is looked at."""
    properties: dict[str, _Node] = field(default_factory=dict)
    every_property: list[_Node] = field(default_factory=list)
    """Schemas of properties whatever their names; those of `patternProperties` are taken for such."""
    other_properties: list[_Node] = field(default_factory=list)
    """Schemas of the properties that `properties` does not name."""
    property_names: list[_Node] = field(default_factory=list)
    first_items: list[_Node] = field(default_factory=list)
    every_item: list[_Node] = field(default_factory=list)
    height: int = -1
    """Schemas below, at the same place; -2 while they are looked at."""
    checks: int = 0
    """Of one place, all that is below included."""

    def own_checks(self, value: Any) -> int:
        """Return the checks of this schema alone, at a value."""
        if isinstance(value, dict):
            return self.values + self.names
        if self.divisor and isinstance(value, int | float):
            return self.values + division_checks(value, self.divisor)
        return self.values

    def inside(self, value: Any) -> Iterator[tuple[_Node, Any]]:
        """Yield what the places inside a value are checked against."""
        if isinstance(value, dict):
            for name, child in value.items():
                known = self.properties.get(name)
                for node in self.every_property if known else (*self.every_property, *self.other_properties):
                    yield node, child
                if known:
                    yield known, child
                for node in self.property_names:
                    yield node, name
        elif isinstance(value, list) and (self.first_items or self.every_item):
            for i, child in enumerate(value):
                for node in (*self.first_items[i : i + 1], *self.every_item):
                    yield node, child


class SchemaWork:
    """The work of checking against one schema.

    Attributes:
        patterns: its different regular expressions.

    """

    def __init__(self, schema: dict[str, Any]) -> None:
        """Read a schema.

        Raises:
            TooMuchWork: it is nested too deep, refers to what is not in it or to itself without end, or takes
                too many checks at one place.

        """
        self.patterns: set[str] = set()
        self._schema = schema
        self._anchors: dict[str, list[Any]] = {}
        self._nodes: dict[int, _Node] = {}
        self._unread: list[tuple[dict[str, Any], _Node]] = []
        self._look_through()
        self._root = self._nodes_of(schema, "")
        while self._unread:
            if len(self._nodes) > MAX_SCHEMA_OBJECTS:
                raise TooMuchWork("", f"it may hold {MAX_SCHEMA_OBJECTS} schemas at most")
            self._read(*self._unread.pop())
        for node in self._nodes.values():
            _measure(node)
        if len(self.patterns) > MAX_PATTERNS:
            raise TooMuchWork("", f"it may have {MAX_PATTERNS} patterns at most")

    def checks(self, document: Any, limit: int) -> int:
        """Return how many checks a document takes; some number above `limit` where it must not be checked."""
        total = levels = 0
        places: _Places = {}
        for node in self._root:
            _add(places, node, document, 1)
        while places:
            levels += 1
            if levels > MAX_DOCUMENT_LEVELS:
                return limit + 1
            inside: _Places = {}
            # From the highest down, so that each is met once, when all that leads to it has been counted.
            for height in range(max(places), -1, -1):
                for node, value, times in places.get(height, {}).values():
                    total += times * node.own_checks(value)
                    if isinstance(value, dict | list):
                        total += times * len(value)
                    if total > limit:
                        return total
                    for below, often in node.here:
                        _add(places, below, value, times * often)
                    for child, child_value in node.inside(value):
                        _add(inside, child, child_value, times)
            places = inside
        return total

    # The graph.

    def _look_through(self) -> None:
        """Find the anchors, and what the graph could not tell; in values too, which references can mean."""
        layer: list[Any] = [self._schema]
        for _ in range(MAX_SCHEMA_LEVELS):
            for value in layer:
                if isinstance(value, dict):
                    self._note(value)
            layer = [
                child
                for value in layer
                if isinstance(value, dict | list)
                for child in (value.values() if isinstance(value, dict) else value)
            ]
            if not layer:
                return
        raise TooMuchWork("", f"it may be nested {MAX_SCHEMA_LEVELS} levels deep at most")

    def _note(self, schema: dict[str, Any]) -> None:
        for key in _ANCHORS:
            if isinstance(name := schema.get(key), str):
                self._anchors.setdefault(name, []).append(schema)
        for key in ("$id", "id") if "draft-04" in str(self._schema.get("$schema")) else ("$id",):
            if isinstance(schema.get(key), str) and schema is not self._schema:
                raise TooMuchWork("", f"only its top may have {key}; refer to parts of it with #/$defs/NAME")

    def _nodes_of(self, schema: Any, path: str) -> list[_Node]:
        """The node of a schema; none for true, false and what is no schema."""
        if not isinstance(schema, dict):
            return []
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = _Node(path)
            self._unread.append((schema, node))
        return [node]

    def _read(self, schema: dict[str, Any], node: _Node) -> None:
        def at(key: str | int, value: Any, path: str = node.path) -> list[_Node]:
            return self._nodes_of(value, f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}")

        def of(key: str) -> list[_Node]:
            found = schema.get(key)
            path = f"{node.path}.{key}"
            if isinstance(found, list):
                return [n for i, value in enumerate(found) for n in at(i, value, path)]
            return at(key, found)

        def named(key: str) -> dict[str, _Node]:
            found = schema.get(key)
            items = found.items() if isinstance(found, dict) else ()
            return {name: n for name, value in items for n in at(name, value, f"{node.path}.{key}")}

        here = [n for key in (*_ONE, *_LISTS) for n in of(key)]
        here += [n for key in _NAMED for n in named(key).values()]
        for key in _REFERENCES:
            if isinstance(reference := schema.get(key), str):
                here += self._referred(reference, f"{node.path}.{key}")
        times = 1 if _UNEVALUATED.isdisjoint(schema) else _UNEVALUATED_TIMES
        node.here = [(n, times) for n in here]
        node.properties = named("properties")
        patterns = named("patternProperties")
        node.every_property = list(patterns.values())
        node.other_properties = [n for key in _EVERY_PROPERTY for n in of(key)]
        node.property_names = of("propertyNames")
        node.first_items = of("prefixItems")
        for key in _EVERY_ITEM:
            # Of old, a list of `items` was what `prefixItems` is now.
            (node.first_items if isinstance(schema.get(key), list) else node.every_item).extend(of(key))
        node.values += compared_values(schema.get("enum")) + compared_values(schema.get("const"))
        node.names = sum(
            names_in(schema.get(key)) for key in ("required", "dependentRequired", "dependencies")
        )
        if isinstance(divisor := schema.get("multipleOf"), int | float):
            node.divisor = divisor
        if isinstance(given := schema.get("patternProperties"), dict):
            self.patterns.update(given)
            # Each name is matched with each pattern.
            node.every_property += [_Node(node.path, height=0, checks=1) for _ in given]
        if isinstance(pattern := schema.get("pattern"), str):
            self.patterns.add(pattern)

    def _referred(self, reference: str, path: str) -> list[_Node]:
        if not reference.startswith("#"):
            raise TooMuchWork(path, "it must refer to a part of the schema itself, as #/$defs/NAME does")
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            targets = self._anchors.get(pointer, [])
        else:
            targets = list(pointed(self._schema, pointer))
        if not targets:
            raise TooMuchWork(path, "there is no such part of the schema")
        return [n for target in targets for n in self._nodes_of(target, pointer.replace("/", "."))]


_Places = dict[int, dict[tuple[int, int], tuple[_Node, Any, int]]]
"""What has to be looked at in one level of a document: by height, the schema, the value and how often."""


def _add(places: _Places, node: _Node, value: Any, times: int) -> None:
    row = places.setdefault(node.height, {})
    key = (id(node), id(value))
    known = row.get(key)
    row[key] = (node, value, times + known[2] if known else times)


def _measure(node: _Node, levels: int = 0) -> None:
    """Work out a node's height and its checks, and those of all below it."""
    if node.height >= 0:
        return
    if node.height == -2:
        raise TooMuchWork(node.path, "it refers to itself without end")
    node.height = -2
    checks, height = max(node.values + node.names, node.own_checks(SLOWEST_NUMBER)), 0
    for below, times in node.here:
        if levels < MAX_CHAIN_LEVELS:
            _measure(below, levels + 1)
        height = max(height, below.height + 1)
        if levels >= MAX_CHAIN_LEVELS or height > MAX_CHAIN_LEVELS:
            raise TooMuchWork(
                node.path, f"more than {MAX_CHAIN_LEVELS} of its parts refer to one another in a row"
            )
        checks += times * below.checks
    if checks > MAX_CHECKS_AT_ONE_PLACE:
        raise TooMuchWork(
            node.path,
            f"it takes more than {MAX_CHECKS_AT_ONE_PLACE} checks: refer to its parts less often",
        )
    node.checks, node.height = checks, height
