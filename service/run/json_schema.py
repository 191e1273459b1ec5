"""Texts checked against JSON Schemas: answers against their format, arguments against strict functions.

Patterns take linear time, and nothing is fetched from elsewhere. Sans-IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import jsonschema_rs
import orjson

from service.errors import InvalidRequest

MAX_SCHEMA_BYTES: Final = 2**18
MAX_SHOWN_CHARACTERS: Final = 200


class JsonSchema:
    """A schema, ready to check with."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._validator = jsonschema_rs.validator_for(
            schema, pattern_options=jsonschema_rs.RegexOptions(), retriever=_nothing, validate_formats=False
        )

    def fault(self, text: str) -> str | None:
        """Return why a text does not fit, as the end of a sentence; None where it does."""
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return "is not JSON"
        if (error := next(self._validator.iter_errors(value), None)) is None:
            return None
        return f"does not fit at {_path(error.instance_path).lstrip('.') or 'its top'}"


def json_schema(text: str, path: str) -> JsonSchema:
    """Return the schema that is written in `text`, the request field at `path`.

    Raises:
        InvalidRequest: it is none, or too large; the message has the path inside of it.

    """
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidRequest(f"{path} may have {MAX_SCHEMA_BYTES} bytes at most.", param=path)
    if not text.lstrip().startswith("{"):
        raise InvalidRequest(f"{path} must be a JSON Schema: a JSON object.", param=path)
    try:
        return _compiled(text)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        where = _path(getattr(error, "instance_path", ()))
        cause = str(getattr(error, "message", error)).partition("\n")[0]
        raise InvalidRequest(f"{path}{where} is wrong: {cause[:MAX_SHOWN_CHARACTERS]}", param=path) from None


# Agents send the same tools with every request.
@lru_cache(maxsize=256)
def _compiled(text: str) -> JsonSchema:
    return JsonSchema(orjson.loads(text))


def _path(parts: Iterable[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _nothing(uri: str) -> Any:
    raise ValueError(f"{uri[:100]} is not part of the schema")
