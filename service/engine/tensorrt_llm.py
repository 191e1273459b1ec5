"""The TensorRT-LLM engine: gpt-oss models on NVIDIA GPUs. The package is imported when the engine is made.

What this module knows of TensorRT-LLM, releases 1.1 to 1.3 (llmapi/llm.py, executor/result.py):

  - `generate_async` returns at once, and must be called inside the running loop.
  - Iterating its result yields the same object at every step; its diffs are valid until the next step.
  - Stop ids are removed from the output unless `include_stop_str_in_output`; the end id stays in it.
  - A stop token that falls on the limit is reported as the limit.
  - A request fails by an exception out of the iteration, or by `error` on the result.
  - `max_tokens` has a small default; no temperature and no top_p is greedy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from service.engine.admission import Admission
from service.engine.base import FinishReason, GenerationRequest, ModelInfo, TokenChunk, TokenLogprob
from service.engine.structural_tag import structural_tag
from service.engine.tensorrt_settings import TensorRTSettings
from service.errors import EngineFailed, InvalidRequest, StartupError, Unavailable

_log = logging.getLogger(__name__)

_REASONS: Final = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}
_MISSING: Final = (
    "TensorRT-LLM is not installed: run in NVIDIA's container nvcr.io/nvidia/tensorrt-llm/release, or use "
    "--engine embedded."
)


class TensorRTLLMEngine:
    """Serves one model. It batches by itself; `max_queued_requests` may wait behind a full batch."""

    def __init__(self, model: str, settings: TensorRTSettings, *, max_queued_requests: int) -> None:
        """Load the model; takes minutes.

        Raises:
            StartupError: the package is missing, or the model or an argument is wrong.

        """
        try:
            import tensorrt_llm
            from tensorrt_llm import llmapi
        except ImportError as error:
            raise StartupError(_MISSING) from error
        self._package: Any = tensorrt_llm
        self._llmapi: Any = llmapi
        self._settings = settings
        arguments = _llm_arguments(settings, llmapi)
        try:
            self._llm = tensorrt_llm.LLM(model, **arguments)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise StartupError(f"TensorRT-LLM cannot load {model}: {error}") from error
        self._admission = Admission(slots=settings.max_batch_size, max_queued_requests=max_queued_requests)
        self._model = ModelInfo(
            id=settings.served_model_name or Path(model).name,
            context_window_tokens=settings.max_seq_len,
            max_output_tokens=settings.max_seq_len,
            logprobs=True,
            guided=settings.guided_decoding_backend is not None,
        )

    def models(self) -> Sequence[ModelInfo]:
        """The one model."""
        return [self._model]

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncGenerator[AsyncIterator[TokenChunk], None]:
        """Have the model answer `request`; what the engine refuses at once is raised on entry."""
        async with self._admission.place() as slot:
            result = self._submit(request) if slot.done() else None
            async with aclosing(self._chunks(slot, result, request)) as chunks:
                try:
                    yield chunks
                finally:
                    # An iteration that never began has no finally of its own.
                    if result is not None:
                        result.abort()

    async def health(self) -> None:
        """Ask the engine's workers, where this release can."""
        check = getattr(self._llm, "_check_health", None)
        if check is not None and not check():
            raise Unavailable("The engine has died: restart the server.")

    async def close(self) -> None:
        """Shut the engine down."""
        await asyncio.to_thread(self._llm.shutdown)

    def _submit(self, request: GenerationRequest) -> Any:
        """Hand the request over.

        Raises:
            InvalidRequest: the engine refuses it.
            Unavailable: the engine is shutting down.

        """
        try:
            return self._llm.generate_async(
                {"prompt_token_ids": list(request.prompt_token_ids)},
                sampling_params=self._sampling_params(request),
                streaming=True,
            )
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"The engine refuses the request: {error}") from error
        except RuntimeError as error:
            if type(error).__name__ == "RequestError":
                raise InvalidRequest(
                    f"The engine refuses the input: {error}", code="context_length_exceeded", param="input"
                ) from error
            raise Unavailable("The engine is shutting down.") from error

    def _sampling_params(self, request: GenerationRequest) -> Any:
        end_id, *stops = request.stop_token_ids
        greedy = request.temperature == 0
        tag = structural_tag(request.guidance) if self._model.guided else None
        return self._package.SamplingParams(
            end_id=end_id,
            pad_id=end_id,
            stop_token_ids=stops,
            include_stop_str_in_output=True,
            max_tokens=request.max_tokens or self._model.max_output_tokens,
            temperature=None if greedy else request.temperature,
            top_p=None if greedy else request.top_p,
            presence_penalty=request.presence_penalty or None,
            frequency_penalty=request.frequency_penalty or None,
            seed=request.seed,
            logprobs=request.top_logprobs,
            guided_decoding=self._llmapi.GuidedDecodingParams(structural_tag=tag) if tag else None,
            detokenize=False,
            skip_special_tokens=False,
            add_special_tokens=False,
        )

    async def _chunks(
        self, slot: asyncio.Future[None], result: Any, request: GenerationRequest
    ) -> AsyncGenerator[TokenChunk, None]:
        await slot
        if result is None:
            result = self._submit(request)
        try:
            async for step in _steps(result):
                chunk = _chunk(step, request)
                yield chunk
                if chunk.finish_reason is not None:
                    return
        finally:
            result.abort()


async def _steps(result: Any) -> AsyncGenerator[Any, None]:
    """Iterate over a result; both ways to fail become `EngineFailed`, and what they say is only logged."""
    try:
        async for step in result:
            if step.error:
                raise RuntimeError(step.error)
            yield step
    except Exception as error:
        _log.error("TensorRT-LLM failed: %r", error)
        raise EngineFailed("The engine failed. Try again.") from error


def _chunk(step: Any, request: GenerationRequest) -> TokenChunk:
    """Copy what a step has brought."""
    output = step.outputs[0]
    token_ids = list(output.token_ids_diff)
    reason: FinishReason | None = None
    if output.finish_reason is not None:
        reason = _REASONS.get(output.finish_reason)
        if reason is None:
            raise EngineFailed(f"The engine ended the output early ({output.finish_reason}). Try again.")
        if token_ids and token_ids[-1] in request.stop_token_ids:
            reason = FinishReason.STOP
    logprobs = (
        [_logprob(token, entries, request.top_logprobs) for token, entries in _pairs(token_ids, output)]
        if request.top_logprobs is not None
        else ()
    )
    return TokenChunk(token_ids, reason, step.cached_tokens, logprobs)


def _pairs(token_ids: Sequence[int], output: Any) -> Sequence[tuple[int, Mapping[int, Any]]]:
    return list(zip(token_ids, output.logprobs_diff, strict=True))


def _logprob(token: int, entries: Mapping[int, Any], top: int) -> TokenLogprob:
    likeliest = sorted(entries.items(), key=lambda item: -item[1].logprob)[:top]
    return TokenLogprob(token, entries[token].logprob, [(i, entry.logprob) for i, entry in likeliest])


def _llm_arguments(settings: TensorRTSettings, llmapi: Any) -> dict[str, Any]:
    """Return the keywords for LLM: the typed settings, and over them those of the options file."""
    kv_cache = {
        "enable_block_reuse": settings.kv_cache_reuse,
        "free_gpu_memory_fraction": settings.kv_cache_free_gpu_memory_fraction,
        "dtype": settings.kv_cache_dtype,
    }
    arguments: dict[str, Any] = {
        # Prompts come as tokens and outputs leave as tokens.
        "skip_tokenizer_init": True,
        "tensor_parallel_size": settings.tensor_parallel_size,
        "pipeline_parallel_size": settings.pipeline_parallel_size,
        "moe_expert_parallel_size": settings.moe_expert_parallel_size,
        "max_batch_size": settings.max_batch_size,
        "max_num_tokens": settings.max_num_tokens,
        "max_seq_len": settings.max_seq_len,
        "stream_interval": settings.stream_interval,
        "guided_decoding_backend": settings.guided_decoding_backend,
        "kv_cache_config": llmapi.KvCacheConfig(**{k: v for k, v in kv_cache.items() if v is not None}),
    }
    arguments = {name: value for name, value in arguments.items() if value is not None}
    return {**arguments, **_options(settings.options)}


def _options(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        options = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise StartupError(f"The options file {path} cannot be read: {error}") from error
    if not isinstance(options, dict):
        raise StartupError(f"The options file {path} must hold a mapping of LLM arguments.")
    return options
