"""What a response must be to count as completed, beyond what the model likes to write. Sans-IO.

An engine that guides its output keeps these promises by itself. Any other may break them, and then the
response fails: a client that asked for a call or for JSON must not take something else for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from openresponses.v1.item_pb2 import CustomToolCall, FunctionCall, OutputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import TOOL_CHOICE_MODE_NONE

from service.dialect.callable_tools import RequestTools, whole_text_pattern
from service.errors import InvalidRequest
from service.run.answer_format import AnswerFormat, answer_format
from service.run.json_schema import JsonSchema, json_schema


@dataclass(frozen=True, slots=True)
class Promises:
    """The promises of one request."""

    calls: frozenset[str] | None = None
    """The only tools that may be called; None: any, also those that nobody offers."""
    call_required: bool = False
    """One of them must be."""
    arguments: Mapping[str, JsonSchema] = field(default_factory=dict)
    """What the arguments of strict functions must fit, by the functions' names."""
    answer: AnswerFormat | None = None
    """What the answer must be, where there is one."""

    @property
    def has_schemas(self) -> bool:
        """Texts have to fit schemas, so that looking for a broken promise may take long."""
        return bool(self.arguments) or self.answer is not None

    def broken(self, response: Response) -> str | None:
        """Return which promise a response breaks, in a sentence; None where it keeps them all."""
        calls = [call for item in response.output if (call := _call(item))]
        if self.call_required and not calls:
            return "The model called no tool, as tool_choice wants it. Try again."
        for call in calls:
            name = _name(call)
            if self.calls is not None and name not in self.calls:
                return f"The model called {name[:100]!r}, which tool_choice does not allow. Try again."
            if fault := self._arguments_fault(call, name):
                return f"What the model wrote for the strict function {name!r} {fault}. Try again."
        for item in response.output:
            if fault := self._answer_fault(item):
                return f"The model's answer {fault}, as text.format wants it. Try again."
        return None

    def _arguments_fault(self, call: FunctionCall | CustomToolCall, name: str) -> str | None:
        schema = self.arguments.get(name)
        return schema.fault(call.arguments) if schema and isinstance(call, FunctionCall) else None

    def _answer_fault(self, item: OutputItem) -> str | None:
        if self.answer is None or item.message.phase != "final_answer":
            return None
        return self.answer.fault("".join(part.output_text.text for part in item.message.content))


def promises(request: CreateResponseRequest, tools: RequestTools) -> Promises:
    """Return what a validated request is promised.

    Raises:
        InvalidRequest: the schema of a strict function or of the answer, or the regular expression of a
            custom tool cannot be used; `param` is its path.

    """
    for tool in tools.offered:
        if tool.grammar and tool.grammar.syntax == "regex":
            _check_regex(tool.grammar.definition, f"{tool.path}.format.definition")
    choice = request.tool_choice
    restricted = choice.HasField("selection") or choice.mode == TOOL_CHOICE_MODE_NONE
    return Promises(
        calls=frozenset(tool.name for tool in tools.allowed) if restricted else None,
        call_required=tools.call_required,
        arguments={
            tool.name: json_schema(tool.parameters, f"{tool.path}.parameters")
            for tool in tools.offered
            if tool.is_strict and tool.parameters
        },
        answer=answer_format(request.text.format),
    )


def _check_regex(regex: str, path: str) -> None:
    # By itself, too: as a part of a larger one, what is wrong might be right.
    for pattern in (regex, whole_text_pattern(regex)):
        try:
            json_schema(orjson.dumps({"pattern": pattern}).decode(), path)
        except InvalidRequest:
            raise InvalidRequest(
                f"{path} must be a regular expression, not too large, without look-around, back-references "
                "and a comment at its end.",
                param=path,
            ) from None


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
