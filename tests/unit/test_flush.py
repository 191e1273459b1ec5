"""When tokens go on: the rules at the top of `run/flush.py`, one by one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from service.engine.base import FinishReason, TokenChunk
from service.errors import EngineFailed
from service.run.flush import FlushPolicy, flushing
from service.run.interval import Interval

BOUNDARY = 200008
NEVER_S = 3600.0


def policy(tokens: int, *, interval_s: float = NEVER_S, silence_s: float = NEVER_S, waiting: int = 8192):
    return FlushPolicy(Interval(tokens), interval_s, frozenset({BOUNDARY}), silence_s, waiting)


async def play(*steps: TokenChunk | asyncio.Event | Exception) -> AsyncIterator[TokenChunk]:
    """An engine's output: chunks, events to wait for, and faults."""
    for step in steps:
        if isinstance(step, asyncio.Event):
            await step.wait()
        elif isinstance(step, Exception):
            raise step
        else:
            yield step


def chunks(*token_ids: int, end: FinishReason | None = FinishReason.STOP) -> list[TokenChunk]:
    return [*(TokenChunk([i]) for i in token_ids), TokenChunk([], end)]


async def flushed(source: AsyncIterator[TokenChunk], flush_policy: FlushPolicy) -> list[list[int]]:
    async with flushing(source, flush_policy) as flushes:
        return [flush.token_ids async for flush in flushes]


async def test_the_first_token_goes_at_once_then_every_n_and_the_tail_at_the_end():
    assert await flushed(play(*chunks(*range(8))), policy(3)) == [[0], [1, 2, 3], [4, 5, 6], [7]]


async def test_a_boundary_waits_for_nothing():
    assert await flushed(play(*chunks(0, 1, BOUNDARY, 3, 4)), policy(100)) == [[0], [1, BOUNDARY], [3, 4]]


async def test_a_large_chunk_goes_whole():
    source = play(TokenChunk(range(10)), TokenChunk(range(3), FinishReason.LENGTH))
    assert await flushed(source, policy(4)) == [list(range(10)), [0, 1, 2]]


async def test_waiting_tokens_go_when_their_time_is_up():
    more = asyncio.Event()
    async with flushing(play(*chunks(0, 1, 2, end=None)[:3], more), policy(100, interval_s=0.01)) as flushes:
        assert (await anext(flushes)).token_ids == [0]
        # Nothing more comes from the engine: only the clock can release these.
        assert (await anext(flushes)).token_ids == [1, 2]


async def test_the_last_flush_tells_why_and_how_much_was_cached():
    source = play(TokenChunk([1], cached_tokens=7), TokenChunk([], FinishReason.LENGTH))
    async with flushing(source, policy(1)) as flushes:
        seen = [flush async for flush in flushes]
    assert seen == [TokenChunk([1], None, 7, []), TokenChunk([], FinishReason.LENGTH, None, [])]


async def test_tokens_before_a_fault_come_before_the_fault():
    source = play(TokenChunk([0]), TokenChunk([1]), TokenChunk([2]), EngineFailed("broke"))
    seen = []
    async with flushing(source, policy(100)) as flushes:
        seen += (await anext(flushes)).token_ids
        seen += (await anext(flushes)).token_ids
        with pytest.raises(EngineFailed, match="broke"):
            await anext(flushes)
    assert seen == [0, 1, 2]


async def test_an_output_without_a_finish_reason_just_ends():
    assert await flushed(play(TokenChunk([0]), TokenChunk([1])), policy(100)) == [[0], [1]]


async def test_silence_gives_empty_flushes_until_tokens_come():
    more = asyncio.Event()
    source = play(more, TokenChunk([5], FinishReason.STOP))
    async with flushing(source, policy(1, silence_s=0.01)) as flushes:
        assert await anext(flushes) == TokenChunk([], None, None, [])
        assert await anext(flushes) == TokenChunk([], None, None, [])
        more.set()
        seen = [flush async for flush in flushes if flush.token_ids]
    assert seen == [TokenChunk([5], FinishReason.STOP, None, [])]


async def test_a_slow_reader_gets_fewer_and_larger_flushes_and_the_engine_is_held_back():
    read = 0

    async def source() -> AsyncIterator[TokenChunk]:
        nonlocal read
        for read in range(1, 101):
            yield TokenChunk([read])
        yield TokenChunk([], FinishReason.STOP)

    async with flushing(source(), policy(2, waiting=20)) as flushes:
        first = await anext(flushes)
        for _ in range(200):
            await asyncio.sleep(0)
        assert read == 21
        second = await anext(flushes)
        rest = [flush async for flush in flushes]
    assert first.token_ids == [1]
    assert second.token_ids == list(range(2, 22))
    assert [t for flush in rest for t in flush.token_ids] == list(range(22, 101))


async def test_leaving_early_stops_the_reading():
    waiting, closed = asyncio.Event(), asyncio.Event()

    async def source() -> AsyncIterator[TokenChunk]:
        try:
            yield TokenChunk([1])
            waiting.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with flushing(source(), policy(1)) as flushes:
        await anext(flushes)
        await waiting.wait()
    assert closed.is_set()
    assert len(asyncio.all_tasks()) == 1


async def test_breaking_off_hands_over_what_waits_then_raises_and_stops_the_reading():
    hanging, closed = asyncio.Event(), asyncio.Event()

    async def source() -> AsyncIterator[TokenChunk]:
        try:
            for token in range(3):
                yield TokenChunk([token])
            hanging.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with flushing(source(), policy(100)) as flushes:
        first = await anext(flushes)
        await hanging.wait()
        flushes.break_off(EngineFailed("stopped"))
        second = await anext(flushes)
        with pytest.raises(EngineFailed, match="stopped"):
            await anext(flushes)
    assert closed.is_set()
    assert (first.token_ids, second.token_ids) == ([0], [1, 2])


async def test_breaking_off_before_anything_has_been_read():
    async with flushing(play(*chunks(0)), policy(1)) as flushes:
        flushes.break_off(EngineFailed("stopped"))
        with pytest.raises(EngineFailed, match="stopped"):
            await anext(flushes)


async def test_what_has_been_read_to_its_end_is_not_broken_off():
    async with flushing(play(*chunks(0, 1)), policy(1)) as flushes:
        assert (await anext(flushes)).token_ids == [0]
        # Until the engine has ended.
        for _ in range(10):
            await asyncio.sleep(0)
        flushes.break_off(EngineFailed("stopped"))
        seen = [flush async for flush in flushes]
    assert [t for flush in seen for t in flush.token_ids] == [1]
    assert seen[-1].finish_reason is FinishReason.STOP
