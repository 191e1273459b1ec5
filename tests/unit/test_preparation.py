"""What happens before an engine admits a request is bounded, and in the right order."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony.dialect import HarmonyDialect
from service.engine.llama_runtime import LlamaRuntime
from service.engine.scripted import ScriptedEngine
from service.errors import InvalidRequest, NotFound, Overloaded, Unavailable
from service.long_work import LONG_BYTES
from service.rpc.incoming import read_json
from service.run import run as run_module
from service.run.drain import Drain
from service.run.interval import Interval
from service.run.preparation import Preparation
from service.run.run import ResponseRunner, Run, StreamSettings
from service.run.validation import RequestLimits
from service.wire.openai_json import decode

EXPLODING = {
    "$defs": {
        "a0": {"type": "object"},
        **{f"a{i + 1}": {"allOf": [{"$ref": f"#/$defs/a{i}"}] * 2} for i in range(40)},
    },
    "$ref": "#/$defs/a40",
}


@given(st.lists(st.sampled_from(["enter", "leave", "cancel"]), max_size=40))
def test_places_are_never_more_than_there_are(steps):
    async def play() -> None:
        preparation = Preparation(max_at_once=2, max_waiting=3)
        inside: list[asyncio.Event] = []
        tasks: list[asyncio.Task[None]] = []
        refused = 0

        async def prepare() -> None:
            nonlocal refused
            try:
                async with preparation:
                    inside.append(leave := asyncio.Event())
                    try:
                        assert len(inside) <= 2
                        await leave.wait()
                    finally:
                        inside.remove(leave)
            except Overloaded:
                refused += 1

        for step in steps:
            live = [task for task in tasks if not task.done()]
            before = refused
            match step:
                case "enter":
                    tasks.append(asyncio.create_task(prepare()))
                    await asyncio.sleep(0)
                    assert (refused > before) == (len(live) >= 5)
                case "leave" if inside:
                    inside[0].set()
                case "cancel" if live:
                    live[-1].cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            # Nobody waits while there is a place.
            assert len(inside) == min(2, sum(not task.done() for task in tasks))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with preparation, preparation:
            pass

    asyncio.run(play())


def runner_of(folder: Path, preparation: Preparation) -> ResponseRunner:
    script = folder / "script.json"
    script.write_text(json.dumps({"m": {"harmony": "<|channel|>final<|message|>Hi.<|return|>"}}))
    stream = StreamSettings(Interval(4), 1000, 8192, silence_s=60, limits=RequestLimits(1024, 10_000))
    engine = ScriptedEngine(script, slots=1, max_queued_requests=0)
    return ResponseRunner(engine, HarmonyDialect(), stream, Drain(), preparation, clock=lambda: 1.0)


def run_of(**fields: Any) -> Run:
    document = {"model": "m", "input": "Hi", **fields}
    return Run(decode(CreateResponseRequest, json.dumps(document).encode()), "resp_1")


async def first(runner: ResponseRunner, run: Run) -> object:
    events = runner.run(run)
    try:
        return await anext(events)
    finally:
        await events.aclose()


async def test_schemas_are_compiled_last(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(run_module, "promises", lambda *_: compiled.append(1))
    runner = runner_of(tmp_path, Preparation())
    text = {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": EXPLODING}}
    for wrong, error in (
        ({"model": "nobody"}, NotFound),
        ({"temperature": 9}, InvalidRequest),
        ({"tool_choice": "required"}, InvalidRequest),
    ):
        with pytest.raises(error):
            await first(runner, run_of(text=text, **wrong))
    assert compiled == []


async def test_a_schema_that_explodes_is_refused_by_name(tmp_path):
    runner = runner_of(tmp_path, Preparation())
    text = {"format": {"type": "json_schema", "name": "x", "strict": True, "schema": EXPLODING}}
    strict = {"type": "function", "name": "f", "strict": True, "parameters": EXPLODING}
    for fields, param in (
        ({"text": text}, "text.format.schema"),
        ({"tools": [strict]}, "tools[0].parameters"),
    ):
        with pytest.raises(InvalidRequest, match=r"\$defs\.a\d+ cannot be used") as caught:
            await first(runner, run_of(**fields))
        assert caught.value.param == param


async def test_prompts_are_rendered_in_places(tmp_path):
    preparation = Preparation(max_at_once=1, max_waiting=0)
    runner = runner_of(tmp_path, preparation)
    async with preparation:
        with pytest.raises(Overloaded):
            await first(runner, run_of())
        with pytest.raises(Overloaded):
            await runner.count_tokens(run_of())
    # The place is free again while the response runs.
    events = runner.run(run_of())
    await anext(events)
    assert await runner.count_tokens(run_of()) > 0
    await events.aclose()


@pytest.mark.parametrize(("size_bytes", "threads"), [(LONG_BYTES - 1, 0), (LONG_BYTES, 1)])
async def test_large_bodies_are_read_in_a_thread(size_bytes, threads, monkeypatch):
    used = []

    async def to_thread(work: Any, *args: Any) -> Any:
        used.append(work)
        return work(*args)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    body = b'{"model":"m"}'.ljust(size_bytes)
    assert (await read_json(CreateResponseRequest, body)).model == "m"
    assert len(used) == threads


@pytest.mark.parametrize(
    "fault",
    [httpx.ReadTimeout("x"), httpx.PoolTimeout("x"), httpx.ConnectError("x"), httpx.ReadError("x"), 500],
)
async def test_a_runtime_that_does_not_count_is_unavailable(fault):
    def answer(request: httpx.Request) -> httpx.Response:
        if isinstance(fault, int):
            return httpx.Response(fault)
        raise fault

    runtime = LlamaRuntime.__new__(LlamaRuntime)
    runtime._http = httpx.AsyncClient(base_url="http://x", transport=httpx.MockTransport(answer))
    with pytest.raises(Unavailable, match="Try again"):
        await runtime.count_tokens("x")
