"""The llama.cpp engine: any GGUF model on a CPU.

The prompt comes as Harmony. Unless the model speaks Harmony itself, it is read back into messages, which the
model's own chat template writes. What the model says leaves

  - of a model that speaks Harmony itself, gpt-oss, as it is, token by token (`native_turn.py`);
  - in the harmony dialect else translated, thought, call and answer on their channels, so that the rest of
    the service cannot tell it from a model that speaks Harmony (`translated_turn.py`);
  - in the chat dialect as it is, markup and all (`chat_turn.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, Protocol

from service.dialect.harmony.vocabulary import START
from service.engine.admission import Admission
from service.engine.base import FinishReason, GenerationRequest, ModelInfo, TokenChunk
from service.engine.chat_turn import ChatTurn, with_declarations
from service.engine.function_choice import choose_function
from service.engine.gguf_metadata import read_metadata
from service.engine.harmony_translation import TAGGED, TOLD, Conversation, read_prompt
from service.engine.llama_runtime import LlamaRuntime, Sampling
from service.engine.native_turn import native_chunks
from service.engine.special_texts import SpecialTexts, special_texts
from service.engine.translated_turn import TranslatedTurn, arguments_request
from service.errors import InvalidRequest, StartupError

CONTEXT_TOKENS: Final = 8192
"""Prompt and output of one response; as many of the model's own tokens are there for them."""
MAX_OUTPUT_TOKENS: Final = 1024
"""Output of one response at most, translated or chatting: small models do not always find an end."""

_TOKENS: Final = "tokenizer.ggml.tokens"
_TYPES: Final = "tokenizer.ggml.token_type"
_TEMPLATE: Final = "tokenizer.chat_template"

# Room for the template's own tokens, around each message, and for what a translated turn asks beside.
_TEMPLATE_TOKENS: Final = 8
_REQUEST_TOKENS: Final = 64


class _Turn(Protocol):
    def tokens(self) -> AsyncGenerator[list[int], None]: ...


class LlamaCppEngine:
    """Serves one GGUF model. `slots` and `max_queued_requests` bound it."""

    def __init__(
        self,
        path: Path,
        model_id: str,
        *,
        slots: int,
        max_queued_requests: int,
        dialect: Literal["harmony", "chat"] = "harmony",
    ) -> None:
        """Load the model.

        Raises:
            StartupError: it cannot be loaded.

        """
        self._runtime = LlamaRuntime(path, slots=slots, context_tokens=CONTEXT_TOKENS)
        self._admission = Admission(slots=slots, max_queued_requests=max_queued_requests)
        self._translates = dialect == "harmony"
        self._native = self._translates and self._runtime.control_token("<|start|>") == START
        """The model's vocabulary is Harmony's own: gpt-oss."""
        # Prompts of a native model are tokens: no text of theirs is read again.
        self._special = SpecialTexts(()) if self._native else _special_texts(path)
        """What is more than text to the model, unless it is taken apart."""
        self._model = ModelInfo(
            id=model_id,
            context_window_tokens=CONTEXT_TOKENS,
            max_output_tokens=CONTEXT_TOKENS if self._native else MAX_OUTPUT_TOKENS,
            logprobs=self._native,
            guided=self._translates and not self._native,
            # Small models wander off as soon as chance has a say.
            default_temperature=1 if self._native else 0,
        )

    def models(self) -> Sequence[ModelInfo]:
        """The one model."""
        return [self._model]

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncGenerator[AsyncIterator[TokenChunk], None]:
        """Have the model answer `request`."""
        # First of all, so that no more requests are looked at than may wait.
        async with self._admission.place() as slot:
            if self._native:
                turn = native_chunks(
                    self._runtime, request, _sampling(request), request.max_tokens or CONTEXT_TOKENS
                )
            elif self._translates:
                turn = _limited(await self._translated(request), request)
            else:
                turn = _limited(await self._chatting(request), request)
            async with aclosing(_when_free(slot, turn)) as chunks:
                yield chunks

    async def health(self) -> None:
        """A loaded model is ready."""

    async def close(self) -> None:
        """Free the model."""
        await self._runtime.close()

    async def _translated(self, request: GenerationRequest) -> _Turn:
        conversation = read_prompt(request.prompt_token_ids, TOLD, self._special)
        function = choose_function(request.guidance, conversation.question)
        if function:
            function = replace(function, description=self._special.defused(function.description))
        room = await self._room(conversation, arguments_request(function) if function else "")
        # Reading a grammar takes long where it is large.
        return await asyncio.to_thread(
            TranslatedTurn,
            self._runtime,
            _sampling(request),
            conversation,
            function,
            request.guidance.answer_schema,
            room,
        )

    async def _chatting(self, request: GenerationRequest) -> _Turn:
        conversation = read_prompt(request.prompt_token_ids, TAGGED, self._special)
        conversation = with_declarations(conversation, request.guidance.functions, self._special)
        return ChatTurn(self._runtime, _sampling(request), conversation, await self._room(conversation))

    async def _room(self, conversation: Conversation, request: str = "") -> int:
        """Return how many of the model's own tokens are left for its output.

        Raises:
            InvalidRequest: none are; a text may have more of them than of Harmony's.

        """
        texts = [*(message.content for message in conversation.messages), request]
        count = await self._runtime.count_tokens("\n".join(texts))
        count += len(texts) * _TEMPLATE_TOKENS + _REQUEST_TOKENS
        if count >= CONTEXT_TOKENS:
            raise InvalidRequest(
                f"The input has about {count} tokens of this model, and its context holds {CONTEXT_TOKENS} "
                "with the output: shorten it.",
                code="context_length_exceeded",
                param="input",
            )
        return min(CONTEXT_TOKENS - count, MAX_OUTPUT_TOKENS)


def _special_texts(path: Path) -> SpecialTexts:
    try:
        metadata = read_metadata(path, {_TOKENS, _TYPES, _TEMPLATE})
    except (OSError, ValueError) as error:
        raise StartupError(f"The vocabulary of the model {path} cannot be read. See --model.") from error
    template = metadata.get(_TEMPLATE, b"").decode(errors="replace")
    return special_texts(metadata.get(_TOKENS, ()), metadata.get(_TYPES, ()), template)


async def _when_free(
    slot: asyncio.Future[None], turn: AsyncGenerator[TokenChunk, None]
) -> AsyncGenerator[TokenChunk, None]:
    """Begin the turn once it has a slot."""
    await slot
    async with aclosing(turn) as chunks:
        async for chunk in chunks:
            yield chunk


async def _limited(turn: _Turn, request: GenerationRequest) -> AsyncGenerator[TokenChunk, None]:
    """Yield the turn, `max_tokens` Harmony tokens of it at most."""
    stops = request.stop_token_ids
    left = request.max_tokens or MAX_OUTPUT_TOKENS
    async with aclosing(turn.tokens()) as pieces:
        async for tokens in pieces:
            if len(tokens) > left or (len(tokens) == left and tokens[-1] not in stops):
                yield TokenChunk(tokens[:left], FinishReason.LENGTH)
                return
            left -= len(tokens)
            if tokens[-1] in stops:
                yield TokenChunk(tokens, FinishReason.STOP)
                return
            yield TokenChunk(tokens)
    # The model's own context was used up before it came to an end.
    yield TokenChunk([], FinishReason.LENGTH)


def _sampling(request: GenerationRequest) -> Sampling:
    return Sampling(
        request.temperature,
        request.top_p,
        request.presence_penalty,
        request.frequency_penalty,
        request.seed,
    )
