"""Turns with thoughts and calls, clients of services that play them, and what goes back into a request."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai

from tests.processes import client_of, start_gateway, start_service
from tests.scripts import write_script

THOUGHT = "A secret thought about Oslo."
CALL = (
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
)
ANSWER = "<|channel|>final<|message|>Done.<|return|>"
TURNS = {
    "works": {"turns": [{"harmony": CALL, "chunks": 3}, {"harmony": ANSWER}]},
    "babbles": {"harmony": ANSWER.removesuffix("<|return|>"), "finish_reason": "length"},
    "answers": {"harmony": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + ANSWER},
}
TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
SEALED = ["reasoning.encrypted_content"]


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[openai.OpenAI]:
    script = write_script(folder, TURNS)
    with (
        start_service("--engine", "scripted", "--script", script, *flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        yield client


def first_turn(client: openai.OpenAI, **fields: Any) -> Any:
    fields = {"store": False, "include": SEALED, **fields}
    return client.responses.create(model="works", input="Go", tools=TOOLS, **fields)


def second_input(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "ok"}
    return [{"role": "user", "content": "Go"}, *output, answer]


def tokens(client: openai.OpenAI, items: list[dict[str, Any]], tools: Any = TOOLS) -> int:
    return client.responses.input_tokens.count(model="works", input=items, tools=tools).input_tokens
