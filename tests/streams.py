"""A turn played in memory, from tokens to the JSON of its events; and what chunking must not change of them."""

import json
from collections.abc import Iterable
from typing import Any

from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.base import Splitter
from service.engine.base import FinishReason, ModelInfo, TokenChunk
from service.run.builder import ResponseBuilder
from service.run.opening import opened_response
from service.run.turn import Turn
from service.wire.openai_json import encode

Events = list[dict[str, Any]]

MODEL = ModelInfo(id="m", context_window_tokens=100_000, max_output_tokens=100_000)


def play(
    splitter: Splitter, chunks: Iterable[list[int]], *, end: str, request: CreateResponseRequest | None = None
) -> Events:
    """The events of a turn that came in `chunks`; `end` is stop, length or fault."""
    request = request or CreateResponseRequest(model="m")
    builder = ResponseBuilder(opened_response(request, MODEL, response_id="resp_abc", created_at=1))
    turn = Turn(builder, splitter, 0, clock=lambda: 2.0)
    builder.start()
    for chunk in chunks:
        turn.feed(TokenChunk(chunk))
    if end == "fault":
        turn.fail("it broke")
    else:
        turn.feed(TokenChunk([], FinishReason(end)))
        turn.end()
    return [json.loads(encode(event)) for event in builder.take()]


def in_chunks(tokens: list[int], size: int) -> list[list[int]]:
    """Tokens in chunks of one size."""
    return [tokens[at : at + size] for at in range(0, len(tokens), size)]


def with_joined_deltas(events: Events) -> Events:
    """The events with neighbouring deltas joined and without their numbers: what chunking must not change."""
    joined: Events = []
    for event in events:
        event = {key: value for key, value in event.items() if key != "sequence_number"}
        if joined and event["type"].endswith(".delta") and joined[-1]["type"] == event["type"]:
            joined[-1]["delta"] += event["delta"]
        else:
            joined.append(event)
    return joined
