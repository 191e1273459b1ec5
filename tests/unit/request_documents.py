"""Requests made from their JSON, and the model and the limits that they are held against."""

import json
from typing import Any

from openresponses.v1.service_pb2 import CreateResponseRequest

from service.engine.base import ModelInfo
from service.run.validation import RequestLimits
from service.wire.openai_json import decode

LIMITS = RequestLimits(max_interval_tokens=64, max_interval_ms=1000)
GUIDED = ModelInfo(id="m", context_window_tokens=100, max_output_tokens=100, guided=True)
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "z": 1, "a": 2}}
OTHER = {"type": "function", "name": "g", "parameters": None}


def request(**fields: Any) -> CreateResponseRequest:
    return decode(CreateResponseRequest, json.dumps({"model": "m", "input": "Hi", **fields}).encode())


def grammar_tool(definition: str, syntax: str = "regex") -> dict[str, Any]:
    grammar = {"type": "grammar", "syntax": syntax, "definition": definition}
    return {"type": "custom", "name": "c", "format": grammar}
