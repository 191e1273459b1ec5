"""Input items as Harmony messages, in order, with function calls and their outputs paired by call_id."""

from __future__ import annotations

import re
from typing import Final, assert_never

import openai_harmony as harmony
from openresponses.v1.content_pb2 import InputContent, InputContentPart
from openresponses.v1.item_pb2 import (
    ROLE_ASSISTANT,
    ROLE_DEVELOPER,
    ROLE_SYSTEM,
    ROLE_USER,
    FunctionCall,
    FunctionCallOutput,
    Input,
    InputMessage,
    ReasoningItem,
)

from service.errors import InvalidRequest

_ROLES: Final = {
    ROLE_USER: harmony.Role.USER,
    ROLE_ASSISTANT: harmony.Role.ASSISTANT,
    ROLE_DEVELOPER: harmony.Role.DEVELOPER,
    # Harmony's own system message is the server's; a client's is the developer's word.
    ROLE_SYSTEM: harmony.Role.DEVELOPER,
}
_CHANNELS: Final = {"": "final", "final_answer": "final", "commentary": "commentary"}
_FUNCTION_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def history(source: Input) -> list[harmony.Message]:
    """Return the input as messages.

    Raises:
        InvalidRequest: there is none, or an item cannot be rendered; `param` is its path.
    """
    match source.WhichOneof("input"):
        case "text":
            return [harmony.Message.from_role_and_content(harmony.Role.USER, source.text)]
        case "items" if source.items.items:
            return _History().messages(source)
        case _:
            raise InvalidRequest("input is missing: send a text, or a list of items.", param="input")


class _History:
    """Renders items, remembering the calls that outputs refer to."""

    def __init__(self) -> None:
        self._call_names: dict[str, str] = {}
        self._answered: set[str] = set()

    def messages(self, source: Input) -> list[harmony.Message]:
        rendered: list[harmony.Message] = []
        for i, item in enumerate(source.items.items):
            path = f"input[{i}]"
            match item.WhichOneof("item"):
                case "message":
                    rendered.append(_message(item.message, path))
                case "reasoning":
                    rendered += _reasoning(item.reasoning)
                case "function_call":
                    rendered.append(self._call(item.function_call, path))
                case "function_call_output":
                    rendered.append(self._output(item.function_call_output, path))
                case other:
                    type_ = item.unknown.type if other == "unknown" else other
                    raise InvalidRequest(
                        f"{path} is of type {type_!r:.100}, which this server does not support: use message, "
                        "reasoning, function_call or function_call_output.",
                        code="unsupported_item",
                        param=f"{path}.type",
                    )
        return rendered

    def _call(self, call: FunctionCall, path: str) -> harmony.Message:
        if not _FUNCTION_NAME.fullmatch(call.name):
            raise InvalidRequest(
                f"{path}.name must be 1 to 64 letters, digits, '_' or '-'.", param=f"{path}.name"
            )
        if not call.call_id or call.call_id in self._call_names:
            raise InvalidRequest(
                f"{path}.call_id must be set, and different from those of the other calls.",
                param=f"{path}.call_id",
            )
        self._call_names[call.call_id] = call.name
        return (
            harmony.Message.from_role_and_content(harmony.Role.ASSISTANT, call.arguments)
            .with_channel("commentary")
            .with_recipient(f"functions.{call.name}")
            .with_content_type("<|constrain|>json")
        )

    def _output(self, output: FunctionCallOutput, path: str) -> harmony.Message:
        name = self._call_names.get(output.call_id)
        if name is None or output.call_id in self._answered:
            raise InvalidRequest(
                f"{path}.call_id must be that of a function_call before it, answered only once.",
                param=f"{path}.call_id",
            )
        self._answered.add(output.call_id)
        author = harmony.Author.new(harmony.Role.TOOL, f"functions.{name}")
        return (
            harmony.Message.from_author_and_content(author, _text(output.output, f"{path}.output"))
            .with_channel("commentary")
            .with_recipient("assistant")
        )


def _message(message: InputMessage, path: str) -> harmony.Message:
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidRequest(
            f"{path}.role must be user, assistant, system or developer.", param=f"{path}.role"
        )
    text = _text(message.content, f"{path}.content")
    if role is harmony.Role.DEVELOPER:
        content = harmony.DeveloperContent.new().with_instructions(text)
        return harmony.Message.from_role_and_content(role, content)
    rendered = harmony.Message.from_role_and_content(role, text)
    if role is harmony.Role.ASSISTANT:
        channel = _CHANNELS.get(message.phase)
        if channel is None:
            raise InvalidRequest(f"{path}.phase must be commentary or final_answer.", param=f"{path}.phase")
        rendered = rendered.with_channel(channel)
    return rendered


def _reasoning(item: ReasoningItem) -> list[harmony.Message]:
    text = "".join(part.text for part in item.content) or "\n".join(part.text for part in item.summary)
    if not text:
        return []
    message = harmony.Message.from_role_and_content(harmony.Role.ASSISTANT, text)
    return [message.with_channel("analysis")]


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
            type_ = part.unknown.type if other == "unknown" else other
            raise InvalidRequest(
                f"{path} is of type {type_!r:.100}, which the model cannot read: use input_text.",
                code="unsupported_content",
                param=f"{path}.type",
            )
