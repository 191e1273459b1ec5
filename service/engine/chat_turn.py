"""One turn of a model with a chat template, as it writes it: for the chat dialect, which knows its markup.

Functions are declared in the system message, in the way that Hermes and Qwen models are trained on. Whether
one is called is the model's own choice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

import orjson

from service.dialect.harmony.vocabulary import RETURN, encode
from service.engine.base import FunctionSchema
from service.engine.harmony_translation import Conversation
from service.engine.llama_runtime import ChatMessage, LlamaRuntime, Sampling
from service.engine.special_texts import SpecialTexts

_TOOLS: Final = """# Tools

Functions that you may call, as JSON, one a line:
<tools>
{functions}
</tools>

To call one, write its name and arguments as JSON in these tags:
<tool_call>
{{"name": <name>, "arguments": <arguments>}}
</tool_call>"""


class ChatTurn:
    """One turn of the model, in the text tokens of Harmony's vocabulary; the end of it is `<|return|>`."""

    def __init__(
        self,
        runtime: LlamaRuntime,
        sampling: Sampling,
        conversation: Conversation,
        room: int,
    ) -> None:
        """`room`: tokens left for what the model writes, in its own."""
        self._runtime = runtime
        self._sampling = sampling
        self._conversation = conversation
        self._room = room

    async def tokens(self) -> AsyncGenerator[list[int], None]:
        """Pass the turn on; it ends with a stop token, or without where the context did."""
        messages = self._conversation.messages
        async with self._runtime.chat(messages, self._sampling, max_tokens=self._room) as completion:
            async for piece in completion:
                yield encode(piece)
            if not completion.truncated:
                yield [RETURN]


def with_declarations(
    conversation: Conversation, functions: Sequence[FunctionSchema], special: SpecialTexts
) -> Conversation:
    """Return the conversation with functions and format of the answer declared in its system message.

    Nothing that the functions say is `special` to the model.
    """
    declared = [conversation.answer_format]
    if functions:
        lines = "\n".join(map(_declaration, functions))
        declared.insert(0, _TOOLS.format(functions=special.defused(lines)))
    system, *messages = conversation.messages
    system = ChatMessage(system.role, "\n\n".join(filter(None, [system.content, *declared])))
    return conversation.with_messages([system, *messages])


def _declaration(function: FunctionSchema) -> str:
    parameters = orjson.loads(function.parameters or "{}")
    declared = {"name": function.name, "description": function.description, "parameters": parameters}
    return orjson.dumps({"type": "function", "function": declared}).decode()
