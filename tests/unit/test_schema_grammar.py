"""What a schema or a grammar is refused for is said in words, of the field that the client sent."""

import json

import pytest

from service.engine.base import FunctionSchema
from service.engine.schema_grammar import answer_grammar, arguments_grammar
from service.errors import InvalidRequest

PATTERN = '{"properties": {"a": {"type": "string", "pattern": "%s"}}}'


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (PATTERN % "a(", "a regular expression is wrong: unclosed group"),
        (PATTERN % "[a-z", "a regular expression is wrong: unclosed character class"),
        ('{"properties": {"a": {"type": "nonsense"}}}', "Invalid type: nonsense"),
        ('{"properties": {"a": {"not": {}}}}', 'Unimplemented keys: ["not"]'),
        ('{"properties": {"a": {"type": "integer", "multipleOf": 2147483647}}}', "it is too complex"),
        ('{"properties": {"a": {"type": "array", "maxItems": 1.5}}}', "Expected positive integer"),
    ],
)
def test_a_schema(schema, fault):
    for make, path in (
        (lambda: answer_grammar(schema), "text.format.schema"),
        (
            lambda: arguments_grammar(FunctionSchema("f", schema, path="tools[2].parameters")),
            "tools[2].parameters",
        ),
    ):
        with pytest.raises(InvalidRequest) as refused:
            make()
        assert refused.value.param == path
        assert refused.value.message.startswith(f"{path} cannot be used: {fault}")
        assert "\n" not in refused.value.message
        assert "%llguidance" not in refused.value.message


@pytest.mark.parametrize(
    ("grammar", "fault"),
    [
        ("start: (", "line 1, column 9: Expected token ')', found the end of the line"),
        ('start: a\na: "x"\nb: a (\n', "line 3, column 7: Expected token ')', found the end of the line"),
        ('start "a"', "line 1, column 7: Expected token ':', found \"string...\""),
        ("start: b", 'line 1, column 8: unknown name: "b"'),
        ("start: /a(/", "line 1, column 8: a regular expression is wrong: unclosed group"),
        ('begin: "a"', "no start rule found"),
        ("start: <|im_start|>", 'line 1, column 8: unknown special token: "<|im_start|>"'),
        ('start: %json {"type": "object"}', "%json is not offered"),
    ],
)
def test_a_grammar(grammar, fault):
    function = FunctionSchema("f", None, text_grammar=grammar, path="tools[0].format.definition")
    with pytest.raises(InvalidRequest) as refused:
        arguments_grammar(function)
    assert refused.value.param == "tools[0].format.definition"
    assert refused.value.message == f"tools[0].format.definition cannot be used: {fault}."


def test_what_can_be_held_to():
    schema = {"properties": {"a": {"type": "string", "pattern": "^a+$", "maxLength": 5}}}
    assert "%json" in arguments_grammar(FunctionSchema("f", json.dumps(schema)))
    assert "start" in arguments_grammar(FunctionSchema("f", None, text_grammar='start: "a" /b+/'))
