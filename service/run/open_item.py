"""The item that a response is writing: what it looks like at any moment. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from openresponses.v1.content_pb2 import Logprob, OutputContentPart, OutputText, ReasoningText
from openresponses.v1.item_pb2 import (
    ROLE_ASSISTANT,
    CustomToolCall,
    FunctionCall,
    OutputItem,
    OutputMessage,
    ReasoningItem,
)
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

    def part(self, text: str) -> OutputContentPart | None:
        """Return the content part that holds the text; None where the item has no parts."""
        match self.kind:
            case Kind.ANSWER | Kind.PREAMBLE:
                return OutputContentPart(output_text=OutputText(text=text, logprobs=self.logprobs))
            case Kind.REASONING if self.hidden:
                return None
            case Kind.REASONING:
                return OutputContentPart(reasoning_text=ReasoningText(text=text))
            case Kind.FUNCTION_CALL | Kind.CUSTOM_CALL:
                return None
            case _:
                assert_never(self.kind)

    def snapshot(
        self, status: ItemStatus.ValueType, text: str | None, seal: Callable[[str], str] | None = None
    ) -> OutputItem:
        """Return the item; `text` is None while nothing of its content is announced yet.

        `seal` makes the `encrypted_content` of reasoning.
        """
        match self.kind:
            case Kind.ANSWER | Kind.PREAMBLE:
                part = None if text is None else self.part(text)
                return OutputItem(
                    message=OutputMessage(
                        id=self.id,
                        role=ROLE_ASSISTANT,
                        status=status,
                        content=[part] if part else [],
                        phase=_PHASES[self.kind],
                    )
                )
            case Kind.REASONING:
                texts = [ReasoningText(text=text)] if text is not None and not self.hidden else []
                item = ReasoningItem(id=self.id, status=status, content=texts)
                if text is not None and seal:
                    item.encrypted_content = seal(text)
                return OutputItem(reasoning=item)
            case Kind.FUNCTION_CALL:
                return OutputItem(
                    function_call=FunctionCall(
                        id=self.id,
                        call_id=self._call_id,
                        name=self._name,
                        namespace=self._namespace or None,
                        arguments=text or "",
                        status=status,
                    )
                )
            case Kind.CUSTOM_CALL:
                return OutputItem(
                    custom_tool_call=CustomToolCall(
                        id=self.id,
                        call_id=self._call_id,
                        name=self._name,
                        namespace=self._namespace or None,
                        input=text or "",
                        status=status,
                    )
                )
            case _:
                assert_never(self.kind)
