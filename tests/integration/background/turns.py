"""The turns that are played in the background, how long their leases are, and their events as documents."""

from typing import Any

from tests.scripts import ENDLESS, LONG

LEASE_S = 2
FINAL = {"completed", "failed", "cancelled", "incomplete"}
TURNS = {
    "short": {"harmony": LONG, "delay_ms": 1},
    "slow": {"harmony": LONG, "delay_ms": 20},
    "endless": ENDLESS,
    "thinks-endlessly": {
        "harmony": "<|channel|>analysis<|message|>Yes.<|end|><|start|>assistant" + LONG,
        "hang_after": 30,
    },
    "fails": {"harmony": LONG, "fail_after": 10},
    "thinks-and-talks": {
        "harmony": "<|channel|>analysis<|message|>Yes.<|end|><|start|>assistant<|channel|>final<|message|>"
        + "word " * 2000
        + "<|return|>",
        "chunks": 100,
    },
}


def plain(events: Any) -> list[dict[str, Any]]:
    return [event.model_dump(exclude_unset=True) for event in events]
