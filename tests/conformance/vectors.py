"""Conformance vectors: what a model emits, and the response that it must become, however it is chunked.

`vectors/*.json` hold lists of objects:

    name, why       what it is, and why the result is right
    covers          ids of the failures, seen in other servers, that it guards against
    harmony         the output as text with its control tokens written out; or
    tokens          a list: a control token written out, text, {"text": ...} that is never a control token,
                    {"bytes": hex} tokens of single bytes, or a token's id
    finish_reason   stop, length, or fault: the engine fails behind the last token
    tools           names of the functions on offer
    parallel_tool_calls  optional
    output          items, in short: {"answer" | "preamble" | "reasoning": text} or {"call": name, "arguments"};
                    "status": incomplete where it is not completed
    status          of the response
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from service.dialect.harmony import vocabulary

CHUNK_SIZES = (1, 2, 3, 5, 8, 10, 32, 1_000_000)

Vector = dict[str, Any]

_KEYS = {"name", "why", "covers", "harmony", "tokens", "finish_reason", "tools", "output", "status"}
_OPTIONAL_KEYS = {"parallel_tool_calls"}


def load_vectors() -> dict[str, Vector]:
    """Every vector, by file and name."""
    return {
        f"{path.stem}.{vector['name']}": vector
        for path in sorted((Path(__file__).parent / "vectors").glob("*.json"))
        for vector in json.loads(path.read_text())
    }


def problems_of(vector: Vector) -> set[str]:
    """Keys that are missing, too many, or not allowed together."""
    source = vector.keys() & {"harmony", "tokens"}
    unknown = vector.keys() - _KEYS - _OPTIONAL_KEYS
    missing = _KEYS - vector.keys() - {"harmony", "tokens"}
    return unknown | missing | (source if len(source) != 1 else set())


def tokens_of(vector: Vector) -> list[int]:
    """The output tokens."""
    parts = [vector["harmony"]] if "harmony" in vector else vector["tokens"]
    return [token for part in parts for token in _tokens(part)]


def turn_of(vector: Vector, chunk_size: int) -> dict[str, Any]:
    """The scripted engine's turn that plays it."""
    tokens = tokens_of(vector)
    turn: dict[str, Any] = {"tokens": tokens, "chunks": chunk_size}
    if vector["finish_reason"] == "fault":
        return {**turn, "fail_after": len(tokens)}
    return {**turn, "finish_reason": vector["finish_reason"]}


def request_of(vector: Vector) -> dict[str, Any]:
    """The request, but for its model."""
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in vector["tools"]]
    parallel = {key: vector[key] for key in _OPTIONAL_KEYS & vector.keys()}
    return {"input": "Hi", "tools": tools, **parallel}


def in_short(output: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A response's output in the vectors' notation."""
    return [_in_short(item) for item in output]


def _tokens(part: str | int | dict[str, str]) -> list[int]:
    match part:
        case int():
            return [part]
        case str():
            return vocabulary.load_encoding().encode(part, allowed_special="all")
        case {"text": text}:
            return vocabulary.encode(text)
        case {"bytes": digits}:
            return [vocabulary.token_bytes().index(bytes([byte])) for byte in bytes.fromhex(digits)]
        case _:
            raise ValueError(f"{part!r} is no token")


def _in_short(item: dict[str, Any]) -> dict[str, Any]:
    status = {} if item["status"] == "completed" else {"status": item["status"]}
    match item["type"]:
        case "function_call":
            return {"call": item["name"], "arguments": item["arguments"], **status}
        case "reasoning":
            (part,) = item["content"]
            return {"reasoning": part["text"], **status}
        case _:
            (part,) = item["content"]
            kind = {"commentary": "preamble", "final_answer": "answer"}[item["phase"]]
            return {kind: part["text"], **status}
