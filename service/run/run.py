"""One response, from its request to its last event: engine, flush, splitter, builder in a row.

Both RPC faces iterate over `ResponseRunner.run`. It yields batches of events, one batch a flush. Whatever is
wrong before the first event is raised; from the first event on nothing is raised, and the last batch ends
with exactly one terminal event. An empty batch says that nothing has happened for a while.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.base import Dialect, PromptTooLong
from service.dialect.callable_tools import RequestTools
from service.engine.base import Engine, GenerationRequest, Guidance, ModelInfo, find_model
from service.errors import InvalidRequest, ServiceError
from service.long_work import LONG_BYTES, in_thread_if_long, items_bytes, request_bytes
from service.run.builder import ResponseBuilder
from service.run.calls import CallReader
from service.run.drain import Drain
from service.run.flush import Flushes, FlushPolicy, FlushStats, flushing
from service.run.interval import Interval
from service.run.opening import opened_response
from service.run.preparation import Preparation
from service.run.promises import promises
from service.run.prompt import rendered_prompt
from service.run.tool_validation import schema_bytes
from service.run.turn import Turn
from service.run.validation import SEALED_REASONING, RequestLimits, guidance, top_logprobs, validate

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The server's flushing: its defaults, and how far requests may leave them."""

    interval: Interval
    """Tokens to a flush, where the request does not say."""
    interval_ms: int
    """Milliseconds that tokens wait at most, where the request does not say."""
    max_waiting_tokens: int
    """Most tokens that wait for a slow client before the engine is held back."""
    silence_s: float
    """Seconds without a token after which an empty batch is given."""
    limits: RequestLimits


class Checked(NamedTuple):
    """What checking a request has found."""

    model: ModelInfo
    tools: RequestTools


@dataclass(frozen=True, slots=True)
class Run:
    """A request to be run."""

    request: CreateResponseRequest
    response_id: str
    """Unique, of the form `resp_<alphanumeric>`."""
    history: Sequence[InputItem] = ()
    """What comes before the request's own input."""
    seal: Callable[[str], str] | None = None
    """Makes a text unreadable to all but the server; needed where reasoning is to be sealed."""
    checked: Checked | None = None
    """What `ResponseRunner.check` has found; None where it is still to be asked."""


class ResponseRunner:
    """Runs responses on one engine in one dialect.

    Attributes:
        running: how many responses are being made or wait for their turn, now.

    """

    def __init__(
        self,
        engine: Engine,
        dialect: Dialect,
        stream: StreamSettings,
        drain: Drain,
        preparation: Preparation,
        *,
        clock: Callable[[], float],
        show_reasoning: bool = True,
        observe: Callable[[Response, FlushStats], None] = lambda *_: None,
    ) -> None:
        """`clock` gives Unix time in seconds.

        `show_reasoning`: reasoning leaves as text; else only sealed. `observe` is told of every response that
        is over; one whose client has left has not ended.
        """
        self.running = 0
        self._observe = observe
        self._engine = engine
        self._dialect = dialect
        self._stream = stream
        self._drain = drain
        self._preparation = preparation
        self._show_reasoning = show_reasoning
        self._clock = clock

    async def run(self, run: Run) -> AsyncGenerator[list[ResponseStreamEvent], None]:
        """Yield the response's events in batches. Closing the generator aborts the engine's work.

        Raises:
            ServiceError: before the first event only.

        """
        request = run.request
        model, tools = run.checked or self.check(request)
        async with self._preparation:
            promised = await in_thread_if_long(schema_bytes(request, tools), promises, request, tools)
            prompt = await self._fitting_prompt(run, model)
        response = opened_response(request, model, response_id=run.response_id, created_at=int(self._clock()))
        generation = self._generation(request, model, prompt, response.id, guidance(tools, promised.answer))
        sealed = not self._show_reasoning or SEALED_REASONING in request.include
        builder = ResponseBuilder(
            response, seal=run.seal if sealed else None, show_reasoning=self._show_reasoning
        )
        turn = Turn(
            builder,
            self._dialect.splitter(request),
            len(prompt),
            self._clock,
            CallReader(tools.offered),
            promised,
        )
        # A server that stops waits until the last event has been kept, too.
        with self._drain.counted():
            async with (
                self._engine.generate(generation) as chunks,
                flushing(chunks, self._policy(request)) as flushes,
            ):
                with self._observed(builder.response, flushes), self._drain.told(flushes.break_off):
                    builder.start()
                    yield builder.take()
                    try:
                        async for flush in flushes:
                            if not flush.token_ids and flush.finish_reason is None:
                                # A silence: the response may still be queued.
                                yield []
                                continue
                            turn.feed(flush)
                            if turn.over:
                                break
                            if events := builder.take():
                                yield events
                        # What is promised has to be checked.
                        await in_thread_if_long(LONG_BYTES if promised.has_schemas else 0, turn.end)
                    except ServiceError as fault:
                        _log.error("response %s failed: %s", response.id, fault.message)
                        turn.fail(fault.message)
                    except Exception:
                        _log.exception("response %s failed", response.id)
                        turn.fail("The server had an internal error. Try again.")
            yield builder.take()

    @contextmanager
    def _observed(self, response: Response, flushes: Flushes) -> Generator[None, None, None]:
        """Count a response among those that run; when it is over, tell `observe` of it."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._observe(response, flushes.stats)

    async def count_tokens(self, run: Run) -> int:
        """Return how many tokens the prompt has.

        Raises:
            ServiceError: the request is refused.

        """
        model, _ = run.checked or self.check(run.request)
        async with self._preparation:
            try:
                return len(await self._prompt(run, model))
            except PromptTooLong as too_long:
                return too_long.tokens

    def check(self, request: CreateResponseRequest) -> Checked:
        """Check what does not depend on the prompt, before anything is read for a request.

        Raises:
            ServiceError: the request is refused.

        """
        model = find_model(self._engine, request.model)
        return Checked(model, validate(request, model, self._stream.limits))

    async def _fitting_prompt(self, run: Run, model: ModelInfo) -> list[int]:
        try:
            return await self._prompt(run, model)
        except PromptTooLong as too_long:
            raise InvalidRequest(
                f"The input has {too_long.tokens} tokens, and the model's context holds "
                f"{model.context_window_tokens} with the output: shorten it.",
                code="context_length_exceeded",
                param="input",
            ) from None

    async def _prompt(self, run: Run, model: ModelInfo) -> list[int]:
        size = request_bytes(run.request) + items_bytes(run.history)
        return await in_thread_if_long(
            size, rendered_prompt, self._dialect, run.request, run.history, model.context_window_tokens
        )

    def _generation(
        self,
        request: CreateResponseRequest,
        model: ModelInfo,
        prompt: list[int],
        request_id: str,
        held_to: Guidance,
    ) -> GenerationRequest:
        room = model.context_window_tokens - len(prompt)
        return GenerationRequest(
            request_id=request_id,
            model=model.id,
            prompt_token_ids=prompt,
            stop_token_ids=sorted(self._dialect.stop_token_ids),
            max_tokens=min(room, model.max_output_tokens, request.max_output_tokens or room),
            temperature=request.temperature if request.HasField("temperature") else model.default_temperature,
            top_p=request.top_p if request.HasField("top_p") else model.default_top_p,
            top_logprobs=top_logprobs(request),
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            seed=request.seed if request.HasField("seed") else None,
            guidance=held_to,
        )

    def _policy(self, request: CreateResponseRequest) -> FlushPolicy:
        options, default = request.stream_options, self._stream
        interval_ms = (
            options.stream_interval_ms if options.HasField("stream_interval_ms") else default.interval_ms
        )
        return FlushPolicy(
            interval=Interval(options.stream_interval) if options.stream_interval else default.interval,
            interval_s=interval_ms / 1000,
            boundary_token_ids=self._dialect.boundary_token_ids,
            silence_s=default.silence_s,
            max_waiting_tokens=default.max_waiting_tokens,
        )
