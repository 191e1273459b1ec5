"""The scripted engine keeps the engine contract, and plays faults as they are written."""

from typing import Any

import pytest

from service.dialect.harmony.vocabulary import CALL, RETURN
from service.engine.base import FinishReason, GenerationRequest
from service.engine.scripted import ScriptedEngine
from service.errors import EngineFailed, StartupError
from tests.engine_contract import MAX_QUEUED_REQUESTS, SLOTS, EngineContract, chunks_of, tokens_of
from tests.scripts import TURNS, write_script


def generation(model: str) -> GenerationRequest:
    return GenerationRequest(
        request_id="resp_1", model=model, prompt_token_ids=[1], stop_token_ids=[RETURN, CALL]
    )


@pytest.fixture
def engine(tmp_path):
    return ScriptedEngine(write_script(tmp_path), slots=SLOTS, max_queued_requests=MAX_QUEUED_REQUESTS)


class TestContract(EngineContract):
    REQUEST = generation("hello")
    ENDLESS = generation("slow")


def one_turn(tmp_path, **turn: Any) -> ScriptedEngine:
    return ScriptedEngine(write_script(tmp_path, {"turn": turn}), slots=1, max_queued_requests=0)


@pytest.mark.parametrize("chunks", [1, 2, 7, 1000, [3, 1, 2]])
async def test_chunks_are_of_the_sizes_asked_for(tmp_path, chunks):
    played = await chunks_of(one_turn(tmp_path, tokens=list(range(10)), chunks=chunks), generation("turn"))
    sizes = [len(chunk.token_ids) for chunk in played]
    asked = [chunks] * 10 if isinstance(chunks, int) else [*chunks, *[chunks[-1]] * 10]
    assert tokens_of(played) == list(range(10))
    assert sizes[:-1] == asked[: len(sizes) - 1]
    assert sizes[-1] <= asked[len(sizes) - 1]


async def test_repeat_plays_the_content_again(tmp_path):
    played = await chunks_of(one_turn(tmp_path, tokens=[1, 2, 3], chunks=2, repeat=3), generation("turn"))
    assert tokens_of(played) == [1, 2, 3] * 3


@pytest.mark.parametrize("fail_after", [0, 1, 4, 5])
async def test_tokens_before_a_failure_are_played(tmp_path, fail_after):
    engine = one_turn(tmp_path, tokens=[1, 2, 3, 4, 5], chunks=2, fail_after=fail_after)
    played = []

    async def play() -> None:
        async with engine.generate(generation("turn")) as chunks:
            async for chunk in chunks:
                played.extend(chunk.token_ids)

    with pytest.raises(EngineFailed):
        await play()
    assert played == [1, 2, 3, 4, 5][:fail_after]


async def test_the_finish_reason_is_the_written_one(tmp_path):
    (played,) = await chunks_of(one_turn(tmp_path, tokens=[1], finish_reason="length"), generation("turn"))
    assert played.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("turns", "fault"),
    [
        ({}, "holds no turn"),
        ({"a": {}}, "harmony and tokens"),
        ({"a": {"tokens": [-1]}}, "a.tokens.0"),
        ({"a": {"tokens": [1], "chunks": 0}}, "a.chunks"),
        ({"a": {"tokens": [1], "chunks": []}}, "chunks"),
        ({"a": {"tokens": [1], "fail_after": 1, "hang_after": 1}}, "fail and hang"),
        ({"a": {"tokens": [1], "typo": 1}}, "typo"),
        ({"a": {"turns": []}}, "a.turns"),
    ],
)
def test_a_wrong_script_is_named(tmp_path, turns, fault):
    with pytest.raises(StartupError, match=fault):
        ScriptedEngine(write_script(tmp_path, turns), slots=1, max_queued_requests=0)


def test_the_tests_own_script_is_right(tmp_path):
    engine = ScriptedEngine(write_script(tmp_path), slots=1, max_queued_requests=0)
    assert [model.id for model in engine.models()] == list(TURNS)
