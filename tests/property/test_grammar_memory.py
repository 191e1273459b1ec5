"""No schema makes the embedded runtime take more than some memory, or end the process: it is refused before."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.grammar_child import GrammarChild

COUNTS = st.sampled_from([-(10**7), 0, 3, 100, 4_000, 9_000, 100_000, 10**7, 4 * 10**9, 10**30, 1e7, 1e300])
NAMES = st.sampled_from("abcd")
REFERENCES = st.sampled_from(["#", *(f"#/$defs/{name}" for name in "abcd")]).map(lambda ref: {"$ref": ref})


def wide(count: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(count)}}


WIDE = wide(300)


def some_of(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=strategies)


TEXTS = some_of(
    type=st.just("string"),
    minLength=COUNTS,
    maxLength=COUNTS,
    pattern=COUNTS.map(lambda count: f"^((a|b){{1,{count}}}c){{0,{count}}}$"),
)
NUMBERS = some_of(type=st.just("integer"), multipleOf=COUNTS, minimum=COUNTS, maximum=COUNTS)


def schemas_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=4)
    named = st.dictionaries(NAMES, inner, max_size=4)
    return some_of(
        minItems=COUNTS,
        maxItems=COUNTS,
        items=inner,
        prefixItems=several,
        properties=named,
        required=st.lists(NAMES, max_size=4),
        additionalProperties=inner,
        patternProperties=named,
        minProperties=COUNTS,
        maxProperties=COUNTS,
        allOf=several,
        anyOf=several,
        oneOf=several,
        x=inner,
    )


SCHEMAS = st.recursive(TEXTS | NUMBERS | REFERENCES | st.just(wide(40)), schemas_of, max_leaves=20)
DOCUMENTS = st.builds(
    lambda schema, definitions: {**schema, "$defs": definitions},
    SCHEMAS,
    st.fixed_dictionaries(dict.fromkeys("abcd", SCHEMAS)),
)


@pytest.fixture(scope="module")
def child() -> Iterator[GrammarChild]:
    child = GrammarChild()
    yield child
    child.close()


@pytest.mark.timeout(300)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(schema=DOCUMENTS)
def test_any_schema(child, schema):
    assert child.ask(schema) in ("held", "refused")


def long_array(count: float) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "integer"}, "maxItems": count}


def meeting(schema: dict[str, Any], times: int) -> dict[str, Any]:
    """A schema that others have to meet, time after time."""
    more = [{"items": {"maximum": i + 5}, "properties": {"z": {"maximum": i + 5}}} for i in range(times)]
    return {
        "$defs": {"a": schema},
        "properties": {f"p{i}": {"allOf": [{"$ref": "#/$defs/a"}, extra]} for i, extra in enumerate(more)},
    }


KNOWN = {
    "less than nothing beside it": {"properties": {"a": long_array(10**7)}, "x": {"minItems": -(10**7)}},
    "arrays that meet others": meeting(long_array(9000), 60),
    "objects that meet others": meeting({"properties": {"q": {"properties": {"r": WIDE}}}}, 120),
    "required and not declared": {
        "required": [f"r{i}" for i in range(300)],
        "additionalProperties": {**WIDE, "required": ["p1"]},
    },
}


@pytest.mark.parametrize("schema", KNOWN.values(), ids=KNOWN)
def test_what_would_take_gigabytes(child, schema):
    assert child.ask(schema) == "refused"


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": long_array(9_900)}, "required": ["a"]},
        meeting({"properties": {"q": {"properties": {"r": WIDE}}}}, 30),
    ],
    ids=["array", "objects"],
)
def test_the_largest(child, schema):
    assert child.ask(schema) == "held"
