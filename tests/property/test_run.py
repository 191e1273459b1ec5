"""A whole run on the scripted engine: any chunking gives the same response, and every fault ends well."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony import vocabulary
from service.dialect.harmony.dialect import HarmonyDialect
from service.engine.base import GenerationRequest, TokenChunk
from service.engine.scripted import ScriptedEngine
from service.errors import EngineFailed, Overloaded, Unavailable
from service.items import as_input_item
from service.run.drain import Drain
from service.run.interval import Interval
from service.run.preparation import Preparation
from service.run.run import ResponseRunner, Run, StreamSettings
from service.run.validation import RequestLimits
from service.wire.openai_json import decode, encode
from service.wire.stream_rules import check_stream
from tests.property.turns import soups, turn_tokens, written_turns
from tests.streams import with_joined_deltas

DIALECT = HarmonyDialect()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scripts")


def engine_of(folder: Path, turn: dict[str, Any], *, slots: int = 1, queue: int = 0) -> ScriptedEngine:
    script = folder / "script.json"
    script.write_text(json.dumps({"m": turn}))
    return ScriptedEngine(script, slots=slots, max_queued_requests=queue)


def runner_of(
    engine: ScriptedEngine, *, interval: int = 4, drain: Drain | None = None, silence_s: float = 60
) -> ResponseRunner:
    limits = RequestLimits(1024, 10_000)
    stream = StreamSettings(Interval(interval), 1000, 8192, silence_s=silence_s, limits=limits)
    return ResponseRunner(
        engine, DIALECT, stream, drain or Drain(), Preparation(), clock=lambda: 1_700_000_000.5
    )


def request(**fields: Any) -> CreateResponseRequest:
    return decode(CreateResponseRequest, json.dumps({"model": "m", "input": "Hi", **fields}).encode())


def run_of(**fields: Any) -> Run:
    return Run(request(**fields), "resp_abc")


async def events_of(runner: ResponseRunner, **fields: Any) -> list[dict[str, Any]]:
    return [json.loads(encode(event)) async for batch in runner.run(run_of(**fields)) for event in batch]


CUSTOM_TOOLS = [
    {"type": "custom", "name": "f"},
    {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "function", "name": "g"}]},
]

turns = st.one_of(written_turns().map(turn_tokens), soups)
chunk_sizes = st.lists(st.integers(1, 40), min_size=1, max_size=20)


@given(st.data(), turns, st.integers(1, 70), st.sampled_from(["stop", "length"]))
def test_any_chunking_and_any_interval_give_the_same_response(folder, data, tokens, interval, reason):
    tools = data.draw(st.sampled_from([[], CUSTOM_TOOLS]))

    async def play(chunks: Any, interval: int) -> list[dict[str, Any]]:
        engine = engine_of(folder, {"tokens": tokens, "chunks": chunks, "finish_reason": reason})
        events = await events_of(runner_of(engine, interval=interval), tools=tools)
        assert engine.running == 0
        return events

    reference = asyncio.run(play(1, 1))
    assert check_stream(reference) == []
    other = asyncio.run(play(data.draw(chunk_sizes), interval))
    assert check_stream(other) == []
    assert with_joined_deltas(other) == with_joined_deltas(reference)


@given(st.data(), turns)
def test_tokens_give_an_item_or_an_error(folder, data, tokens):
    reason = data.draw(st.sampled_from(["stop", "length"]))
    engine = engine_of(folder, {"tokens": tokens, "chunks": 7, "finish_reason": reason})
    response = asyncio.run(events_of(runner_of(engine)))[-1]["response"]
    if tokens or reason == "stop":
        assert response["output"] or response["error"]


@given(turns, st.sampled_from(["stop", "length"]), st.sampled_from([[], CUSTOM_TOOLS]))
def test_the_output_is_accepted_as_input(folder, tokens, reason, tools):
    """Whatever the model wrote, whole or cut, whether anybody offers what it called or not."""
    engine = engine_of(folder, {"tokens": tokens, "chunks": 7, "finish_reason": reason})
    response = asyncio.run(events_of(runner_of(engine), tools=tools))[-1]["response"]
    calls = [item for item in response["output"] if item["type"] in ("function_call", "custom_tool_call")]
    answers = [
        {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": "done"} for call in calls
    ]
    history = [{"role": "user", "content": "Hi"}, *response["output"], *answers]
    prompt = DIALECT.render(request(input=history, tools=tools))
    # The same, as a response that is continued.
    items = [as_input_item(item) for item in decode(Response, json.dumps(response).encode()).output]
    assert (
        prompt
        == DIALECT.render(
            request(input=answers or [{"role": "user", "content": "Hi"}], tools=tools),
            [*request(input=[{"role": "user", "content": "Hi"}]).input.items.items, *items],
        )
        or not answers
    )


@given(st.data(), written_turns(), st.integers(0, 3))
def test_log_probabilities_come_one_a_token_whatever_the_chunking(folder, data, written, top):
    """Each token of a text has its entry; thoughts and calls have none."""
    turn = {"tokens": turn_tokens(written), "chunks": data.draw(chunk_sizes), "logprobs": True}
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": top}
    interval = data.draw(st.integers(1, 40))
    events = asyncio.run(events_of(runner_of(engine_of(folder, turn), interval=interval), **fields))
    assert check_stream(events) == []
    messages = [item for item in events[-1]["response"]["output"] if item["type"] == "message"]
    texts = [message.text for message in written if not message.recipient and message.channel != "analysis"]
    for message, text in zip(messages, texts, strict=True):
        entries = message["content"][0]["logprobs"]
        expected = vocabulary.encode(text)
        assert b"".join(bytes(entry["bytes"]) for entry in entries) == text.encode()
        assert [entry["logprob"] for entry in entries] == [-(1 + token % 100) / 100 for token in expected]
        assert {len(entry["top_logprobs"]) for entry in entries} <= {top}


@given(st.data(), turns, st.sampled_from(["fail_after", "hang_after"]))
def test_a_fault_anywhere_ends_the_stream_and_frees_the_slot(folder, data, tokens, fault):
    at = data.draw(st.integers(0, len(tokens)))
    turn = {"tokens": tokens, "chunks": data.draw(chunk_sizes), fault: at}

    async def play() -> tuple[list[dict[str, Any]], bool]:
        engine = engine_of(folder, turn)
        events = []
        hung = False
        run = runner_of(engine).run(run_of())
        try:
            while True:
                async with asyncio.timeout(0.02 if fault == "hang_after" else 10):
                    events += [json.loads(encode(event)) for event in await anext(run)]
        except StopAsyncIteration:
            pass
        except TimeoutError:
            hung = True
        await run.aclose()
        assert engine.running == 0
        return events, hung

    events, hung = asyncio.run(play())
    if not hung:
        assert check_stream(events) == []
    else:
        # The client has gone away: nothing after what it saw, and nothing terminal.
        assert check_stream(events) == ["the stream ends without a terminal event"]


class BrokenEngine(ScriptedEngine):
    """Breaks the engine contract: after some chunks it ends without a finish reason, or raises what it likes."""

    def break_at(self, chunk: int, fault: Exception | None) -> None:
        self._chunk, self._fault = chunk, fault

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncIterator[AsyncIterator[TokenChunk]]:
        async with super().generate(request) as chunks:
            yield self._broken(chunks)

    async def _broken(self, chunks: AsyncIterator[TokenChunk]) -> AsyncIterator[TokenChunk]:
        at = 0
        async for chunk in chunks:
            if at == self._chunk:
                break
            at += 1
            yield chunk
        if self._fault:
            raise self._fault


@given(st.data(), turns, st.sampled_from([None, EngineFailed("It broke."), RuntimeError("A secret.")]))
def test_an_engine_that_breaks_its_contract_fails_the_response(folder, data, tokens, fault):
    script = folder / "script.json"
    chunks = data.draw(chunk_sizes)
    script.write_text(json.dumps({"m": {"tokens": tokens, "chunks": chunks}}))
    engine = BrokenEngine(script, slots=1, max_queued_requests=0)
    engine.break_at(data.draw(st.integers(0, len(tokens))), fault)
    events = asyncio.run(events_of(runner_of(engine)))
    assert check_stream(events) == []
    assert events[-1]["type"] in ("response.failed", "response.completed")
    assert "secret" not in str(events[-1]["response"]["error"])
    assert engine.running == 0


@given(turns, st.integers(1, 80))
def test_a_limit_anywhere(folder, tokens, limit):
    engine = engine_of(folder, {"tokens": tokens})
    events = asyncio.run(events_of(runner_of(engine), max_output_tokens=limit))
    assert check_stream(events) == []
    assert events[-1]["response"]["usage"]["output_tokens"] <= min(limit, len(tokens))


async def test_an_engine_without_a_free_slot_refuses_before_any_event(folder):
    runner = runner_of(engine_of(folder, {"tokens": [1], "hang_after": 0}))
    busy = runner.run(run_of())
    await anext(busy)
    with pytest.raises(Overloaded):
        await anext(runner.run(run_of()))
    await busy.aclose()
    again = runner.run(run_of())
    assert (await anext(again))[0].HasField("created")
    await again.aclose()


async def test_a_silence_is_no_beginning(folder):
    runner = runner_of(engine_of(folder, {"tokens": [1], "hang_after": 0}), silence_s=0.01)
    run = runner.run(run_of(background=True))
    assert [event.type for event in await anext(run)] == ["response.created", "response.queued"]
    for _ in range(3):
        assert await anext(run) == []
    await run.aclose()


async def test_those_who_wait_are_served_in_turn_and_may_leave(folder):
    engine = engine_of(folder, {"tokens": [200005, 17196, 200008, 1, 200002]}, queue=3)
    runner = runner_of(engine)
    async with asyncio.timeout(10):
        first = runner.run(run_of())
        await anext(first)
        waiting = [runner.run(run_of()) for _ in range(3)]
        for run in waiting:
            await anext(run)
        await waiting[0].aclose()
        await first.aclose()
        for run in waiting[1:]:
            assert [event async for batch in run for event in batch][-1].HasField("completed")
    assert engine.running == 0


async def test_a_stopping_server_refuses_new_responses_and_waits_for_those_that_run(folder):
    drain = Drain()
    runner = runner_of(engine_of(folder, {"tokens": [1, 2, 3]}), drain=drain)
    running = runner.run(run_of())
    await anext(running)
    stopping = asyncio.create_task(drain.stop(10))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        drain.check_open()
    assert not stopping.done()
    async for _ in running:
        pass
    await asyncio.wait_for(stopping, 1)


async def test_the_grace_period_ends(folder):
    drain = Drain()
    engine = engine_of(folder, {"tokens": [1, 2, 3], "hang_after": 2})
    runner = runner_of(engine, drain=drain, interval=1)
    running, late = runner.run(run_of()), runner.run(run_of())
    begun = await anext(running)
    stopping = asyncio.create_task(drain.stop(0.01))
    rest = [event async for batch in running for event in batch]
    await asyncio.wait_for(stopping, 10)
    # One that has been prepared until now ends as soon as it has begun.
    for events in ([*begun, *rest], [event async for batch in late for event in batch]):
        assert check_stream([json.loads(encode(event)) for event in events]) == []
        assert "stopped" in events[-1].failed.response.error.message
    assert rest[-1].failed.response.usage.output_tokens == 2
    assert engine.running == 0


async def test_who_does_not_read_is_not_waited_for(folder, monkeypatch):
    monkeypatch.setattr("service.run.drain._ENDING_S", 0.01)
    drain = Drain()
    running = runner_of(engine_of(folder, {"tokens": [1], "hang_after": 0}), drain=drain).run(run_of())
    await anext(running)
    await asyncio.wait_for(drain.stop(0.01), 10)
    await running.aclose()
