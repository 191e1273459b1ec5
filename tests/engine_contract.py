"""What every engine must do (`service/engine/base.py`), as tests: subclass it, and give it an engine.

The engine has 2 slots and room for 1 waiting request. `REQUEST` is answered with some tens of tokens or more,
`ENDLESS` for as long as one listens, or for long.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import ClassVar

import pytest

from service.engine.base import Engine, FinishReason, GenerationRequest, TokenChunk, find_model
from service.errors import NotFound, Overloaded

SLOTS = 2
MAX_QUEUED_REQUESTS = 1
PATIENCE_S = 30


async def chunks_of(engine: Engine, request: GenerationRequest) -> list[TokenChunk]:
    async with engine.generate(request) as chunks:
        return [chunk async for chunk in chunks]


async def first_of(engine: Engine, request: GenerationRequest) -> TokenChunk:
    """The first chunk; the rest is left."""
    async with engine.generate(request) as chunks:
        return await anext(chunks)


def tokens_of(chunks: list[TokenChunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.token_ids]


class EngineContract:
    """The rules of `Engine`."""

    REQUEST: ClassVar[GenerationRequest]
    ENDLESS: ClassVar[GenerationRequest]

    async def test_models_can_be_found(self, engine: Engine) -> None:
        names = [model.id for model in engine.models()]
        assert len(set(names)) == len(names) > 0
        assert find_model(engine, names[0]).context_window_tokens > 0
        with pytest.raises(NotFound):
            find_model(engine, "no-such-model")

    async def test_it_is_healthy(self, engine: Engine) -> None:
        await engine.health()

    async def test_only_the_last_chunk_has_a_finish_reason(self, engine: Engine) -> None:
        *before, last = await chunks_of(engine, self.REQUEST)
        assert last.finish_reason is FinishReason.STOP
        assert {chunk.finish_reason for chunk in before} == {None}

    async def test_the_stop_token_is_in_the_output(self, engine: Engine) -> None:
        tokens = tokens_of(await chunks_of(engine, self.REQUEST))
        assert tokens[-1] in self.REQUEST.stop_token_ids
        assert set(tokens[:-1]).isdisjoint(self.REQUEST.stop_token_ids)

    @pytest.mark.parametrize("max_tokens", [1, 2, 3, 5, 7])
    async def test_a_limit_is_exact(self, engine: Engine, max_tokens: int) -> None:
        chunks = await chunks_of(engine, replace(self.REQUEST, max_tokens=max_tokens))
        assert len(tokens_of(chunks)) == max_tokens
        assert chunks[-1].finish_reason is FinishReason.LENGTH

    async def test_a_limit_that_is_not_reached_changes_nothing(self, engine: Engine) -> None:
        free = tokens_of(await chunks_of(engine, self.REQUEST))
        chunks = await chunks_of(engine, replace(self.REQUEST, max_tokens=len(free)))
        assert tokens_of(chunks) == free
        assert chunks[-1].finish_reason is FinishReason.STOP

    async def test_chunks_stay_valid(self, engine: Engine) -> None:
        async with engine.generate(self.REQUEST) as chunks:
            kept, copied = [], []
            async for chunk in chunks:
                kept.append(chunk)
                copied.append(list(chunk.token_ids))
        assert [list(chunk.token_ids) for chunk in kept] == copied

    async def test_requests_run_at_the_same_time(self, engine: Engine) -> None:
        async with engine.generate(self.ENDLESS) as one, engine.generate(self.ENDLESS) as other:
            for chunks in (one, other, one, other):
                assert (await asyncio.wait_for(anext(chunks), PATIENCE_S)).finish_reason is None

    async def test_leaving_frees_the_slot(self, engine: Engine) -> None:
        for _ in range(SLOTS + MAX_QUEUED_REQUESTS + 1):
            await asyncio.wait_for(first_of(engine, self.ENDLESS), PATIENCE_S)
        async with engine.generate(self.ENDLESS), engine.generate(self.ENDLESS):
            pass

    async def test_a_cancelled_reader_frees_the_slot(self, engine: Engine) -> None:
        started = asyncio.Event()

        async def read() -> None:
            async with engine.generate(self.ENDLESS) as chunks:
                async for _ in chunks:
                    started.set()

        for _ in range(SLOTS + MAX_QUEUED_REQUESTS + 1):
            started.clear()
            reader = asyncio.create_task(read())
            await asyncio.wait_for(started.wait(), PATIENCE_S)
            reader.cancel()
            await asyncio.wait([reader], timeout=PATIENCE_S)
            assert reader.cancelled()

    async def test_too_many_are_refused_with_a_delay(self, engine: Engine) -> None:
        async with AsyncExitStack() as places:
            for _ in range(SLOTS + MAX_QUEUED_REQUESTS):
                await places.enter_async_context(engine.generate(self.ENDLESS))
            with pytest.raises(Overloaded) as refused:
                await first_of(engine, self.ENDLESS)
            assert refused.value.retry_after_s >= 1
        await first_of(engine, self.ENDLESS)

    async def test_the_next_in_line_takes_a_slot_that_falls_free(self, engine: Engine) -> None:
        async with engine.generate(self.ENDLESS) as running:
            await anext(running)
            async with AsyncExitStack() as leaving:
                await leaving.enter_async_context(engine.generate(self.ENDLESS))
                waiting = asyncio.create_task(first_of(engine, self.ENDLESS))
                await asyncio.sleep(0)
                assert not waiting.done()
            assert (await asyncio.wait_for(waiting, PATIENCE_S)).token_ids

    async def test_who_waits_may_leave(self, engine: Engine) -> None:
        async with engine.generate(self.ENDLESS), engine.generate(self.ENDLESS):
            waiting = asyncio.create_task(first_of(engine, self.ENDLESS))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting], timeout=PATIENCE_S)
            assert waiting.cancelled()
        await asyncio.wait_for(first_of(engine, self.ENDLESS), PATIENCE_S)
