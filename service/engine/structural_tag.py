"""Guided decoding for Harmony: calls and answers are held to their schemas, everything else is free.

A plain JSON guide would forbid Harmony's own headers and ruin the output. A structural tag begins where the
header of a call or an answer is written, in the format that xgrammar documents (`triggered_tags`).
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from service.engine.base import FunctionSchema, Guidance

_CALL: Final = "<|channel|>commentary to="
_ANSWER: Final = "<|channel|>final"


def structural_tag(guidance: Guidance) -> str | None:
    """Return the tag as JSON; None where nothing is to be held to."""
    tags = [_call(function) for function in guidance.functions]
    triggers = [_CALL] if tags else []
    if guidance.answer_schema is not None and not guidance.call_required:
        tags.append(_answer(guidance.answer_schema))
        triggers.append(_ANSWER)
    if not tags:
        return None
    form: dict[str, Any] = {
        "type": "triggered_tags",
        "triggers": triggers,
        "tags": tags,
        "at_least_one": guidance.call_required,
        "stop_after_first": False,
    }
    return orjson.dumps({"type": "structural_tag", "format": form}).decode()


def _call(function: FunctionSchema) -> dict[str, Any]:
    return {
        "type": "tag",
        "begin": f"{_CALL}{function.recipient} <|constrain|>json<|message|>",
        "content": {"type": "json_schema", "json_schema": function.schema()},
        "end": "<|call|>",
    }


def _answer(schema: str) -> dict[str, Any]:
    return {
        "type": "tag",
        "begin": f"{_ANSWER}<|message|>",
        "content": {"type": "json_schema", "json_schema": orjson.loads(schema)},
        "end": "<|return|>",
    }
