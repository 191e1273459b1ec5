"""Renders a request as a Harmony prompt, up to `<|start|>assistant`.

The order is Harmony's: a system message (identity, reasoning effort, channels), one developer message, then
the conversation. The developer message holds the instructions, the system and developer messages that the
input begins with, the tools and the format of the answer; such messages further on stand where they are.

Reasoning of earlier turns is dropped once a final message has followed it, and kept between the tool calls of
the turn that is still running.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile
from typing import Final

import openai_harmony as harmony
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony.input_items import input_messages
from service.dialect.harmony.message import Message
from service.dialect.harmony.prompt_tokens import PromptTokens
from service.dialect.harmony.response_format import response_format_section
from service.dialect.harmony.tools import tools_section
from service.dialect.harmony.vocabulary import START, load_encoding
from service.errors import InvalidRequest

# OpenAI's efforts and Harmony's three. None of them turns reasoning off: the models always may reason.
_EFFORTS: Final = {
    "none": harmony.ReasoningEffort.LOW,
    "minimal": harmony.ReasoningEffort.LOW,
    "low": harmony.ReasoningEffort.LOW,
    "medium": harmony.ReasoningEffort.MEDIUM,
    "high": harmony.ReasoningEffort.HIGH,
    "xhigh": harmony.ReasoningEffort.HIGH,
    "max": harmony.ReasoningEffort.HIGH,
}

# Harmony has no word for it: the model is told.
_VERBOSITIES: Final = {
    "low": "Keep the answer short: say only what is needed.",
    "medium": "",
    "high": "Answer at length, with details and explanations.",
}


def render(
    request: CreateResponseRequest,
    history: Sequence[InputItem] = (),
    *,
    max_tokens: int = sys.maxsize,
    conversation_start_date: str | None = None,
) -> list[int]:
    """Return the prompt's tokens, with `history` before the request's own input.

    `conversation_start_date` is a date as YYYY-MM-DD, told to the model.

    Raises:
        InvalidRequest: the input is missing, or an item or tool cannot be rendered; `param` names it.
        PromptTooLong: there are more than `max_tokens`.

    """
    effort = _effort(request)
    tools = tools_section(request)
    messages = input_messages(request.input, history)
    opening = [message.text for message in takewhile(_is_developer, messages)]
    instructions = "\n\n".join(filter(None, [request.instructions, *opening, _verbosity(request)]))
    declared = "\n\n".join(filter(None, [tools, response_format_section(request.text.format)]))

    prompt = PromptTokens(max_tokens)
    prompt.add(_system(effort, bool(tools), conversation_start_date))
    if instructions or declared:
        Message("developer", _developer_text(instructions, declared)).write(prompt)
    for message in _without_stale_reasoning(messages[len(opening) :]):
        if _is_developer(message):
            message = replace(message, text=_developer_text(message.text))
        message.write(prompt)
    prompt.add([START])
    prompt.add_text("assistant")
    return prompt.taken()


def _effort(request: CreateResponseRequest) -> harmony.ReasoningEffort:
    if not request.reasoning.HasField("effort"):
        return harmony.ReasoningEffort.MEDIUM
    effort = _EFFORTS.get(request.reasoning.effort)
    if effort is None:
        raise InvalidRequest(
            f"reasoning.effort must be one of {', '.join(_EFFORTS)}.", param="reasoning.effort"
        )
    return effort


@lru_cache(maxsize=16)
def _system(effort: harmony.ReasoningEffort, has_tools: bool, start_date: str | None) -> tuple[int, ...]:
    content = harmony.SystemContent.new().with_reasoning_effort(effort)
    if start_date is not None:
        content = content.with_conversation_start_date(start_date)
    return tuple(
        load_encoding().render(
            harmony.Message.from_role_and_content(harmony.Role.SYSTEM, content),
            harmony.RenderOptions(conversation_has_function_tools=has_tools),
        )
    )


def _verbosity(request: CreateResponseRequest) -> str:
    if not request.text.HasField("verbosity"):
        return ""
    hint = _VERBOSITIES.get(request.text.verbosity)
    if hint is None:
        raise InvalidRequest(
            f"text.verbosity must be one of {', '.join(_VERBOSITIES)}.", param="text.verbosity"
        )
    return hint


def _developer_text(instructions: str, declared: str = "") -> str:
    return "\n\n".join(filter(None, [instructions and f"# Instructions\n\n{instructions}", declared]))


def _is_developer(message: Message) -> bool:
    return message.author == "developer"


def _without_stale_reasoning(messages: Sequence[Message]) -> list[Message]:
    last_final = max((i for i, message in enumerate(messages) if message.channel == "final"), default=-1)
    return [m for i, m in enumerate(messages) if m.channel != "analysis" or i > last_final]
