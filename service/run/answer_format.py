"""The format that an answer is promised to have: a JSON object, or JSON that fits a schema. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from openresponses.v1.settings_pb2 import JsonSchemaFormat, TextFormat

from service.errors import InvalidRequest
from service.run.json_schema import JsonSchema, json_schema
from service.run.names import NAME_RULE, is_name

_ANY_OBJECT: Final = '{"type":"object"}'


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """What the answer must be."""

    schema: str
    """JSON Schema, as JSON text."""
    check: JsonSchema | None
    """The same, where it is a promise; else it is only what the engine is guided by."""

    def fault(self, text: str) -> str | None:
        """Return why a text is not as promised, as the end of a sentence; None where it is."""
        return self.check.fault(text) if self.check else None


def answer_format(text_format: TextFormat) -> AnswerFormat | None:
    """Return what a request wants of the answer; None for any text.

    Raises:
        InvalidRequest: the format is wrong; `param` names the field.

    """
    match text_format.WhichOneof("format"):
        case "json_object":
            return AnswerFormat(_ANY_OBJECT, json_schema(_ANY_OBJECT, "text.format"))
        case "json_schema":
            return _from_schema(text_format.json_schema)
        case _:
            return None


def _from_schema(wanted: JsonSchemaFormat) -> AnswerFormat:
    if not is_name(wanted.name):
        raise InvalidRequest(f"text.format.name must be {NAME_RULE}.", param="text.format.name")
    schema = json_schema(wanted.schema, "text.format.schema")
    return AnswerFormat(wanted.schema, schema if wanted.strict else None)
