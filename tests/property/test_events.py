"""Any chunking of the same tokens gives the same events, but for how deltas are grouped; all are right."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony.splitter import HarmonySplitter
from service.engine.base import FinishReason, ModelInfo, TokenChunk
from service.run.builder import ResponseBuilder
from service.run.opening import opened_response
from service.run.turn import Turn
from service.wire.openai_json import encode
from service.wire.stream_rules import check_stream
from tests.property.turns import chunkings, soups, turn_tokens, written_turns

MODEL = ModelInfo(id="m", context_window_tokens=1000, max_output_tokens=1000)


def stream(chunks: list[list[int]], *, end: str) -> list[dict[str, Any]]:
    """The events of a turn that came in `chunks`, as JSON; `end` is stop, length or fault."""
    request = CreateResponseRequest(model="m")
    builder = ResponseBuilder(opened_response(request, MODEL, response_id="resp_abc", created_at=1))
    turn = Turn(builder, HarmonySplitter(), 0, clock=lambda: 2.0)
    builder.start()
    for chunk in chunks:
        turn.feed(TokenChunk(chunk))
    if end == "fault":
        turn.fail("it broke")
    else:
        turn.feed(TokenChunk([], FinishReason(end)))
        turn.end()
    return [json.loads(encode(event)) for event in builder.take()]


def with_joined_deltas(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events with neighbouring deltas joined and without their numbers: what chunking must not change."""
    joined: list[dict[str, Any]] = []
    for event in events:
        event = {key: value for key, value in event.items() if key != "sequence_number"}
        if joined and event["type"].endswith(".delta") and joined[-1]["type"] == event["type"]:
            joined[-1]["delta"] += event["delta"]
        else:
            joined.append(event)
    return joined


ends = st.sampled_from(["stop", "length", "fault"])


@given(st.data(), ends)
def test_well_formed_turns(data, end):
    tokens = turn_tokens(data.draw(written_turns()))
    tokens = tokens[: data.draw(st.integers(0, len(tokens)))] if end != "stop" else tokens
    one_by_one = stream([[token] for token in tokens], end=end)
    assert check_stream(one_by_one) == []
    chunked = stream(data.draw(chunkings(tokens)), end=end)
    assert check_stream(chunked) == []
    assert with_joined_deltas(chunked) == with_joined_deltas(one_by_one)


@given(st.data(), ends)
def test_token_soup(data, end):
    soup = data.draw(soups)
    one_by_one = stream([[token] for token in soup], end=end)
    assert check_stream(one_by_one) == []
    chunked = stream(data.draw(chunkings(soup)), end=end)
    assert check_stream(chunked) == []
    assert with_joined_deltas(chunked) == with_joined_deltas(one_by_one)
