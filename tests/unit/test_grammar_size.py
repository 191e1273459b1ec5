"""How large a grammar becomes is counted as the runtime lays it out, and what is too large is refused."""

from typing import Any

import pytest

from service.engine.grammar_size import MAX_GRAMMAR_PARTS, TooLarge, check_size

SHORT = {"type": "array", "maxItems": 10}
LONG = {"type": "array", "maxItems": MAX_GRAMMAR_PARTS - 1000}
WIDE = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(300)}}
DEEP_WIDE = {"properties": {"a": {"properties": {"b": WIDE}}}}
TREE = {
    "type": "object",
    "properties": {
        "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 10},
        "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
        "other": {"allOf": [{"$ref": "#/$defs/tree"}], "description": "as pydantic writes it"},
    },
}


def either(name: str) -> dict[str, Any]:
    return {"anyOf": [{"properties": {name: {"const": 1}}}, {"properties": {name: {"const": 2}}}]}


FITTING = {
    "one long array": {"properties": {"a": LONG}},
    "many short arrays": {"properties": {f"p{i}": SHORT for i in range(300)}},
    "below zero": {"type": "array", "minItems": -5, "maxItems": -(10**9)},
    "a long array, referred to a hundred times": {
        "$defs": {"long": LONG},
        "properties": {f"p{i}": {"$ref": "#/$defs/long", "description": str(i)} for i in range(100)},
    },
    "a tree": {"$defs": {"tree": TREE}, "$ref": "#/$defs/tree"},
    "a tree and more": {
        "$defs": {"tree": TREE},
        "allOf": [{"$ref": "#/$defs/tree"}, {"properties": {"children": {"maxItems": 5}}}],
    },
    "a reference that leads back": {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    "some choices": {"allOf": [either(f"p{i}") for i in range(5)]},
    "no schema": {"x": {"type": "array", "maxItems": 10**9}},
    "a property of that name": {"properties": {"maxItems": {"type": "integer"}, "$id": {"type": "string"}}},
    "a default of that name": {"default": {"maxItems": 10**9}},
    "addresses at the top": {"$id": "https://example.com/a", "$schema": "https://json-schema.org/draft-07"},
    "true and false": {"items": True, "properties": {"a": True}, "additionalProperties": False},
    "nonsense": {"properties": 1, "allOf": {}, "items": [3], "required": [None], "maxItems": "many"},
}

TOO_LARGE = {
    "a long array": {"type": "array", "maxItems": MAX_GRAMMAR_PARTS + 1},
    "at least": {"type": "array", "minItems": MAX_GRAMMAR_PARTS + 1},
    "a fraction": {"type": "array", "maxItems": 1e9},
    "a whole fraction": {"type": "array", "minItems": 10000001.0},
    "beyond 64 bits": {"type": "array", "maxItems": 10**30},
    "less than nothing beside it": {
        "properties": {"a": {"type": "array", "maxItems": 10**7}},
        "x": {"minItems": -(10**7)},
    },
    "less than nothing at another place": {
        "properties": {"a": {"type": "array", "maxItems": 10**7}, "b": {"minItems": -(10**7)}},
    },
    "two long arrays": {"properties": {"a": LONG, "b": LONG}},
    **{
        f"two long arrays in {key}": {key: [{"properties": {"a": LONG}}, {"properties": {"b": LONG}}]}
        for key in ("allOf", "anyOf", "oneOf", "prefixItems", "items")
    },
    "two long arrays by pattern": {"patternProperties": {"a": LONG, "b": LONG}},
    "arrays of others": {"additionalProperties": LONG, "items": LONG},
    "arrays of the other items": {"items": [LONG], "additionalItems": LONG},
    "references with more beside them": {
        "$defs": {"long": LONG},
        "properties": {
            f"p{i}": {"allOf": [{"$ref": "#/$defs/long"}, {"items": {"maximum": i}}]} for i in range(2)
        },
    },
    "references with siblings": {
        "$defs": {"long": LONG},
        "properties": {f"p{i}": {"$ref": "#/$defs/long", "minItems": i} for i in range(1, 3)},
    },
    "choices times choices": {"allOf": [either(f"p{i}") for i in range(14)]},
    "choices times what is inside": {"allOf": [*(either(f"p{i}") for i in range(6)), DEEP_WIDE]},
    "references times what is inside": {
        "$defs": {"deep": DEEP_WIDE},
        "properties": {f"p{i}": {"$ref": "#/$defs/deep", "properties": {"z": {}}} for i in range(40)},
    },
    "required properties that are not declared": {
        "required": [f"r{i}" for i in range(40)],
        "additionalProperties": WIDE,
    },
    "first items that meet all items": {
        "allOf": [{"prefixItems": [{"type": "integer"}] * 2}, {"items": {"properties": {"a": LONG}}}],
    },
    "trees that meet": {
        "$defs": {"tree": TREE},
        "allOf": [{"$ref": "#/$defs/tree"}, {"properties": {"next": {"$ref": "#/$defs/tree"}, "x": {}}}],
        "properties": {"next": {"properties": {"next": {"$ref": "#/$defs/tree/properties/next"}}}},
    },
    "a schema that holds itself": {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}}
    | {"$ref": "#/$defs/a"},
    "an array beside a reference by an odd name": {
        "$defs": {"a/b~c d": LONG},
        "properties": {f"p{i}": {"$ref": "#/$defs/a~1b~0c%20d", "minItems": 1} for i in range(2)},
    },
    "constant arrays": {"allOf": [*(either(f"p{i}") for i in range(8)), {"enum": [[1] * 100]}]},
}


@pytest.mark.parametrize("schema", FITTING.values(), ids=FITTING)
def test_what_stays_small_is_taken(schema):
    check_size(schema)


@pytest.mark.parametrize("schema", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_becomes_large_is_refused(schema):
    with pytest.raises(TooLarge, match=f"more than {MAX_GRAMMAR_PARTS} schemas and array items"):
        check_size(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#there"},
        {"$ref": "#/$defs/none"},
        {"$ref": 1},
        {"allOf": [{"$ref": "#/allOf/7"}]},
        {"properties": {"a": {"$id": "https://example.com/a", "$ref": "#/$defs/b"}}},
        {"$defs": {"a": {"$anchor": "there"}}},
        {"$defs": {"a": {"$schema": "http://json-schema.org/draft-04/schema"}}},
    ],
)
def test_what_leads_elsewhere_is_refused(schema):
    """Nobody could count it."""
    with pytest.raises(TooLarge, match=r"\$"):
        check_size(schema)
