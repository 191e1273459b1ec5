"""Input items as Harmony messages, in order, with function calls and their outputs paired by call_id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, assert_never

from openresponses.v1.content_pb2 import InputContent, InputContentPart
from openresponses.v1.item_pb2 import (
    ROLE_ASSISTANT,
    ROLE_DEVELOPER,
    ROLE_SYSTEM,
    ROLE_USER,
    FunctionCall,
    FunctionCallOutput,
    Input,
    InputItem,
    InputMessage,
    ReasoningItem,
)

from service.dialect.harmony.message import Message
from service.errors import InvalidRequest

_AUTHORS: Final = {
    ROLE_USER: "user",
    ROLE_ASSISTANT: "assistant",
    ROLE_DEVELOPER: "developer",
    # Harmony's own system message is the server's; a client's is the developer's word.
    ROLE_SYSTEM: "developer",
}
_CHANNELS: Final = {"": "final", "final_answer": "final", "commentary": "commentary"}
_COMPACTED: Final = "Summary of the conversation so far:\n\n"
_FUNCTION_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def input_messages(source: Input, history: Sequence[InputItem] = ()) -> list[Message]:
    """Return the history and the input as messages.

    Raises:
        InvalidRequest: there is none, or an item cannot be rendered; `param` is its path.

    """
    reader = _ItemReader()
    before = [message for item in history for message in reader.messages(item, "previous_response_id")]
    match source.WhichOneof("input"):
        case "text" if source.text:
            return [*before, Message("user", source.text)]
        case "items" if source.items.items:
            return before + [
                message
                for i, item in enumerate(source.items.items)
                for message in reader.messages(item, f"input[{i}]")
            ]
        case _ if before:
            return before
        case _:
            raise InvalidRequest("input is missing: send a text, or a list of items.", param="input")


def check_items(items: Sequence[InputItem]) -> None:
    """Check that items can stand in a prompt; outputs may answer calls that stand before them.

    Raises:
        InvalidRequest: one cannot; `param` is its path.

    """
    for i, item in enumerate(items):
        if not item.HasField("function_call_output"):
            _ItemReader().messages(item, f"items[{i}]")


class _ItemReader:
    """Reads items in order, remembering the calls that outputs refer to."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The functions called so far, by call_id."""
        self._answered: set[str] = set()
        """The call_ids whose output has been seen."""

    def messages(self, item: InputItem, path: str) -> list[Message]:
        match item.WhichOneof("item"):
            case "message":
                return [_message(item.message, path)]
            case "reasoning":
                return _reasoning(item.reasoning)
            case "compaction":
                return [Message("developer", f"{_COMPACTED}{item.compaction.encrypted_content}")]
            case "function_call":
                return [self._call(item.function_call, path)]
            case "function_call_output":
                return [self._output(item.function_call_output, path)]
            case other:
                raise _unsupported(
                    path,
                    item.unknown.type if other == "unknown" else other,
                    "message, reasoning, function_call or function_call_output",
                )

    def _call(self, call: FunctionCall, path: str) -> Message:
        if not _FUNCTION_NAME.fullmatch(call.name):
            raise InvalidRequest(
                f"{path}.name must be 1 to 64 letters, digits, '_' or '-'.", param=f"{path}.name"
            )
        if not call.call_id or call.call_id in self._names:
            raise InvalidRequest(
                f"{path}.call_id must be set, and different from those of the other calls.",
                param=f"{path}.call_id",
            )
        self._names[call.call_id] = call.name
        return Message("assistant", call.arguments, "commentary", f"functions.{call.name}")

    def _output(self, output: FunctionCallOutput, path: str) -> Message:
        name = self._names.get(output.call_id)
        if name is None or output.call_id in self._answered:
            raise InvalidRequest(
                f"{path}.call_id must be that of a function_call before it, answered only once.",
                param=f"{path}.call_id",
            )
        self._answered.add(output.call_id)
        return Message(f"functions.{name}", _text(output.output, f"{path}.output"), "commentary", "assistant")


def _message(message: InputMessage, path: str) -> Message:
    author = _AUTHORS.get(message.role)
    if author is None:
        raise InvalidRequest(
            f"{path}.role must be user, assistant, system or developer.", param=f"{path}.role"
        )
    text = _text(message.content, f"{path}.content")
    if author != "assistant":
        return Message(author, text)
    channel = _CHANNELS.get(message.phase)
    if channel is None:
        raise InvalidRequest(f"{path}.phase must be commentary or final_answer.", param=f"{path}.phase")
    return Message(author, text, channel)


def _reasoning(item: ReasoningItem) -> list[Message]:
    """Return the thought, or nothing where the client has kept only a summary or what it cannot read."""
    text = "".join(part.text for part in item.content)
    return [Message("assistant", text, "analysis")] if text else []


def _text(content: InputContent, path: str) -> str:
    match content.WhichOneof("content"):
        case "text":
            return content.text
        case "parts":
            return "".join(_part_text(part, f"{path}[{i}]") for i, part in enumerate(content.parts.parts))
        case None:
            raise InvalidRequest(f"{path} is missing: send a text, or a list of parts.", param=path)
        case other:
            assert_never(other)


def _part_text(part: InputContentPart, path: str) -> str:
    match part.WhichOneof("part"):
        case "input_text":
            return part.input_text.text
        case "output_text":
            return part.output_text.text
        case "refusal":
            return part.refusal.refusal
        case other:
            raise _unsupported(
                path,
                part.unknown.type if other == "unknown" else other,
                "input_text, output_text or refusal",
            )


def _unsupported(path: str, kind: str | None, accepted: str) -> InvalidRequest:
    return InvalidRequest(
        f"{path} is of type {kind!r:.100}, which this server does not support: use {accepted}.",
        code="unsupported_value",
        param=path,
    )
