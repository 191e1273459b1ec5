"""Schemas that would make a check explode are refused, and no others; every keyword that leads on counts."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRequest
from service.run.json_schema import MAX_CHECKS, MAX_PATTERN_BYTES, MAX_SCHEMA_BYTES, json_schema
from service.run.schema_work import (
    MAX_CHAIN_LEVELS,
    MAX_CHECKS_AT_ONE_PLACE,
    MAX_DOCUMENT_LEVELS,
    MAX_PATTERNS,
    MAX_SCHEMA_LEVELS,
    MAX_SCHEMA_OBJECTS,
    SchemaWork,
    TooMuchWork,
)

LIMIT = 10**30


def chain(levels: int, link: Any, end: Any = None) -> dict[str, Any]:
    """Schemas that lead to one another: `link` makes each from a reference to the next."""
    definitions = {f"a{i}": link({"$ref": f"#/$defs/a{i + 1}"}) for i in range(levels)}
    return {"$defs": {**definitions, f"a{levels}": end or {"type": "object"}}, "$ref": "#/$defs/a0"}


# Each of these doubles the work at the same place.
DOUBLING = {
    **{key: lambda ref, key=key: {key: [ref, ref]} for key in ("allOf", "anyOf", "oneOf")},
    "not": lambda ref: {"not": ref, "if": ref},
    "if": lambda ref: {"if": ref, "then": ref},
    "else": lambda ref: {"if": ref, "else": ref},
    "dependentSchemas": lambda ref: {"dependentSchemas": {"a": ref, "b": ref}},
    "dependencies": lambda ref: {"dependencies": {"a": ref, "b": ref}},
    "$ref": lambda ref: {**ref, "not": ref},
    "unevaluatedProperties": lambda ref: {"allOf": [ref], "unevaluatedProperties": False},
    "unevaluatedItems": lambda ref: {"anyOf": [ref], "unevaluatedItems": False},
}


@pytest.mark.parametrize("key", DOUBLING)
def test_what_doubles_at_one_place_is_refused_when_it_explodes(key):
    json_schema(json.dumps(chain(6, DOUBLING[key])), "x")
    with pytest.raises(
        InvalidRequest, match=rf"^x\.\$defs\.a\d+ cannot be used.*{MAX_CHECKS_AT_ONE_PLACE}"
    ) as c:
        json_schema(json.dumps(chain(20, DOUBLING[key])), "x")
    assert c.value.param == "x"


@pytest.mark.parametrize("levels", [40, MAX_CHAIN_LEVELS - 2])
def test_as_many_references_in_a_row_or_side_by_side_are_used(levels):
    row = json_schema(json.dumps(chain(levels, lambda ref: {"allOf": [ref]} if levels < 50 else ref)), "x")
    assert row.fault("{}") is None
    assert row.fault("[]").startswith("does not fit at its top: ")
    wide = {"$defs": {"a": {"type": "object"}}, "allOf": [{"$ref": "#/$defs/a"}] * 1000}
    assert json_schema(json.dumps(wide), "x").fault("{}") is None


def test_a_longer_row_is_refused():
    with pytest.raises(InvalidRequest, match="in a row"):
        json_schema(json.dumps(chain(MAX_CHAIN_LEVELS + 1, lambda ref: ref)), "x")
    # Also where its end has been looked at before.
    row = chain(MAX_CHAIN_LEVELS + 1, lambda ref: ref)
    row["allOf"] = [{"$ref": f"#/$defs/a{MAX_CHAIN_LEVELS // 2}"}, {"$ref": row.pop("$ref")}]
    with pytest.raises(InvalidRequest, match="in a row"):
        json_schema(json.dumps(row), "x")


CYCLES = [
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}]},
    {"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]},
    {"$recursiveRef": "#"},
    {"properties": {"a": {"$anchor": "b", "oneOf": [{"$ref": "#b"}]}}},
]


@pytest.mark.parametrize("schema", CYCLES)
def test_a_schema_that_leads_to_itself_at_the_same_place_is_refused(schema):
    with pytest.raises(InvalidRequest, match="refers to itself without end"):
        json_schema(json.dumps(schema), "x")


# Each looks at the next level of a document twice.
BRANCHING = {
    "items": {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]},
    "prefixItems": {"anyOf": [{"prefixItems": [{"$ref": "#"}]}, {"items": {"$ref": "#"}}]},
    "contains": {"contains": {"$ref": "#"}, "items": {"$ref": "#"}},
    "unevaluatedItems": {"unevaluatedItems": {"$ref": "#"}, "contains": {"$ref": "#"}},
    "$dynamicRef": {"$dynamicAnchor": "n", "not": {"items": {"$dynamicRef": "#n"}}, "items": {"$ref": "#"}},
    "properties": {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
    "additionalProperties": {
        "additionalProperties": {"$ref": "#"},
        "allOf": [{"unevaluatedProperties": {"$ref": "#"}}],
    },
}


@pytest.mark.parametrize("key", BRANCHING)
def test_a_document_that_a_schema_explodes_on_is_not_checked(key):
    schema = json_schema(json.dumps(BRANCHING[key]), "x")
    opening, closing = ('{"a":', "}") if "ropert" in key else ("[", "]")
    fault = schema.fault(opening * 5 + "1" + closing * 5)
    assert fault is None or fault.startswith("does not fit at [0][0][0][0][0]: ")
    assert schema.fault(opening * 40 + "1" + closing * 40).startswith("is too large")


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf", "not", "else"])
def test_documents_are_only_so_deep_as_the_stack_is(key):
    """The longest row of schemas at each level: the validator is at home with it, deeper it is not asked."""
    links = {
        "allOf": lambda ref: {"allOf": [ref, {"minItems": 0}]},
        "anyOf": lambda ref: {"anyOf": [ref, {"const": 7}]},
        "oneOf": lambda ref: {"oneOf": [{"const": 7}, ref]},
        "not": lambda ref: {"not": {"not": ref}},
        "else": lambda ref: {"if": {"const": 7}, "else": ref},
    }
    length = MAX_CHAIN_LEVELS // 3 - 1 if key == "not" else MAX_CHAIN_LEVELS // 2 - 1
    row = chain(length, links[key], {"items": {"$ref": "#"}})
    schema = json_schema(json.dumps(row), "x")
    levels = MAX_DOCUMENT_LEVELS
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(schema.fault, "[" * levels + "]" * levels).result() is None
    for deeper in (levels + 1, 1000):
        assert schema.fault("[" * deeper + "]" * deeper).startswith("is too large or nested too deep")
    # What the schema does not look into may be deeper.
    assert json_schema('{"type": "array"}', "x").fault("[" * 1000 + "]" * 1000) is None


def test_property_names_count():
    work = SchemaWork({"propertyNames": {"enum": [1.5] * 10}})
    assert work.checks({"a": 1}, LIMIT) - work.checks({}, LIMIT) > 10


@pytest.mark.parametrize(("divisor", "number"), [(5e-324, 1e308), (1e-300, 3), (0.1, 1e-308), (7, 1e308)])
def test_divisions_by_tiny_numbers_and_of_huge_ones_count(divisor, number):
    """Each takes up to 50 microseconds, as long as hundreds of other checks."""
    schema = json_schema(json.dumps({"items": {"multipleOf": divisor}}), "x")
    assert schema.fault(json.dumps([number] * 10_000)).startswith("is too large")
    assert schema.fault(json.dumps(["text"] * 100_000)) is None


def test_ordinary_divisions_are_done():
    prices = json_schema('{"items": {"multipleOf": 0.01}}', "x")
    assert prices.fault(json.dumps([12.5] * 20_000)) is None
    assert prices.fault(json.dumps([12.505])).startswith("does not fit at [0]")
    slow = {"allOf": [{"multipleOf": 5e-324}] * 200}
    with pytest.raises(InvalidRequest, match=f"more than {MAX_CHECKS_AT_ONE_PLACE} checks"):
        json_schema(json.dumps(slow), "x")


def test_values_to_compare_with_count_where_comparing_takes_long():
    fractions, texts = {"items": {"enum": [i + 0.5 for i in range(500)]}}, {"items": {"enum": ["a"] * 5000}}
    assert SchemaWork(fractions).checks([1.5] * 100, LIMIT) > MAX_CHECKS
    assert SchemaWork(texts).checks(["a"] * 100, LIMIT) < 1000
    assert SchemaWork({"const": [0.5] * 100}).checks(1, LIMIT) > 1000
    assert SchemaWork({"required": ["a"] * 100}).checks({}, LIMIT) > 100


def test_a_tree_and_a_union_of_its_kinds_are_checked():
    """What grammars of expressions look like."""
    node = {"$ref": "#/$defs/node"}

    def kind(name: str) -> dict[str, Any]:
        properties = {"kind": {"const": name}, "left": node, "right": node}
        return {
            "type": "object",
            "properties": properties,
            "required": ["kind"],
            "additionalProperties": False,
        }

    tree = {"$defs": {"node": {"anyOf": [kind("+"), kind("-"), {"type": "number"}]}}, "anyOf": [node]}
    document: Any = 1
    for _ in range(6):
        document = {"kind": "-", "left": document, "right": 2}
    assert json_schema(json.dumps(tree), "x").fault(json.dumps(document)) is None
    document["left"]["right"] = "2"
    assert json_schema(json.dumps(tree), "x").fault(json.dumps(document)) is not None


def test_a_long_list_is_checked():
    row = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}}
    schema = json_schema(json.dumps({"type": "array", "items": {**row, "required": ["a", "b"]}}), "x")
    rows = [{"a": 1, "b": "x"}] * 30_000
    assert schema.fault(json.dumps(rows)) is None
    assert schema.fault(json.dumps([*rows, {"a": 1}])) == "does not fit"


SCHEMAS = st.recursive(
    st.sampled_from([True, {}, {"type": "string"}, {"$ref": "#/$defs/a"}, {"enum": [1, "a", 0.5]}]),
    lambda inner: (
        st.dictionaries(
            st.sampled_from(
                ["not", "if", "then", "items", "contains", "additionalProperties", "propertyNames"]
            ),
            inner,
            max_size=3,
        )
        | st.builds(
            lambda key, members: {key: members},
            st.sampled_from(["allOf", "anyOf"]),
            st.lists(inner, min_size=1),
        )
        | st.builds(lambda members: {"properties": members}, st.dictionaries(st.sampled_from("ab"), inner))
    ),
    max_leaves=8,
)
DOCUMENTS = st.recursive(
    st.sampled_from([1, "a", None]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
)


def naive(schema: Any, value: Any, root: Any) -> int:
    """Count the checks one by one."""
    if not isinstance(schema, dict):
        return 0
    count = 1
    for key, inner in schema.items():
        match key:
            case "$ref":
                count += naive(root["$defs"]["a"], value, root)
            case "enum":
                count += 52
            case "not" | "if" | "then":
                count += naive(inner, value, root)
            case "allOf" | "anyOf":
                count += sum(naive(each, value, root) for each in inner)
    if isinstance(value, list):
        inside = [schema[key] for key in ("items", "contains") if key in schema]
        count += len(value) + sum(naive(each, child, root) for each in inside for child in value)
    if isinstance(value, dict):
        count += len(value)
        for name, child in value.items():
            known = schema.get("properties", {}).get(name)
            # What is no schema object leaves the others in force: the count may be too high.
            other = known if isinstance(known, dict) else schema.get("additionalProperties")
            count += naive(other, child, root) + naive(schema.get("propertyNames"), name, root)
    return count


@given(schema=SCHEMAS.filter(lambda schema: isinstance(schema, dict)), end=SCHEMAS, document=DOCUMENTS)
def test_the_count_is_that_of_a_check_without_shortcuts(schema, end, document):
    root = {"$defs": {"a": end}, "allOf": [schema]}
    try:
        work = SchemaWork(root)
    except TooMuchWork:
        # Only a definition that leads to itself can explode in so small a schema.
        assert "$ref" in json.dumps(end)
        return
    with suppress(RecursionError):
        assert work.checks(document, LIMIT) == naive(root, document, root)


ELSEWHERE = [
    {"$ref": "https://example.com/schema"},
    {"$ref": "other.json#/$defs/a"},
    {"$ref": "b/$defs/a", "$defs": {"a": {}}},
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    {"$id": "https://a.example/b", "$ref": "b#/$defs/c", "$defs": {"c": {}}},
    {"properties": {"a": {"$id": "b", "$ref": "#/$defs/c", "$defs": {"c": {}}}}, "$defs": {"c": {}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"id": "b"}}},
    {"$ref": "#/$defs/missing"},
    {"$ref": "#missing"},
    {"allOf": [True], "$ref": "#/allOf/1"},
    {"allOf": [True], "$ref": "#/allOf/+0"},
]


@pytest.mark.parametrize("schema", ELSEWHERE)
def test_references_stay_inside(schema):
    reference = schema.get("$ref", "#")
    told = "must refer to a part" if reference[0] != "#" else "no such part|refer to parts"
    with pytest.raises(InvalidRequest, match=told):
        json_schema(json.dumps(schema), "x")


INSIDE = [
    {"$id": "https://a.example/b", "$defs": {"a/b%": {"type": "string"}}, "$ref": "#/$defs/a~1b%25"},
    {"$defs": {"a": {"$anchor": "b", "type": "string"}}, "$ref": "#b"},
    {"allOf": [{"type": "string"}], "properties": {"a": {"$ref": "#/allOf/0"}}},
    {"type": "string", "items": {"$ref": "#"}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "string"}},
     "allOf": [{"$ref": "#/definitions/a"}]},
    {"type": "string", "properties": {"id": {}, "$ref": {}, "enum": {}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", INSIDE)
def test_references_inside_are_followed(schema):
    assert json_schema(json.dumps(schema), "x").fault('"a"') is None
    assert json_schema(json.dumps(schema), "x").fault("1").startswith("does not fit at its top: ")


TOO_LARGE = [
    ({"properties": {str(i): {"pattern": "a" * i} for i in range(MAX_PATTERNS + 1)}}, "patterns at most"),
    ({"patternProperties": {"a" * i: True for i in range(MAX_PATTERNS + 1)}}, "patterns at most"),
    # Compiled, each takes megabytes: all together they may have no more than one alone.
    ({"properties": {str(i): {"pattern": rf"^(\p{{L}}{{1,{60 + i}}})x"} for i in range(9)}}, "regex"),
    ({"allOf": [{}] * (MAX_SCHEMA_OBJECTS + 1)}, "schemas at most"),
]


@pytest.mark.parametrize(("schema", "problem"), TOO_LARGE)
def test_large_schemas_are_refused(schema, problem):
    with pytest.raises(InvalidRequest, match=problem) as caught:
        json_schema(json.dumps(schema), "x")
    assert caught.value.param == "x"


def test_sizes_at_the_limits_are_used():
    json_schema(
        json.dumps({"properties": {str(i): {"pattern": "^a+$" + "a" * i} for i in range(MAX_PATTERNS)}}), "x"
    )
    json_schema(json.dumps({"pattern": r"^(\p{L}{1,60})x"}), "x")
    json_schema("{" + " " * (MAX_SCHEMA_BYTES - 2) + "}", "x")
    json_schema('{"items":' * (MAX_SCHEMA_LEVELS - 1) + "{}" + "}" * (MAX_SCHEMA_LEVELS - 1), "x")
    for text in (
        "{" + " " * (MAX_SCHEMA_BYTES - 1) + "}",
        # As bytes, not as characters.
        json.dumps({"title": "é" * (MAX_SCHEMA_BYTES // 2)}, ensure_ascii=False),
        '{"items":' * MAX_SCHEMA_LEVELS + "{}" + "}" * MAX_SCHEMA_LEVELS,
    ):
        with pytest.raises(InvalidRequest):
            json_schema(text, "x")


def test_compiled_schemas_are_kept_by_their_size():
    text = '{"title": "kept"}'
    assert json_schema(text, "x") is json_schema(text, "x")
    assert json_schema('{"pattern": "a"}', "x").size_bytes > MAX_PATTERN_BYTES
