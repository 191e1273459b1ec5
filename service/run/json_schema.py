"""Texts checked against JSON Schemas: answers against their format, arguments against strict functions.

A check takes no more than some 100 ms, whatever the schema and the text: patterns take linear time, and what
schemas multiply is counted first. Nothing is fetched from elsewhere. Sans-IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import jsonschema_rs
import orjson

from service.errors import InvalidRequest
from service.lru_cache import LruCache
from service.run.schema_work import SchemaWork, TooMuchWork

MAX_SCHEMA_BYTES: Final = 2**18
MAX_PATTERN_BYTES: Final = 2**22
"""Most memory of a schema's compiled patterns, all together; they take some 10 ms a MiB."""
MAX_CHECKS: Final = 1_000_000
"""Most checks of a text, in those of `SchemaWork`; some 100 ms."""
MAX_KEPT_BYTES: Final = 2**27
"""Most memory of compiled schemas that are kept, as `JsonSchema.size_bytes` estimates it."""
MAX_SHOWN_CHARACTERS: Final = 200

_COMPILED_SHARE: Final = 60
"""How many times the size of its text a compiled schema takes: measured, rounded up."""
_EXPLAINED_CHECKS: Final = 1000
"""Up to so many, the place of a fault is looked for: every branch that does not fit is described, slowly."""


class JsonSchema:
    """A schema, ready to check with.

    Attributes:
        size_bytes: memory that it takes, at most.

    """

    def __init__(self, text: str) -> None:
        """Compile a schema that is written as JSON.

        Raises:
            TooMuchWork: checking against it could take too long.
            jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError: it is none.

        """
        schema = orjson.loads(text)
        self._work = SchemaWork(schema)
        pattern_bytes = MAX_PATTERN_BYTES // max(1, len(self._work.patterns))
        self._validator = jsonschema_rs.validator_for(
            schema,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=pattern_bytes),
            retriever=_nothing,
            validate_formats=False,
        )
        self.size_bytes = _COMPILED_SHARE * len(text) + (MAX_PATTERN_BYTES if self._work.patterns else 0)

    def fault(self, text: str) -> str | None:
        """Return why a text does not fit, as the end of a sentence; None where it does."""
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return "is not JSON"
        checks = self._work.checks(value, MAX_CHECKS)
        if checks > MAX_CHECKS:
            return "is too large or nested too deep to be checked against its schema"
        if self._validator.is_valid(value):
            return None
        if checks > _EXPLAINED_CHECKS or (error := next(self._validator.iter_errors(value), None)) is None:
            return "does not fit"
        where = _path(error.instance_path).lstrip(".") or "its top"
        return f"does not fit at {where}: {error.message:.{MAX_SHOWN_CHARACTERS}}"


# Agents send the same tools with every request.
_kept: Final = LruCache[str, JsonSchema](MAX_KEPT_BYTES)


def json_schema(text: str, path: str) -> JsonSchema:
    """Return the schema that is written in `text`, the request field at `path`.

    Raises:
        InvalidRequest: it is none, or too large; the message has the path inside of it.

    """
    if len(text) > MAX_SCHEMA_BYTES or len(text.encode()) > MAX_SCHEMA_BYTES:
        raise InvalidRequest(f"{path} may have {MAX_SCHEMA_BYTES} bytes at most.", param=path)
    if not text.lstrip().startswith("{"):
        raise InvalidRequest(f"{path} must be a JSON Schema: a JSON object.", param=path)
    if known := _kept.get(text):
        return known
    try:
        schema = JsonSchema(text)
    except TooMuchWork as error:
        where = error.path[:MAX_SHOWN_CHARACTERS]
        raise InvalidRequest(f"{path}{where} cannot be used: {error}.", param=path) from None
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        where = _path(getattr(error, "instance_path", ()))
        cause = str(getattr(error, "message", error)).partition("\n")[0]
        raise InvalidRequest(f"{path}{where} is wrong: {cause[:MAX_SHOWN_CHARACTERS]}", param=path) from None
    _kept.put(text, schema, schema.size_bytes)
    return schema


def _path(parts: Iterable[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _nothing(uri: str) -> Any:
    raise ValueError(f"{uri[:100]} is not part of the schema")
