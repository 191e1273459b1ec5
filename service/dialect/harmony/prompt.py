"""Renders a request as a Harmony prompt, up to `<|start|>assistant`.

The order is Harmony's: a system message (identity, reasoning effort, channels), a developer message
(instructions and function tools), then the input. openai-harmony writes the tokens; text that spells a
control token stays text.

Reasoning of earlier turns is dropped once a final message has followed it, and kept between the tool calls of
the turn that is still running. openai-harmony's own dropping stops at the first final message, so it is
switched off and done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import openai_harmony as harmony
import orjson
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import FunctionTool

from service.dialect.harmony.input_items import history
from service.dialect.harmony.vocabulary import load_encoding
from service.errors import InvalidRequest
from service.run.validation import function_tools

# OpenAI's efforts, and Harmony's three.
_EFFORTS: Final = {
    "": harmony.ReasoningEffort.MEDIUM,
    "none": harmony.ReasoningEffort.LOW,
    "minimal": harmony.ReasoningEffort.LOW,
    "low": harmony.ReasoningEffort.LOW,
    "medium": harmony.ReasoningEffort.MEDIUM,
    "high": harmony.ReasoningEffort.HIGH,
    "xhigh": harmony.ReasoningEffort.HIGH,
    "max": harmony.ReasoningEffort.HIGH,
}
_KEEP_ANALYSIS: Final = harmony.RenderConversationConfig(auto_drop_analysis=False)


def render(request: CreateResponseRequest, *, conversation_start_date: str | None = None) -> list[int]:
    """Return the prompt's tokens. `conversation_start_date` is a date as YYYY-MM-DD, told to the model.

    Raises:
        InvalidRequest: the input is missing, or an item or tool cannot be rendered; `param` names it.
    """
    messages = [
        _system(request, conversation_start_date),
        *_developer(request),
        *_without_stale_analysis(history(request.input)),
    ]
    tokens: list[int] = load_encoding().render_conversation_for_completion(
        harmony.Conversation.from_messages(messages), harmony.Role.ASSISTANT, _KEEP_ANALYSIS
    )
    return tokens


def _system(request: CreateResponseRequest, conversation_start_date: str | None) -> harmony.Message:
    effort = _EFFORTS.get(request.reasoning.effort)
    if effort is None:
        raise InvalidRequest(
            f"reasoning.effort must be one of {', '.join(filter(None, _EFFORTS))}.", param="reasoning.effort"
        )
    content = harmony.SystemContent.new().with_reasoning_effort(effort)
    if conversation_start_date is not None:
        content = content.with_conversation_start_date(conversation_start_date)
    return harmony.Message.from_role_and_content(harmony.Role.SYSTEM, content)


def _developer(request: CreateResponseRequest) -> list[harmony.Message]:
    tools = [_tool(request, tool) for tool in function_tools(request)]
    if not (tools or request.instructions):
        return []
    content = harmony.DeveloperContent.new()
    if request.instructions:
        content = content.with_instructions(request.instructions)
    if tools:
        content = content.with_function_tools(tools)
    return [harmony.Message.from_role_and_content(harmony.Role.DEVELOPER, content)]


def _tool(request: CreateResponseRequest, tool: FunctionTool) -> harmony.ToolDescription:
    parameters = orjson.loads(tool.parameters) if tool.parameters else None
    if not (parameters is None or isinstance(parameters, dict)):
        index = next(i for i, other in enumerate(request.tools) if other.function.name == tool.name)
        raise InvalidRequest(
            f"tools[{index}].parameters must be a JSON Schema of type object.",
            param=f"tools[{index}].parameters",
        )
    return harmony.ToolDescription.new(tool.name, tool.description, parameters)


def _without_stale_analysis(messages: Sequence[harmony.Message]) -> list[harmony.Message]:
    last_final = max((i for i, m in enumerate(messages) if m.channel == "final"), default=-1)
    return [m for i, m in enumerate(messages) if m.channel != "analysis" or i > last_final]
