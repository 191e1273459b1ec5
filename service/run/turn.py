"""One turn of the model: chunks of tokens go in, the response's events come out of its builder. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable

from openresponses.v1.response_pb2 import InputTokensDetails, OutputTokensDetails, ResponseError, Usage

from service.dialect.base import Splitter
from service.engine.base import FinishReason, TokenChunk
from service.run.builder import ResponseBuilder
from service.run.calls import CallReader
from service.run.promises import Promises


class Turn:
    """What the model says, from its first token to the terminal event.

    Usage counts the engine's tokens up to the end of the turn, so that it is the same for every chunking.
    """

    def __init__(
        self,
        builder: ResponseBuilder,
        splitter: Splitter,
        input_tokens: int,
        clock: Callable[[], float],
        calls: CallReader | None = None,
        promises: Promises | None = None,
    ) -> None:
        """`input_tokens`: tokens of the prompt; `clock` gives Unix time in seconds.

        `calls` knows the request's tools; `promises` what the response must be to count as completed.
        """
        self.builder = builder
        self._calls = calls or CallReader(())
        self._promises = promises or Promises()
        self._splitter = splitter
        self._input_tokens = input_tokens
        self._cached_tokens = 0
        self._clock = clock
        self._reason: FinishReason | None = None

    @property
    def over(self) -> bool:
        """The model has ended its turn, or the engine has ended it."""
        return self._splitter.ended or self._reason is not None

    def feed(self, chunk: TokenChunk) -> None:
        """Take the next chunk."""
        self.builder.begin()
        if chunk.cached_tokens is not None:
            self._cached_tokens = chunk.cached_tokens
        self._reason = chunk.finish_reason
        self.builder.apply(self._calls.read(self._splitter.feed(chunk.token_ids, chunk.logprobs)))

    def end(self) -> None:
        """The output is over: end the response, as its last tokens and the engine's finish reason say."""
        if not self.over:
            self.fail("The model's output ended early. Try again.")
            return
        cut = self._reason is FinishReason.LENGTH and not self._splitter.closed
        self.builder.apply(self._calls.read(self._splitter.finish(cut=cut)))
        if not self.builder.response.output:
            # Control tokens alone, or none: an empty success would be taken for an answer.
            self.fail("The model ended its turn without a message. Try again.")
        elif cut:
            self.builder.cut(self._usage())
        elif fault := self._promises.broken(self.builder.response):
            self.fail(fault)
        else:
            self.builder.complete(self._usage(), completed_at=int(self._clock()))

    def fail(self, message: str) -> None:
        """End the response as failed; `message` is for the caller."""
        self.builder.fail(self._usage(), ResponseError(code="server_error", message=message))

    def _usage(self) -> Usage:
        output_tokens = self._splitter.tokens
        return Usage(
            input_tokens=self._input_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=self._cached_tokens),
            output_tokens=output_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=self._splitter.reasoning_tokens),
            total_tokens=self._input_tokens + output_tokens,
        )
