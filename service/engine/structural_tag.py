"""Guided decoding for Harmony: calls are held to their schemas, everything else is free.

A plain JSON guide would forbid Harmony's own headers and ruin the output. A structural tag begins where the
header of a call is written, in the format that xgrammar documents (`triggered_tags`).
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from service.engine.base import FunctionSchema, Guidance

_TRIGGER: Final = "<|channel|>commentary to=functions."


def structural_tag(guidance: Guidance) -> str | None:
    """Return the tag as JSON; None where nothing is to be held to."""
    if not guidance.functions:
        return None
    form: dict[str, Any] = {
        "type": "triggered_tags",
        "triggers": [_TRIGGER],
        "tags": [_call(function) for function in guidance.functions],
        "at_least_one": guidance.call_required,
        "stop_after_first": False,
    }
    return orjson.dumps({"type": "structural_tag", "format": form}).decode()


def _call(function: FunctionSchema) -> dict[str, Any]:
    return {
        "type": "tag",
        "begin": f"{_TRIGGER}{function.name} <|constrain|>json<|message|>",
        "content": {"type": "json_schema", "json_schema": function.schema()},
        "end": "<|call|>",
    }
