"""The item that a response is writing: what it looks like at any moment. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from openresponses.v1.content_pb2 import Logprob, OutputContentPart
from openresponses.v1.item_pb2 import ROLE_ASSISTANT, CustomToolCall, FunctionCall, OutputItem
from openresponses.v1.status_pb2 import ItemStatus

from service.dialect.base import Kind
from service.items import ID_PREFIXES

_ITEMS: Final = {
    Kind.REASONING: "reasoning",
    Kind.PREAMBLE: "message",
    Kind.ANSWER: "message",
    Kind.FUNCTION_CALL: "function_call",
    Kind.CUSTOM_CALL: "custom_tool_call",
}
_PHASES: Final = {Kind.PREAMBLE: "commentary", Kind.ANSWER: "final_answer"}


class OpenItem:
    """An item between its first and its last event.

    Attributes:
        id: unique, made from the response's own unique part and the position in its output.
        index: that position.
        texts: the deltas so far.
        logprobs: theirs.

    """

    def __init__(
        self, kind: Kind, name: str, namespace: str, unique: str, index: int, *, hides_reasoning: bool
    ) -> None:
        """`name` and `namespace`: of the tool, where the item is a call."""
        self.kind = kind
        self.index = index
        self.id = f"{ID_PREFIXES[_ITEMS[kind]]}_{unique}{index:04x}"
        self.texts: list[str] = []
        self.logprobs: list[Logprob] = []
        self.hidden = kind is Kind.REASONING and hides_reasoning
        """No text of it is shown."""
        self._name = name
        self._namespace = namespace
        self._call_id = f"call_{unique}{index:04x}"

    @property
    def has_part(self) -> bool:
        """Whether its text stands in a content part."""
        match self.kind:
            case Kind.ANSWER | Kind.PREAMBLE:
                return True
            case Kind.REASONING:
                return not self.hidden
            case Kind.FUNCTION_CALL | Kind.CUSTOM_CALL:
                return False
            case _:
                assert_never(self.kind)

    def write_part(self, part: OutputContentPart, text: str) -> None:
        """Fill in the content part of an item that has one."""
        if self.kind is Kind.REASONING:
            part.reasoning_text.text = text
            return
        part.output_text.text = text
        if self.logprobs:
            part.output_text.logprobs.extend(self.logprobs)

    def write(
        self,
        item: OutputItem,
        status: ItemStatus.ValueType,
        text: str | None,
        seal: Callable[[str], str] | None = None,
    ) -> None:
        """Fill in the item; `text` is None while nothing of its content is announced yet.

        `seal` makes the `encrypted_content` of reasoning.
        """
        match self.kind:
            case Kind.ANSWER | Kind.PREAMBLE:
                message = item.message
                message.id = self.id
                message.role = ROLE_ASSISTANT
                message.status = status
                message.phase = _PHASES[self.kind]
                if text is not None:
                    self.write_part(message.content.add(), text)
            case Kind.REASONING:
                reasoning = item.reasoning
                reasoning.id = self.id
                reasoning.status = status
                if text is not None and not self.hidden:
                    reasoning.content.add().text = text
                if text is not None and seal:
                    reasoning.encrypted_content = seal(text)
            case Kind.FUNCTION_CALL:
                self._write_call(item.function_call, status)
                item.function_call.arguments = text or ""
            case Kind.CUSTOM_CALL:
                self._write_call(item.custom_tool_call, status)
                item.custom_tool_call.input = text or ""
            case _:
                assert_never(self.kind)

    def _write_call(self, call: FunctionCall | CustomToolCall, status: ItemStatus.ValueType) -> None:
        call.id = self.id
        call.call_id = self._call_id
        call.name = self._name
        if self._namespace:
            call.namespace = self._namespace
        call.status = status
