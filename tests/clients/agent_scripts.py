"""The turns that agents play: a call of their tool, and the answer to what it returned. At several chunk sizes."""

import json
from typing import Any

SIZES = (1, 3, 1000)
THOUGHT = "<|channel|>analysis<|message|>I need to look it up.<|end|><|start|>assistant"
PERSON = {"name": "Ann", "age": 5}
COMMAND = "printf 'hello from codex\\n' > note.txt"


def call(recipient: str, arguments: dict[str, Any]) -> str:
    """A call of a function, up to the end of the turn."""
    return f"<|channel|>commentary to={recipient} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"


def answer(text: str) -> str:
    """An answer, up to the end of the turn."""
    return f"<|channel|>final<|message|>{text}<|return|>"


def agent_turns() -> dict[str, Any]:
    """The turns by the names of their models, which end with their chunk size."""
    conversations = {
        "weather": [
            THOUGHT + call("functions.get_weather", {"city": "Oslo"}),
            answer("It is sunny in Oslo."),
        ],
        "person": [THOUGHT + answer(json.dumps(PERSON))],
        "coder": [
            THOUGHT + call("functions.exec_command", {"cmd": COMMAND}),
            answer("I wrote note.txt."),
        ],
    }
    return {
        f"{name}-{size}": {"turns": [{"harmony": turn, "chunks": size} for turn in turns]}
        for name, turns in conversations.items()
        for size in SIZES
    }
