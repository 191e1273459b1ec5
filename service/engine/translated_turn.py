"""One turn of a model with a chat template, written in Harmony as the model says it.

A thought on the analysis channel unless the effort is low; then a call whose arguments the runtime's grammar
holds to the function's schema, or an answer on the final channel. The answer does not build on the thought:
models small enough for this answer worse with it than without.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import orjson

from service.dialect.callable_tools import CUSTOM_INPUT
from service.dialect.harmony.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START, encode
from service.engine.base import FunctionSchema
from service.engine.harmony_translation import Conversation
from service.engine.llama_runtime import ChatMessage, LlamaRuntime, Sampling
from service.engine.schema_grammar import answer_grammar, arguments_grammar

_THOUGHT_TOKENS: Final = {"medium": 80, "high": 240}
"""Most tokens of a thought, in the model's own, by reasoning effort."""
_THOUGHT_REQUEST: Final = "\n\nBefore you answer, explain in one or two sentences what the question asks for."
_THOUGHT_START: Final = "The user asks"
_JSON_REQUEST: Final = "\n\nAnswer as JSON."
_RESULT_REQUEST: Final = "\n\nWith this result, answer my question."


class TranslatedTurn:
    """One turn of the model, written in Harmony."""

    def __init__(
        self,
        runtime: LlamaRuntime,
        sampling: Sampling,
        conversation: Conversation,
        function: FunctionSchema | None,
        answer_schema: str | None,
        room: int,
    ) -> None:
        """`function`: what to call; `answer_schema`: what an answer must fit, as JSON text.

        `room`: tokens left for what the model writes, in its own.

        Raises:
            InvalidRequest: a schema cannot be held to.

        """
        self._runtime = runtime
        self._sampling = sampling
        self._conversation = conversation
        self._function = function
        self._asks_json = function is None and answer_schema is not None
        if function:
            grammar = arguments_grammar(function)
        else:
            grammar = answer_grammar(answer_schema) if answer_schema is not None else ""
        self._held = replace(sampling, grammar=grammar)
        self._room = room
        self._truncated = False

    async def tokens(self) -> AsyncGenerator[list[int], None]:
        """Write the turn; it ends with a stop token, or without where the context did."""
        start = list[int]()  # the first message's is in the prompt
        if limit := _THOUGHT_TOKENS.get(self._conversation.effort):
            yield [CHANNEL, *encode("analysis"), MESSAGE, *encode(_THOUGHT_START)]
            async with aclosing(self._think(limit)) as pieces:
                async for piece in pieces:
                    yield encode(piece)
            yield [END]
            start = [START, *encode("assistant")]
        if self._function:
            yield [
                *start,
                CHANNEL,
                *encode(f"commentary to={self._function.recipient} "),
                CONSTRAIN,
                *encode("json"),
                MESSAGE,
            ]
        else:
            yield [*start, CHANNEL, *encode("final"), MESSAGE]
        async with aclosing(self._call(self._function) if self._function else self._answer()) as pieces:
            async for piece in pieces:
                yield encode(piece)
        if not self._truncated:
            yield [CALL if self._function else RETURN]

    def _think(self, limit: int) -> AsyncGenerator[str, None]:
        messages = [*self._asking(_THOUGHT_REQUEST), ChatMessage("assistant", _THOUGHT_START)]
        return self._say(messages, self._sampling, min(limit, self._room))

    def _answer(self) -> AsyncGenerator[str, None]:
        request = _RESULT_REQUEST if self._conversation.after_result else ""
        if self._asks_json:
            request += _JSON_REQUEST
        return self._say(self._asking(request), self._held, self._room)

    async def _call(self, function: FunctionSchema) -> AsyncGenerator[str, None]:
        messages = self._asking(arguments_request(function))
        is_text = function.text_grammar is not None
        if is_text:
            yield f'{{"{CUSTOM_INPUT}":"'
        async with aclosing(self._say(messages, self._held, self._room)) as pieces:
            async for piece in pieces:
                yield orjson.dumps(piece).decode()[1:-1] if is_text else piece
        if is_text and not self._truncated:
            yield '"}'

    def _asking(self, request: str) -> list[ChatMessage]:
        """The conversation, with a request at the end of the user's last message."""
        *before, last = self._conversation.messages
        if last.role == "user" or not request:
            return [*before, ChatMessage(last.role, last.content + request)]
        return [*before, last, ChatMessage("user", request.strip())]

    async def _say(
        self, messages: Sequence[ChatMessage], sampling: Sampling, max_tokens: int
    ) -> AsyncGenerator[str, None]:
        async with self._runtime.chat(messages, sampling, max_tokens=max_tokens) as completion:
            async for piece in completion:
                yield piece
            self._truncated = completion.truncated


def arguments_request(function: FunctionSchema) -> str:
    """Return how the model is asked for a call's arguments."""
    about = f" ({function.description})" if function.description else ""
    if function.text_grammar is not None:
        return f"\n\nWrite the input of the tool {function.name}{about}, and nothing else."
    return f"\n\nWrite the arguments of the function {function.name}{about} as JSON."
