"""Stands in for NVIDIA's package where there is no GPU: what its documentation and sources say it does, 1.1 to 1.3.

Each behaviour names where it is written. What it generates is written in `OUTPUTS`, by the prompt's first token.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from tensorrt_llm.executor import RequestError

__version__ = "1.2.0"

STEP_S = 0.001
_RETURN, _CHANNEL, _MESSAGE, _FINAL = 200002, 200005, 200008, 17196
HELLO = [_CHANNEL, _FINAL, _MESSAGE, *range(1000, 1030), _RETURN]
ENDLESS = [_CHANNEL, _FINAL, _MESSAGE, *[1000] * 100_000]
OUTPUTS = {1: HELLO, 2: ENDLESS, 3: HELLO, 4: HELLO, 5: HELLO, 6: HELLO}
RAISES, HAS_ERROR, TIMES_OUT, DIES = 3, 4, 5, 6
FAULT_AT = 10
"""Tokens after which prompts 3 to 6 go wrong."""

# llmapi/llm_args.py: BaseLlmArgs forbids what it does not know, with a ValueError.
_KEYWORDS = {
    "model", "tokenizer", "skip_tokenizer_init", "tensor_parallel_size", "pipeline_parallel_size",
    "moe_expert_parallel_size", "dtype", "trust_remote_code", "max_batch_size", "max_num_tokens", "max_seq_len",
    "stream_interval", "kv_cache_config", "enable_chunked_prefill", "guided_decoding_backend", "cuda_graph_config",
    "moe_config", "num_postprocess_workers", "return_perf_metrics", "orchestrator_type",
}  # fmt: skip


@dataclass(kw_only=True)
class SamplingParams:
    """sampling_params.py: keyword only; max_tokens defaults to 32."""

    end_id: int | None = None
    pad_id: int | None = None
    max_tokens: int = 32
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: int | None = None
    guided_decoding: Any = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    add_special_tokens: bool = True

    def __post_init__(self) -> None:
        if self.temperature is not None and self.temperature < 0:
            raise ValueError("require temperature >= 0")


@dataclass
class Logprob:
    """executor/result.py: one entry of a position's dictionary of token ids."""

    logprob: float
    rank: int | None = None


@dataclass
class CompletionOutput:
    """executor/result.py: token_ids is cumulative; the diffs hold what the last step brought."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Logprob]] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | None = None
    _seen: int = 0

    @property
    def token_ids_diff(self) -> list[int]:
        return self.token_ids[self._seen :]

    @property
    def logprobs_diff(self) -> list[dict[int, Logprob]]:
        return self.logprobs[self._seen :]


class RequestOutput:
    """executor/result.py, GenerationResult: iterating yields the very same object at every step."""

    def __init__(self, llm: LLM, prompt: list[int], params: SamplingParams) -> None:
        # The queue is made here, for the loop that runs here: generate_async must be called inside of one.
        asyncio.get_running_loop()
        self.outputs = [CompletionOutput()]
        self.cached_tokens = 0
        self.error: str | None = None
        self._aborted = asyncio.Event()
        self._steps = self._play(llm, prompt, params)
        self._consumers = 0

    def abort(self) -> None:
        """Cancels; a last result with finish_reason "cancelled" follows."""
        self._aborted.set()

    def __aiter__(self) -> AsyncIterator[RequestOutput]:
        self._consumers += 1
        assert self._consumers == 1, "the queue has one consumer"
        return self

    async def __anext__(self) -> RequestOutput:
        self.outputs[0]._seen = len(self.outputs[0].token_ids)
        await anext(self._steps)
        return self

    async def _play(self, llm: LLM, prompt: list[int], params: SamplingParams) -> AsyncIterator[None]:
        output, kind = self.outputs[0], prompt[0]
        self.cached_tokens = 7 if len(prompt) > 7 else 0
        # The stop ids and the end id: only the end id stays in, unless include_stop_str_in_output is set.
        stops = {params.end_id, *(params.stop_token_ids or ())}
        pending = 0
        for iteration, token in enumerate(OUTPUTS[kind], 1):
            if self._aborted.is_set():
                output.finish_reason = "cancelled"
                yield
                return
            if kind in (RAISES, HAS_ERROR, TIMES_OUT, DIES) and iteration > FAULT_AT:
                match kind:
                    case _ if kind == RAISES:
                        raise RequestError("CUDA error: an illegal memory access was encountered")
                    case _ if kind == HAS_ERROR:
                        self.error = "CUDA error: an illegal memory access was encountered"
                    case _ if kind == TIMES_OUT:
                        output.finish_reason = "timeout"
                    case _:
                        llm.dead = True
                        raise RuntimeError("the worker process has died")
                yield
                return
            stopped = token in stops
            if not stopped or token == params.end_id or params.include_stop_str_in_output:
                output.token_ids.append(token)
                if params.logprobs is not None:
                    top = {token + i: Logprob(-1.0 - i, i + 1) for i in range(max(params.logprobs, 1))}
                    output.logprobs.append(top)
            pending += 1
            # A stop token that falls on the limit is reported as the limit.
            if iteration == params.max_tokens:
                output.finish_reason = "length"
            elif stopped:
                output.finish_reason, output.stop_reason = "stop", token
            # stream_interval: the first, every Nth iteration, and the last; chunks of 1, N-1, N, N, ...
            if output.finish_reason or iteration == 1 or iteration % llm.stream_interval == 0:
                await asyncio.sleep(STEP_S)
                yield
                pending = 0
            if output.finish_reason:
                return


class LLM:
    """llmapi/llm.py."""

    def __init__(self, model: str, **kwargs: Any) -> None:
        if unknown := kwargs.keys() - _KEYWORDS:
            raise ValueError(f"Extra inputs are not permitted: {sorted(unknown)}")
        self.model = model
        self.kwargs = kwargs
        self.stream_interval: int = kwargs.get("stream_interval", 1)
        self.dead = False
        self._stopped = False

    def generate_async(
        self, inputs: dict[str, list[int]], sampling_params: SamplingParams, *, streaming: bool = False
    ) -> RequestOutput:
        """Not a coroutine. Raises at once for what it can tell at once."""
        assert not inspect.iscoroutinefunction(self.generate_async)
        if self._stopped:
            raise RuntimeError("LLM is shutting down")
        assert streaming
        return RequestOutput(self, inputs["prompt_token_ids"], sampling_params)

    def _check_health(self) -> bool:
        return not self.dead

    def shutdown(self) -> None:
        self._stopped = True
