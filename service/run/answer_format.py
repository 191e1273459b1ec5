"""The format that an answer is promised to have: a JSON object, or JSON that fits a schema. Sans-IO."""

from __future__ import annotations

import re
from typing import Any, Final

import jsonschema_rs
import orjson
from openresponses.v1.settings_pb2 import JsonSchemaFormat, TextFormat

from service.errors import InvalidRequest

MAX_FORMAT_SCHEMA_BYTES: Final = 2**18
MAX_SHOWN_CHARACTERS: Final = 200

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ANY_OBJECT: Final = '{"type":"object"}'


class AnswerFormat:
    """What the answer must be."""

    def __init__(self, schema: str, *, strict: bool) -> None:
        """`schema`: JSON Schema as JSON text; only a `strict` format is a promise.

        Raises:
            InvalidRequest: the schema is none.

        """
        self.schema = schema
        self._strict = strict
        try:
            # Patterns take linear time; nothing is fetched from elsewhere.
            self._validator = jsonschema_rs.validator_for(
                orjson.loads(schema),
                pattern_options=jsonschema_rs.RegexOptions(),
                retriever=_nothing,
                validate_formats=False,
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise InvalidRequest(_schema_fault(error), param="text.format.schema") from None

    def fault(self, text: str) -> str | None:
        """Return why a text is not as promised, in a sentence; None where it is."""
        if not self._strict:
            return None
        try:
            answer = orjson.loads(text)
        except orjson.JSONDecodeError:
            return "The model's answer is not JSON, as text.format wants it. Try again."
        if (error := next(self._validator.iter_errors(answer), None)) is None:
            return None
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        return f"The model's answer does not fit text.format at {path.lstrip('.') or 'its top'}. Try again."


def answer_format(text_format: TextFormat) -> AnswerFormat | None:
    """Return what a request wants of the answer; None for any text.

    Raises:
        InvalidRequest: the format is wrong; `param` names the field.

    """
    match text_format.WhichOneof("format"):
        case "json_object":
            return AnswerFormat(_ANY_OBJECT, strict=True)
        case "json_schema":
            return _from_schema(text_format.json_schema)
        case _:
            return None


def _from_schema(wanted: JsonSchemaFormat) -> AnswerFormat:
    if not _NAME.fullmatch(wanted.name):
        raise InvalidRequest(
            "text.format.name must be 1 to 64 letters, digits, '_' or '-'.", param="text.format.name"
        )
    if len(wanted.schema) > MAX_FORMAT_SCHEMA_BYTES:
        raise InvalidRequest(
            f"text.format.schema may have {MAX_FORMAT_SCHEMA_BYTES} bytes at most.",
            param="text.format.schema",
        )
    if not wanted.schema.lstrip().startswith("{"):
        raise InvalidRequest(
            "text.format.schema must be a JSON Schema: a JSON object.", param="text.format.schema"
        )
    return AnswerFormat(wanted.schema, strict=wanted.strict)


def _schema_fault(error: Exception) -> str:
    path = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in getattr(error, "instance_path", ())
    )
    cause = str(getattr(error, "message", error)).partition("\n")[0]
    return f"text.format.schema{path} is wrong: {cause[:MAX_SHOWN_CHARACTERS]}"


def _nothing(uri: str) -> Any:
    raise ValueError(f"{uri[:100]} is not part of the schema")
