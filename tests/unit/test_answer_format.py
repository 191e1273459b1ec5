"""The format of an answer: a schema that is wrong is told with its path, and a hostile one takes no time."""

from contextlib import suppress

import pytest

from service.errors import InvalidRequest
from service.run.answer_format import answer_format
from service.run.json_schema import json_schema
from tests.unit.request_documents import request

FORMATS = [
    ({"type": "json_schema", "name": "a b", "schema": {}}, "text.format.name"),
    ({"type": "json_schema", "name": "x"}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": 5}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"type": "objec"}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"$ref": "http://a/b"}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"$ref": "#/nowhere"}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"pattern": "("}}, "text.format.schema"),
    ({"type": "json_schema", "name": "x", "schema": {"title": "x" * 2**18}}, "text.format.schema"),
]


@pytest.mark.parametrize(("wanted", "param"), FORMATS)
def test_formats_are_refused_by_name(wanted, param):
    with pytest.raises(InvalidRequest) as caught:
        answer_format(request(text={"format": wanted}).text.format)
    assert caught.value.param == param
    assert "\n" not in caught.value.message


def test_a_wrong_schema_is_told_with_its_path():
    schema = {"type": "object", "properties": {"a": {"type": "strin"}}}
    with pytest.raises(InvalidRequest, match=r"schema\.properties\.a\.type is wrong"):
        answer_format(
            request(text={"format": {"type": "json_schema", "name": "x", "schema": schema}}).text.format
        )


@pytest.mark.parametrize("schema", ['{"pattern": "^(a+)+$"}', "{}"])
def test_hostile_schemas_take_no_time(schema):
    fault = json_schema(schema, "x").fault('"' + "a" * 10_000 + '!"')
    assert fault is None or fault.startswith("does not fit at its top: ")


def test_schemas_nested_very_deep():
    for levels in (100, 900, 100_000):
        schema = '{"items":' * levels + "{}" + "}" * levels
        with suppress(InvalidRequest):
            json_schema(schema, "x").fault("[" * levels + "]" * levels)
