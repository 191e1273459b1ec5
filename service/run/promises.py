"""What a response must be to count as completed, beyond what the model likes to write. Sans-IO.

An engine that guides its output keeps these promises by itself. Any other may break them, and then the
response fails: a client that asked for a call or for JSON must not take something else for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from openresponses.v1.item_pb2 import CustomToolCall, FunctionCall, OutputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import TOOL_CHOICE_MODE_NONE

from service.dialect.callable_tools import allowed_tools, call_required
from service.run.answer_format import AnswerFormat


@dataclass(frozen=True, slots=True)
class Promises:
    """The promises of one request."""

    calls: frozenset[str] | None = None
    """The only tools that may be called; None: any, also those that nobody offers."""
    call_required: bool = False
    """One of them must be."""
    answer: AnswerFormat | None = None
    """What the answer must be, where there is one."""

    def broken(self, response: Response) -> str | None:
        """Return which promise a response breaks, in a sentence; None where it keeps them all."""
        names = [_name(call) for item in response.output if (call := _call(item))]
        if self.call_required and not names:
            return "The model called no tool, as tool_choice wants it. Try again."
        if self.calls is not None:
            for name in names:
                if name not in self.calls:
                    return f"The model called {name[:100]!r}, which tool_choice does not allow. Try again."
        if self.answer is not None:
            for item in response.output:
                if item.message.phase == "final_answer" and (fault := self.answer.fault(_text(item))):
                    return fault
        return None


def promises(request: CreateResponseRequest, answer: AnswerFormat | None) -> Promises:
    """Return what a validated request is promised."""
    choice = request.tool_choice
    restricted = choice.HasField("selection") or choice.mode == TOOL_CHOICE_MODE_NONE
    return Promises(
        calls=frozenset(tool.name for tool in allowed_tools(request)) if restricted else None,
        call_required=call_required(request),
        answer=answer,
    )


def _call(item: OutputItem) -> FunctionCall | CustomToolCall | None:
    match item.WhichOneof("item"):
        case "function_call":
            return item.function_call
        case "custom_tool_call":
            return item.custom_tool_call
        case _:
            return None


def _name(call: FunctionCall | CustomToolCall) -> str:
    return f"{call.namespace}.{call.name}" if call.namespace else call.name


def _text(item: OutputItem) -> str:
    return "".join(part.output_text.text for part in item.message.content)
