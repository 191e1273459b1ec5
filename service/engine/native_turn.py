"""One turn of a model that speaks Harmony itself: token ids in, token ids out, nothing translated.

llama.cpp tells no ids of the tokens inside a character that spans several, only the last one's, with the
bytes of all. The ones before are found again by their bytes, so the text is the model's to the byte; a limit
that falls inside such a character ends the output before it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import cache

from service.dialect.harmony.vocabulary import FIRST_SPECIAL, token_bytes
from service.engine.base import FinishReason, GenerationRequest, TokenChunk, TokenLogprob
from service.engine.llama_runtime import LlamaRuntime, Sampling, TextToken


async def native_chunks(
    runtime: LlamaRuntime, request: GenerationRequest, sampling: Sampling, max_tokens: int
) -> AsyncGenerator[TokenChunk, None]:
    """Yield the model's tokens as they come, a stop token that ends them included."""
    completion_of = runtime.complete(
        request.prompt_token_ids, sampling, max_tokens=max_tokens, top_logprobs=request.top_logprobs or 0
    )
    async with completion_of as completion, aclosing(completion.tokens()) as tokens:
        async for token in tokens:
            ids = whole_token_ids(token, token_bytes())
            entries = _entries(ids, token.entry, request.top_logprobs)
            ended = ids[-1] in request.stop_token_ids
            reason = FinishReason.STOP if ended else None
            yield TokenChunk(ids, reason, completion.cached_tokens, entries)
            if ended:
                return
        yield TokenChunk([], FinishReason.LENGTH if completion.truncated else FinishReason.STOP)


def whole_token_ids(token: TextToken, table: Sequence[bytes]) -> list[int]:
    """Return the token's id, with those of the tokens in front of it that came without their own."""
    last = token.entry.token_id
    if last >= FIRST_SPECIAL:
        return [last]
    missing = token.text.removesuffix(table[last])
    if len(missing) == len(token.text):
        return [last]
    return [*_longest_tokens(missing), last]


def _longest_tokens(data: bytes) -> Iterator[int]:
    """Yield tokens that spell `data`, each as long as can be; a single byte always is one."""
    ids = _ids_by_bytes()
    while data:
        size = next(size for size in range(len(data), 0, -1) if data[:size] in ids)
        yield ids[data[:size]]
        data = data[size:]


@cache
def _ids_by_bytes() -> dict[bytes, int]:
    return {data: token_id for token_id, data in enumerate(token_bytes())}


def _entries(ids: Sequence[int], last: TokenLogprob, top: int | None) -> list[TokenLogprob]:
    if top is None:
        return []
    known = TokenLogprob(last.token_id, last.logprob, last.top[:top])
    # Of the others only the sum is told: it counts as the last one's.
    return [*(TokenLogprob(token_id, 0.0) for token_id in ids[:-1]), known]
