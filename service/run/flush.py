"""Flushing: when the tokens that an engine has produced go on to the client.

A pump takes chunks from the engine into a compact buffer; the response takes all that waits, whenever it is
due. Due is

  1. the first token of a response, at once;
  2. `interval` waiting tokens, or `interval_s` seconds since the first of them came;
  3. a boundary token, at which an item begins or ends;
  4. the end, by finish, by fault or from outside: tokens that came before a fault are handed over before it
     is raised.

While the client is slow the buffer goes on filling, so what it gets are fewer, larger deltas: nothing is
dropped and no queue of events grows. At `max_waiting_tokens` the pump stops reading, which holds the engine
back. When nothing came for `silence_s`, an empty flush says so, so that a face can show that it is alive.

This is the only place of a response that knows the clock and tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from service.engine.base import FinishReason, TokenChunk, TokenLogprob
from service.run.interval import Interval


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """When waiting tokens are due."""

    interval: Interval
    """Tokens to a flush, at least 1."""
    interval_s: float
    """Seconds after which waiting tokens go out all the same."""
    boundary_token_ids: frozenset[int]
    """Tokens after which nothing waits."""
    silence_s: float
    """Seconds without a token after which an empty flush is given."""
    max_waiting_tokens: int
    """Most tokens that wait, give or take one chunk of the engine; never fewer than `interval`."""


@dataclass(slots=True)
class FlushStats:
    """What a response's flushes were like."""

    tokens: int = 0
    """Tokens that went on."""
    flushes: int = 0
    """Flushes that held tokens."""
    peak_waiting_tokens: int = 0
    """Most tokens that a flush held: as many had waited."""
    first_token_s: float = 0.0
    """Seconds from the start to the first tokens; 0 where none came."""
    last_token_s: float = 0.0
    """Seconds from the start to the last tokens so far."""


class Flushes(Protocol):
    """The flushes of a response, in order.

    Attributes:
        stats: what they were like so far.

    """

    stats: FlushStats

    def __aiter__(self) -> AsyncIterator[TokenChunk]:
        """Iterate over them, once."""
        ...

    def break_off(self, fault: Exception) -> None:
        """Read no more, unless all has been read: after what waits now, the iterator raises `fault`."""
        ...


@asynccontextmanager
async def flushing(chunks: AsyncIterator[TokenChunk], policy: FlushPolicy) -> AsyncGenerator[Flushes, None]:
    """Yield the flushes of `chunks`, as larger chunks. Leaving the block stops reading them.

    A flush holds what came since the one before; after a silence it is empty. The iterator ends after the
    chunk that has a finish reason, or when `chunks` ends without one, and raises what `chunks` raises.
    """
    buffer = _Buffer(chunks, policy)
    try:
        yield buffer
    finally:
        if not buffer.pump.done():
            buffer.pump.cancel()
            await asyncio.wait([buffer.pump])
        buffer.cancel_timers()


@dataclass(slots=True)
class _Waiting:
    """What has come and not gone on yet."""

    token_ids: list[int] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    cached_tokens: int | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)


class _Buffer:
    def __init__(self, chunks: AsyncIterator[TokenChunk], policy: FlushPolicy) -> None:
        self.pump = asyncio.create_task(self._read(chunks))
        self.stats = FlushStats()
        self._policy = policy
        self._loop = asyncio.get_running_loop()
        self._waiting = _Waiting()
        self._first = True
        self._due = _Signal(self._loop)
        self._room = _Signal(self._loop)
        self._ended = False
        self._fault: Exception | None = None
        # Timers run on and look again when they are early: cheaper than a new one for every flush.
        self._interval_timer: asyncio.TimerHandle | None = None
        self._waiting_since = 0.0
        self._silence_timer: asyncio.TimerHandle | None = None
        self._began_at = self._last_token_at = self._loop.time()

    def break_off(self, fault: Exception) -> None:
        if not self._ended:
            self._fault = fault
            self.pump.cancel()
            # A pump that is cancelled before its first step does not come to say so.
            self._ended = True
            self._due.set()

    async def _read(self, chunks: AsyncIterator[TokenChunk]) -> None:
        policy = self._policy
        boundary, interval = policy.boundary_token_ids, policy.interval
        self._watch_silence()
        try:
            async for chunk in chunks:
                waiting = self._waiting
                token_ids = chunk.token_ids
                if chunk.cached_tokens is not None:
                    waiting.cached_tokens = chunk.cached_tokens
                if not waiting.token_ids:
                    self._waiting_since = self._loop.time()
                waiting.token_ids += token_ids
                if chunk.logprobs:
                    waiting.logprobs += chunk.logprobs
                if chunk.finish_reason is not None:
                    waiting.finish_reason = chunk.finish_reason
                    return
                if not token_ids:
                    continue
                count = len(waiting.token_ids)
                if self._first or count >= interval.tokens or not boundary.isdisjoint(token_ids):
                    self._first = False
                    self._due.set()
                    if count < policy.max_waiting_tokens:
                        # One turn of the loop for the response, even if the engine never waits.
                        await asyncio.sleep(0)
                    while len(self._waiting.token_ids) >= policy.max_waiting_tokens:
                        await self._room.wait()
                elif self._interval_timer is None:
                    self._watch_interval()
        except Exception as fault:
            self._fault = fault
        finally:
            self._ended = True
            self._due.set()

    def __aiter__(self) -> _Buffer:
        return self

    async def __anext__(self) -> TokenChunk:
        await self._due.wait()
        waiting, self._waiting = self._waiting, _Waiting()
        flush = TokenChunk(waiting.token_ids, waiting.finish_reason, waiting.cached_tokens, waiting.logprobs)
        self._room.set()
        if count := len(flush.token_ids):
            self._last_token_at = self._loop.time()
            stats = self.stats
            stats.last_token_s = self._last_token_at - self._began_at
            if not stats.flushes:
                stats.first_token_s = stats.last_token_s
            stats.tokens += count
            stats.flushes += 1
            stats.peak_waiting_tokens = max(stats.peak_waiting_tokens, count)
        if not self._ended:
            return flush
        # Once more around: what ended the pump comes after the last tokens.
        self._due.set()
        if flush.token_ids or flush.finish_reason is not None:
            return flush
        raise self._fault or StopAsyncIteration

    def _watch_interval(self) -> None:
        self._interval_timer = None
        if not self._waiting.token_ids:
            return
        due_at = self._waiting_since + self._policy.interval_s
        if self._loop.time() >= due_at:
            self._due.set()
        else:
            self._interval_timer = self._loop.call_at(due_at, self._watch_interval)

    def _watch_silence(self) -> None:
        now = self._loop.time()
        quiet_until = self._last_token_at + self._policy.silence_s
        if now >= quiet_until:
            self._last_token_at = now
            quiet_until = now + self._policy.silence_s
            self._due.set()
        self._silence_timer = self._loop.call_at(quiet_until, self._watch_silence)

    def cancel_timers(self) -> None:
        for timer in (self._interval_timer, self._silence_timer):
            if timer is not None:
                timer.cancel()


class _Signal:
    """An event that its one waiter resets; lighter than asyncio's, which any number may wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        if not self._is_set:
            self._waiter = self._loop.create_future()
            await self._waiter
        self._is_set = False
