"""The llama.cpp engine: any GGUF model on a CPU, translated so that it speaks Harmony.

The Harmony prompt is read back into messages, the model is asked through its own chat template, and what it
says is written in Harmony's tokens while it says it: a thought on the analysis channel unless the effort is
low, then a call whose arguments the runtime's grammar holds to the function's schema, or an answer on the
final channel. The rest of the service cannot tell the difference.

The answer does not build on the thought: models small enough for this engine answer worse with it than
without.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import llguidance
import orjson

from service.dialect.harmony.vocabulary import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    START,
    encode,
)
from service.engine.admission import Admission
from service.engine.base import FinishReason, FunctionSchema, GenerationRequest, ModelInfo, TokenChunk
from service.engine.function_choice import choose_function
from service.engine.harmony_translation import Conversation, read_prompt
from service.engine.llama_runtime import ChatMessage, LlamaRuntime, Sampling
from service.errors import InvalidRequest

CONTEXT_TOKENS: Final = 8192
"""Prompt and output of one response; as many of the model's own tokens are there for them."""
MAX_OUTPUT_TOKENS: Final = 1024
"""Output of one response at most: small models do not always find an end."""
MAX_SCHEMA_VALUES: Final = 2000
"""Most keys and values in a function's schema: grammars grow with them, to seconds and beyond."""

_THOUGHT_TOKENS: Final = {"medium": 80, "high": 240}
"""Most tokens of a thought, in the model's own, by reasoning effort."""
_THOUGHT_REQUEST: Final = "\n\nBefore you answer, explain in one or two sentences what the question asks for."
_THOUGHT_START: Final = "The user asks"
_RESULT_REQUEST: Final = "\n\nWith this result, answer my question."
# Keywords that add to an object's properties.
_COMBINING: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties"})
# Room for the template's own tokens, around each message and at the end, and for the requests above.
_TEMPLATE_TOKENS: Final = 8
_REQUEST_TOKENS: Final = 64


class LlamaCppEngine:
    """Serves one GGUF model. `slots` and `max_queued_requests` bound it."""

    def __init__(self, path: Path, model_id: str, *, slots: int, max_queued_requests: int) -> None:
        """Load the model.

        Raises:
            StartupError: it cannot be loaded.

        """
        self._runtime = LlamaRuntime(path, slots=slots, context_tokens=CONTEXT_TOKENS)
        self._admission = Admission(slots=slots, max_queued_requests=max_queued_requests)
        self._model = ModelInfo(
            id=model_id,
            context_window_tokens=CONTEXT_TOKENS,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            guided=True,
            # Small models wander off as soon as chance has a say.
            default_temperature=0,
        )

    def models(self) -> Sequence[ModelInfo]:
        """The one model."""
        return [self._model]

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncGenerator[AsyncIterator[TokenChunk], None]:
        """Have the model answer `request`."""
        conversation = read_prompt(request.prompt_token_ids)
        function = choose_function(request.guidance, conversation.question)
        grammar = _grammar(function) if function else ""
        prompt_tokens = await self._prompt_tokens(conversation, function)
        async with self._admission.place() as slot:
            turn = _Turn(self._runtime, request, conversation, function, grammar, prompt_tokens)
            async with aclosing(turn.chunks(slot)) as chunks:
                yield chunks

    async def health(self) -> None:
        """A loaded model is ready."""

    async def close(self) -> None:
        """Free the model."""
        await self._runtime.close()

    async def _prompt_tokens(self, conversation: Conversation, function: FunctionSchema | None) -> int:
        """Count the prompt in the model's own tokens, of which a text may have more than Harmony's.

        Raises:
            InvalidRequest: it leaves no room in the context.

        """
        texts = [message.content for message in conversation.messages]
        if function:
            texts.append(_arguments_request(function))
        count = await self._runtime.count_tokens("\n".join(texts))
        count += len(texts) * _TEMPLATE_TOKENS + _REQUEST_TOKENS
        if count >= CONTEXT_TOKENS:
            raise InvalidRequest(
                f"The input has about {count} tokens of this model, and its context holds {CONTEXT_TOKENS} "
                "with the output: shorten it.",
                code="context_length_exceeded",
                param="input",
            )
        return count


class _Turn:
    """One turn of the model, written in Harmony."""

    def __init__(
        self,
        runtime: LlamaRuntime,
        request: GenerationRequest,
        conversation: Conversation,
        function: FunctionSchema | None,
        grammar: str,
        prompt_tokens: int,
    ) -> None:
        self._runtime = runtime
        self._request = request
        self._conversation = conversation
        self._function = function
        self._grammar = grammar
        self._room = min(CONTEXT_TOKENS - prompt_tokens, MAX_OUTPUT_TOKENS)
        self._truncated = False

    async def chunks(self, slot: asyncio.Future[None]) -> AsyncGenerator[TokenChunk, None]:
        """Yield the turn, `max_tokens` Harmony tokens of it at most."""
        await slot
        left = self._request.max_tokens or MAX_OUTPUT_TOKENS
        async with aclosing(self._tokens()) as pieces:
            async for tokens in pieces:
                if len(tokens) > left or (
                    len(tokens) == left and tokens[-1] not in self._request.stop_token_ids
                ):
                    yield TokenChunk(tokens[:left], FinishReason.LENGTH)
                    return
                left -= len(tokens)
                if tokens[-1] in self._request.stop_token_ids:
                    yield TokenChunk(tokens, FinishReason.STOP)
                    return
                yield TokenChunk(tokens)
        # The model's own context was used up before it came to an end.
        yield TokenChunk([], FinishReason.LENGTH)

    async def _tokens(self) -> AsyncGenerator[list[int], None]:
        """Write the turn; it ends with a stop token, or without where the context did."""
        start = list[int]()  # the first message's is in the prompt
        if limit := _THOUGHT_TOKENS.get(self._conversation.effort):
            yield [CHANNEL, *encode("analysis"), MESSAGE, *encode(_THOUGHT_START)]
            async with aclosing(self._think(limit)) as pieces:
                async for piece in pieces:
                    yield piece
            yield [END]
            start = [START, *encode("assistant")]
        if self._function:
            yield [
                *start,
                CHANNEL,
                *encode(f"commentary to=functions.{self._function.name} "),
                CONSTRAIN,
                *encode("json"),
                MESSAGE,
            ]
        else:
            yield [*start, CHANNEL, *encode("final"), MESSAGE]
        async with aclosing(self._call(self._function) if self._function else self._answer()) as pieces:
            async for piece in pieces:
                yield piece
        if not self._truncated:
            yield [CALL if self._function else RETURN]

    def _think(self, limit: int) -> AsyncGenerator[list[int], None]:
        messages = [*self._asking(_THOUGHT_REQUEST), ChatMessage("assistant", _THOUGHT_START)]
        return self._say(messages, self._sampling(), min(limit, self._room))

    def _answer(self) -> AsyncGenerator[list[int], None]:
        request = _RESULT_REQUEST if self._conversation.after_result else ""
        return self._say(self._asking(request), self._sampling(), self._room)

    def _call(self, function: FunctionSchema) -> AsyncGenerator[list[int], None]:
        messages = self._asking(_arguments_request(function))
        return self._say(messages, self._sampling(self._grammar), self._room)

    def _asking(self, request: str) -> list[ChatMessage]:
        """The conversation, with a request at the end of the user's last message."""
        *before, last = self._conversation.messages
        if last.role == "user" or not request:
            return [*before, ChatMessage(last.role, last.content + request)]
        return [*before, last, ChatMessage("user", request.strip())]

    def _sampling(self, grammar: str = "") -> Sampling:
        return Sampling(self._request.temperature, self._request.top_p, grammar)

    async def _say(
        self, messages: Sequence[ChatMessage], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[list[int], None]:
        async with self._runtime.chat(messages, sampling, max_tokens=max_tokens) as completion:
            async for piece in completion:
                yield encode(piece)
            self._truncated = completion.truncated


def _arguments_request(function: FunctionSchema) -> str:
    about = f" ({function.description})" if function.description else ""
    return f"\n\nWrite the arguments of the function {function.name}{about} as JSON."


def _grammar(function: FunctionSchema) -> str:
    """Return what holds a text to the function's schema.

    Raises:
        InvalidRequest: the schema is wrong, too large, or beyond what the runtime can hold a text to. It must
            not come so far: given a grammar that it cannot read, the runtime goes on without.

    """
    schema: dict[str, Any] = orjson.loads(function.parameters or '{"type": "object", "properties": {}}')
    # A call's arguments are an object, even where the schema does not say so; and a small model, left free to
    # add properties, adds them.
    if "properties" in schema and _COMBINING.isdisjoint(schema):
        schema = {"additionalProperties": False, **schema}
    schema = {**schema, "type": "object", "x-guidance": {"whitespace_flexible": False}}
    if _values(schema) > MAX_SCHEMA_VALUES:
        fault = f"it has more than {MAX_SCHEMA_VALUES} keys and values"
    else:
        grammar = f"%llguidance {{}}\nstart: %json {orjson.dumps(schema).decode()}"
        fault = llguidance.LLMatcher.validate_grammar(grammar)
        if not fault:
            return grammar
        fault = fault.partition("\n")[0].partition("failed to compile JSON schema: ")[2] or "it is wrong"
    raise InvalidRequest(
        f"The parameters of function {function.name!r} cannot be used: {fault:.300}.", param="tools"
    )


def _values(value: object) -> int:
    """Count keys and values, all levels together."""
    match value:
        case dict():
            return 1 + sum(1 + _values(child) for child in value.values())
        case list():
            return 1 + sum(map(_values, value))
        case _:
            return 1
