"""The stream checker finds what is wrong: a right stream, broken in one place at a time."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from service.check_stream import check_lines
from service.dialect.harmony.splitter import HarmonySplitter
from service.wire.stream_rules import EVENT_TYPES, check_stream
from tests.scripts import CALLS, REASONING_AND_TEXT, encoded
from tests.streams import Events, in_chunks, play


def stream(tokens: list[int], *, end: str) -> Events:
    """Token by token."""
    return play(HarmonySplitter(), in_chunks(tokens, 1), end=end)


STREAMS = {
    "text": stream(encoded(REASONING_AND_TEXT), end="stop"),
    "calls": stream(encoded(CALLS), end="stop"),
    "cut": stream(encoded(REASONING_AND_TEXT)[:12], end="length"),
    "failed": stream(encoded(REASONING_AND_TEXT)[:12], end="fault"),
}


def at(events: Events, type_: str, nth: int = 0) -> int:
    return [i for i, event in enumerate(events) if event["type"] == type_][nth]


def renumbered(events: Events) -> None:
    for number, event in enumerate(events):
        event["sequence_number"] = number


def drop(type_: str, nth: int = 0) -> Callable[[Events], None]:
    def broken(events: Events) -> None:
        del events[at(events, type_, nth)]
        renumbered(events)

    return broken


def double(type_: str) -> Callable[[Events], None]:
    def broken(events: Events) -> None:
        i = at(events, type_)
        events.insert(i, copy.deepcopy(events[i]))
        renumbered(events)

    return broken


def put(type_: str, *path: str | int, value: Any) -> Callable[[Events], None]:
    def broken(events: Events) -> None:
        *before, last = path
        place: Any = events[at(events, type_)]
        for key in before:
            place = place[key]
        place[last] = value

    return broken


def swap(events: Events) -> None:
    i = at(events, "response.output_text.delta")
    events[i]["delta"], events[i + 1]["delta"] = events[i + 1]["delta"], events[i]["delta"]


def queue_late(events: Events) -> None:
    i = at(events, "response.in_progress")
    late = copy.deepcopy(events[i]) | {"type": "response.queued"}
    late["response"]["status"] = "queued"
    events.insert(i + 1, late)
    renumbered(events)


BREAKAGES = [
    ("text", drop("response.created"), "response.created is the first event"),
    ("text", double("response.created"), "response.created is the first event"),
    ("text", drop("response.in_progress"), "comes before response.in_progress"),
    ("text", double("response.in_progress"), "response.in_progress comes after response.in_progress"),
    ("text", put("response.in_progress", "response", "status", value="queued"), "has status 'queued'"),
    ("text", queue_late, "response.queued comes after response.in_progress"),
    ("text", drop("response.completed"), "without a terminal event"),
    ("text", double("response.completed"), "comes after response.completed"),
    ("text", put("response.in_progress", "sequence_number", value=7), "sequence_number is 7, not 1"),
    ("text", put("response.in_progress", "sequence_number", value=None), "sequence_number is None"),
    (
        "text",
        put("response.in_progress", "type", value="response.progress"),
        "not one of OpenAI's event types",
    ),
    ("text", put("response.in_progress", "type", value=None), "type is missing"),
    ("text", put("response.in_progress", "response", "status", value="completed"), "has status 'completed'"),
    ("text", drop("response.output_item.added"), "while no item is open"),
    ("text", drop("response.output_item.done"), "is still open"),
    ("text", double("response.output_item.added"), "is still open"),
    ("text", put("response.output_item.added", "output_index", value=1), "output_index is 1, not 0"),
    ("text", put("response.output_item.added", "item", "id", value="other"), "not 'other'"),
    ("text", put("response.output_item.added", "item", "id", value=""), "missing or used before"),
    ("text", put("response.output_item.added", "item", "status", value="completed"), "item.status"),
    ("text", put("response.output_item.done", "item", "status", value="in_progress"), "item.status"),
    ("text", put("response.output_item.done", "item", "type", value="message"), "item.type"),
    ("text", put("response.output_item.done", "item", "content", value=[]), "item.content"),
    ("text", drop("response.content_part.added"), "nothing that it fills is open"),
    ("text", drop("response.content_part.done"), "a part is still open"),
    ("text", double("response.content_part.added"), "the part before is still open"),
    ("text", put("response.content_part.added", "content_index", value=1), "content_index is 1"),
    ("text", put("response.content_part.done", "part", "text", value="x"), "part.text"),
    ("text", drop("response.output_text.delta"), "text is"),
    ("text", swap, "text is"),
    ("text", put("response.output_text.delta", "delta", value=""), "not a text"),
    ("text", put("response.output_text.delta", "item_id", value="msg_9"), "the item's id"),
    ("text", put("response.output_text.delta", "logprobs", value=[{"token": "a"}]), "logprobs"),
    (
        "text",
        put("response.reasoning_text.delta", "type", value="response.output_text.delta"),
        "what it fills",
    ),
    ("text", drop("response.output_text.done"), "part.text"),
    ("text", put("response.completed", "response", "output", value=[]), "the terminal output"),
    ("text", put("response.completed", "response", "status", value="incomplete"), "has status 'incomplete'"),
    ("text", put("response.completed", "response", "error", value={"code": "x"}), "error is set"),
    ("text", put("response.completed", "response", "usage", value=None), "usage is missing"),
    ("text", put("response.completed", "response", "usage", "total_tokens", value=1), "total_tokens"),
    ("calls", drop("response.function_call_arguments.delta"), "arguments is"),
    ("calls", drop("response.function_call_arguments.done"), "item.arguments"),
    ("cut", put("response.incomplete", "type", value="response.completed"), "has status 'incomplete'"),
    ("cut", put("response.incomplete", "response", "incomplete_details", value=None), "incomplete_details"),
    ("failed", put("response.failed", "response", "error", value=None), "error is set"),
    ("text", put("response.output_item.added", "item", value=None), "malformed"),
    ("text", put("response.completed", "response", "output", value=None), "the terminal output"),
]


@pytest.mark.parametrize("name", STREAMS)
def test_a_right_stream_has_no_problems(name):
    assert check_stream(STREAMS[name]) == []


@pytest.mark.parametrize(("name", "break_it", "problem"), BREAKAGES)
def test_what_is_wrong_is_found(name, break_it, problem):
    events = copy.deepcopy(STREAMS[name])
    break_it(events)
    assert problem in "\n".join(check_stream(events))


def test_it_knows_all_types():
    assert len(EVENT_TYPES) == 59


def lines(events: Events) -> list[str]:
    return [line for e in events for line in (f"event: {e['type']}", f"data: {json.dumps(e)}", "")]


def test_framing():
    right = lines(STREAMS["text"])
    assert check_lines([": comment", "", *right]) == ([], len(STREAMS["text"]))
    assert check_lines(right[:-1])[0] == []
    assert "[DONE]" in check_lines([*right, "data: [DONE]", ""])[0][0]
    assert "event line" in check_lines(["event: x", *right[1:]])[0][0]
    assert "no JSON object" in check_lines(["data: {", "", *right])[0][0]
    assert (
        "spread over 2 lines"
        in check_lines([right[0], *right[1].replace(",", ",\ndata: ", 1).split("\n"), *right[2:]])[0][0]
    )
