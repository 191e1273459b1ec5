"""The scripted engine's turns that the tests of real processes play, and how to write them to a file."""

import json
from pathlib import Path
from typing import Any

from service.dialect.harmony import vocabulary
from service.engine.embedded import MODEL_ID

REASONING_AND_TEXT = (
    "<|channel|>analysis<|message|>The user greets me. 🎉<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Hello, wörld! 👋 How are you?<|return|>"
)
CALLS = (
    "<|channel|>analysis<|message|>Two cities.<|end|>"
    "<|start|>assistant<|channel|>commentary<|message|>I look both up.<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
    '{"city": "Zürich"}<|call|>'
    "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
    '{"city": "Oslo"}<|call|>'
)
# The function that the turns below call.
FUNCTION = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
LONG = "<|channel|>final<|message|>" + "word " * 50 + "<|return|>"
# Longer than any test lasts.
ENDLESS = {"harmony": "<|channel|>final<|message|>" + "word " * 20_000, "delay_ms": 20}

TURNS: dict[str, dict[str, Any]] = {
    "hello": {"harmony": REASONING_AND_TEXT, "delay_ms": 2},
    # The bundled model's name, as the README's lines have it.
    MODEL_ID: {"harmony": REASONING_AND_TEXT},
    # As models of the hub are called, and with all that is escaped in addresses.
    "org/model": {"harmony": REASONING_AND_TEXT},
    "org/model:7b +é%?#&=@": {"harmony": REASONING_AND_TEXT},
    "hello-7": {"harmony": REASONING_AND_TEXT, "chunks": 7},
    "hello-all": {"harmony": REASONING_AND_TEXT, "chunks": 1000},
    "calls": {"harmony": CALLS},
    "weather": {
        "turns": [
            {
                "harmony": "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
                '{"city": "Oslo"}<|call|>'
            },
            {"harmony": "<|channel|>final<|message|>It is sunny in Oslo.<|return|>"},
        ]
    },
    "slow": {"harmony": LONG, "delay_ms": 50},
    "endless": ENDLESS,
    "fails": {"harmony": LONG, "fail_after": 10},
    "fails-at-once": {"harmony": LONG, "fail_after": 0},
    "hangs": {"harmony": LONG, "hang_after": 10},
    "hangs-at-once": {"harmony": LONG, "hang_after": 0},
}


def write_script(folder: Path, turns: dict[str, dict[str, Any]] = TURNS) -> Path:
    """Write `turns` to a script file in `folder` and return its path."""
    path = folder / "script.json"
    path.write_text(json.dumps(turns))
    return path


def token_count(harmony: str) -> int:
    """How many tokens a written output has."""
    return len(encoded(harmony))


def encoded(harmony: str) -> list[int]:
    """The tokens of a written output."""
    return vocabulary.load_encoding().encode(harmony, allowed_special="all")
