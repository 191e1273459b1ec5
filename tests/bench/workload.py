"""What benchmarks measure: the service and its gateway on scripted turns, and clients in other processes.

The scripted engine never waits, and is held back at N waiting tokens, so that every flush has just N.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench.cpu import children
from tests.processes import ROOT, Running, start_gateway, start_service
from tests.scripts import encoded, write_script

FOLDER = ROOT / ".build" / "bench"
TEXTS = ["The quick brown fox jumps over the lazy dog. " * 45, "Hello there, this is the answer to it. " * 65]
OUTPUT = (
    f"<|channel|>analysis<|message|>{TEXTS[0]}<|end|><|start|>assistant<|channel|>final<|message|>"
    f"{TEXTS[1]}<|return|>"
)
TOKENS = len(encoded(OUTPUT))
PACE_MS = 20
"""Milliseconds to a chunk of the turn `paced`."""
LAG_PACE_MS = 50
"""Milliseconds to a chunk of the turn `beat`."""
LENGTHS = (1_000, 10_000, 100_000)
"""Tokens of the turns `long-...`."""


@contextmanager
def processes(interval: int, *more_flags: str) -> Iterator[tuple[Running, Running, int]]:
    """The service at an interval, the gateway, and Envoy's process id."""
    turns = {
        "bench": {"harmony": OUTPUT, "chunks": interval},
        "paced": {"harmony": OUTPUT, "chunks": interval, "delay_ms": PACE_MS},
        "beat": {**answer(beat_text(interval), interval), "delay_ms": LAG_PACE_MS},
        **{f"long-{count}": answer(long_text(count), interval) for count in LENGTHS},
        "short": answer("Hi.", interval),
        "idle": {"harmony": OUTPUT, "hang_after": 1},
    }
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        flags = [
            *("--engine", "scripted", "--script", write_script(folder, turns), "--slots", "2000"),
            *("--stream-interval", str(interval), "--max-waiting-tokens", str(interval)),
            *("--stream-interval-ms", "10000"),
        ]
        service = stack.enter_context(start_service(*flags, *more_flags))
        gateway = stack.enter_context(start_gateway(service.address))
        (envoy,) = children(gateway.process.pid)
        yield service, gateway, envoy


def load(
    face: str, address: str, model: str, streams: int, expected: Sequence[str] = TEXTS, in_turn: int = 1
) -> dict[str, Any]:
    """Run one client process to its end.

    `expected`: the texts of every response; `in_turn`: how many follow one another in place of each stream.
    """
    with tempfile.NamedTemporaryFile() as figures:
        command = [sys.executable, "-m", "tests.bench.load", face, address, model]
        command += [str(streams), str(in_turn), figures.name]
        done = subprocess.run(
            command, input=json.dumps(expected), capture_output=True, text=True, check=False, cwd=ROOT
        )
        if done.returncode:
            sys.exit(f"A stream was not right:\n{done.stderr}")
        found: dict[str, Any] = json.load(figures)
    return found


def beat_text(interval: int) -> str:
    """An answer of a hundred chunks."""
    return "word" + " word" * (100 * interval)


def answer(text: str, interval: int) -> dict[str, object]:
    """A scripted turn that says just this."""
    return {"harmony": f"<|channel|>final<|message|>{text}<|return|>", "chunks": interval}


def long_text(count: int) -> str:
    """A text of so many tokens."""
    return "word" + " word" * (count - 1)
