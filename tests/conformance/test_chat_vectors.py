"""The chat dialect's vectors, at every chunk size and byte by byte; and any text, however it is chunked.

`chat_vectors.json` is written like the vectors of Harmony, but for `text`: what the model writes, before it
ends its turn. The function on offer is get_weather, unless `tools` says otherwise.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.base import MAX_NAME_CHARACTERS, MessageText
from service.dialect.chat.dialect import ChatDialect
from service.dialect.chat.splitter import ChatSplitter
from service.dialect.harmony import vocabulary
from service.engine.base import TokenLogprob
from service.wire.openai_json import decode
from service.wire.stream_rules import check_stream
from tests.conformance.vectors import CHUNK_SIZES, Vector, in_short, request_of
from tests.property.turns import chunkings
from tests.streams import Events, in_chunks, play, with_joined_deltas

VECTORS: list[Vector] = json.loads((Path(__file__).parent / "chat_vectors.json").read_text())
DIALECT = ChatDialect()


def byte_tokens(text: str) -> list[int]:
    """A text as tokens of single bytes."""
    return [vocabulary.token_bytes().index(bytes([byte])) for byte in text.encode()]


def respond(chunks: list[list[int]], *, reason: str = "stop", tools: list[str], **fields: Any) -> Events:
    document = {"model": "m", **request_of({"tools": tools, **fields})}
    request = decode(CreateResponseRequest, json.dumps(document).encode())
    return play(DIALECT.splitter(request), chunks, end=reason, request=request)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector(vector):
    reason = vector.get("finish_reason", "stop")
    end = [vocabulary.RETURN] if reason == "stop" else []
    options = {key: vector[key] for key in ("parallel_tool_calls",) if key in vector}
    assert vector["why"]
    for tokens in (vocabulary.encode(vector["text"]) + end, byte_tokens(vector["text"]) + end):
        reference = None
        for size in CHUNK_SIZES:
            chunks = in_chunks(tokens, size)
            events = respond(chunks, reason=reason, tools=vector.get("tools", ["get_weather"]), **options)
            assert check_stream(events) == []
            response = events[-1]["response"]
            assert in_short(response["output"]) == vector["output"]
            assert response["status"] == vector.get("status", "completed")
            reference = reference or with_joined_deltas(events)
            assert with_joined_deltas(events) == reference


PIECES = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    '{"name": "get_weather", ',
    '"arguments": ',
    "{}",
]
PIECES += [
    "}",
    "{",
    '"',
    "\\",
    ":",
    ",",
    "[",
    "]",
    " ",
    "\n",
    ";",
    "<",
    "</",
    "null",
    '"\\ud83d',
    "\\udf89",
    "word",
    "é",
    "🎉",
    "<|end|>",
]
soups = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join)


@given(st.data(), soups, st.sampled_from(["stop", "length"]))
def test_any_text_in_any_chunks_and_any_tokens_gives_the_same(data, text, reason):
    tools = data.draw(st.sampled_from([[], ["get_weather"]]))
    by_byte = byte_tokens(text)
    reference = respond([[token] for token in by_byte], reason=reason, tools=tools)
    assert check_stream(reference) == []
    chunked = respond(data.draw(chunkings(by_byte)), reason=reason, tools=tools)
    assert with_joined_deltas(chunked) == with_joined_deltas(reference)
    whole = respond([vocabulary.encode(text)], reason=reason, tools=tools)
    for events in (reference, whole):
        events[-1]["response"]["usage"] = None
    assert with_joined_deltas(whole) == with_joined_deltas(reference)


@given(soups.filter(lambda text: "<" not in text and "{" not in text and text.strip()))
def test_text_without_markup_is_the_answer(text):
    events = respond([vocabulary.encode(text)], tools=["get_weather"])
    assert in_short(events[-1]["response"]["output"]) == [{"answer": text.lstrip()}]


def test_the_name_of_a_call_fits_a_prompt():
    text = f'<tool_call>{{"name": "{"x" * MAX_NAME_CHARACTERS}y", "arguments": {{}}}}</tool_call>'
    (call,) = in_short(respond([vocabulary.encode(text)], tools=[])[-1]["response"]["output"])
    assert call == {"call": "x" * MAX_NAME_CHARACTERS, "arguments": "{}"}


def test_text_goes_on_at_once():
    """Nothing waits that cannot be markup."""
    splitter = ChatSplitter()
    for word in ("Hello", ",", " world", ".", " a", " <", " b"):
        (text,) = [s for s in splitter.feed(vocabulary.encode(word)) if isinstance(s, MessageText)] or [None]
        assert (text is None) == (word == " <")


def test_nothing_counts_behind_the_end_of_the_turn():
    hi, end = vocabulary.encode("Hi."), vocabulary.RETURN
    assert (
        respond([[*hi, end, *hi, end]], tools=[])[-1]["response"]["output"][0]["content"][0]["text"] == "Hi."
    )
    splitter = ChatSplitter()
    splitter.feed([*hi, end, *hi])
    assert splitter.tokens == len(hi) + 1


def test_log_probabilities_of_answers():
    tokens = [*vocabulary.encode("<think>Hm.</think> Hi 🎉 a < b"), vocabulary.RETURN]
    splitter = ChatSplitter()
    segments = splitter.feed(tokens, [TokenLogprob(token, -1.0) for token in tokens])
    entries = [
        entry for segment in segments if isinstance(segment, MessageText) for entry in segment.logprobs
    ]
    assert b"".join(bytes(entry.bytes) for entry in entries).decode().lstrip() == "Hi 🎉 a < b"


def test_long_texts_take_linear_time():
    """A hundred thousand tokens of what could become markup: seconds if it were quadratic."""
    for text in (
        " " * 100_000,
        "<" * 100_000,
        '<tool_call>{"name": "f", "arguments": {"a": "' + "x" * 100_000,
        "{" * 100_000,
        f'<tool_call>{{"name": {"[" * 100_000}{"]" * 100_000}',
        "{" + '"type":1,' * 10_000,
    ):
        splitter = ChatSplitter(frozenset({"f"}))
        for token in byte_tokens(text):
            splitter.feed([token])
        splitter.finish(cut=False)
