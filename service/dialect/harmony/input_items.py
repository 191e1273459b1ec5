"""Input items as Harmony messages, in order, with function calls and their outputs paired by call_id."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, assert_never

import orjson
from openresponses.v1.content_pb2 import InputContent, InputContentPart
from openresponses.v1.item_pb2 import (
    ROLE_ASSISTANT,
    ROLE_DEVELOPER,
    ROLE_SYSTEM,
    ROLE_USER,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Input,
    InputItem,
    InputMessage,
    ReasoningItem,
)

from service.dialect.base import MAX_NAME_CHARACTERS
from service.dialect.callable_tools import CUSTOM_INPUT
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
_KINDS: Final = (
    "message, reasoning, function_call, function_call_output, custom_tool_call, custom_tool_call_output, "
    "compaction"
)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.\-]")


def input_messages(source: Input, history: Sequence[InputItem] = ()) -> list[Message]:
    """Return the history and the input as messages.

    What is kept and cannot stand in a prompt (any more) is left out, such as the output of a call that was
    deleted: no client could mend it.

    Raises:
        InvalidRequest: there is none, or an item of the input cannot be rendered; `param` is its path.

    """
    reader = _ItemReader()
    before: list[Message] = []
    for item in history:
        with suppress(InvalidRequest):
            before += reader.messages(item, "history")
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
            raise InvalidRequest("input is missing or empty: send a text, or a list of items.", param="input")


def check_items(items: Sequence[InputItem]) -> None:
    """Check that items can stand in a prompt; outputs may answer calls that stand before them.

    Raises:
        InvalidRequest: one cannot; `param` is its path.

    """
    reader = _ItemReader(_KINDS)
    for i, item in enumerate(items):
        path = f"items[{i}]"
        match item.WhichOneof("item"):
            case "function_call_output":
                _check_output(item.function_call_output, path)
            case "custom_tool_call_output":
                _check_output(item.custom_tool_call_output, path)
            case _:
                reader.messages(item, path)


class _ItemReader:
    """Reads items in order, remembering the calls that outputs refer to."""

    def __init__(self, kinds: str = f"{_KINDS} or item_reference") -> None:
        """`kinds`: what is accepted, for those who send something else."""
        self._kinds = kinds
        self._names: dict[str, str] = {}
        """The recipients of the calls so far, by call_id."""
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
                return [self._call(item.function_call, item.function_call.arguments, path)]
            case "function_call_output":
                return [self._output(item.function_call_output, path)]
            case "custom_tool_call":
                arguments = orjson.dumps({CUSTOM_INPUT: item.custom_tool_call.input}).decode()
                return [self._call(item.custom_tool_call, arguments, path)]
            case "custom_tool_call_output":
                return [self._output(item.custom_tool_call_output, path)]
            case other:
                raise _unsupported(path, item.unknown.type if other == "unknown" else other, self._kinds)

    def _call(self, call: FunctionCall | CustomToolCall, arguments: str, path: str) -> Message:
        if not 0 < len(call.name) <= MAX_NAME_CHARACTERS or len(call.namespace) > MAX_NAME_CHARACTERS:
            raise InvalidRequest(
                f"{path}.name must be 1 to {MAX_NAME_CHARACTERS} characters.", param=f"{path}.name"
            )
        if not call.call_id or call.call_id in self._names:
            raise InvalidRequest(
                f"{path}.call_id must be set, and different from those of the other calls.",
                param=f"{path}.call_id",
            )
        # A model may have called what nobody offers, by any name.
        name = _NO_NAME.sub("_", f"{call.namespace}.{call.name}" if call.namespace else call.name)
        recipient = name if "." in name else f"functions.{name}"
        self._names[call.call_id] = recipient
        return Message("assistant", arguments, "commentary", recipient)

    def _output(self, output: FunctionCallOutput | CustomToolCallOutput, path: str) -> Message:
        name = self._names.get(output.call_id)
        if name is None or output.call_id in self._answered:
            raise InvalidRequest(
                f"{path}.call_id must be that of a call before it, answered only once.",
                param=f"{path}.call_id",
            )
        self._answered.add(output.call_id)
        return Message(name, _text(output.output, f"{path}.output"), "commentary", "assistant")


def _check_output(output: FunctionCallOutput | CustomToolCallOutput, path: str) -> None:
    if not output.call_id:
        raise InvalidRequest(f"{path}.call_id must be that of the call.", param=f"{path}.call_id")
    _text(output.output, f"{path}.output")


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
        case "input_image":
            raise InvalidRequest(
                f"{path} is an image, and the models here read text only: leave it out.",
                code="unsupported_value",
                param=path,
            )
        case other:
            raise _unsupported(
                path,
                part.unknown.type if other == "unknown" else other,
                "input_text, input_file, output_text or refusal",
            )


def _unsupported(path: str, kind: str | None, accepted: str) -> InvalidRequest:
    return InvalidRequest(
        f"{path} is of type {kind!r:.100}, which this server does not support: use {accepted}.",
        code="unsupported_value",
        param=path,
    )
