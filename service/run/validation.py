"""Checks a request before anything runs: wrong values and what is not offered here are refused by name.

Nothing is silently ignored: a parameter is honoured, echoed as the hint that it is, or refused here with the
field's path and what to do instead. What a value means to the prompt (roles, item pairing) is checked where
the prompt is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from openresponses.v1.response_pb2 import TRUNCATION_AUTO
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import (
    TOOL_CHOICE_MODE_AUTO,
    TOOL_CHOICE_MODE_NONE,
    TOOL_CHOICE_MODE_REQUIRED,
    ToolChoiceMode,
)

from service.dialect.function_tools import function_tools
from service.engine.base import FunctionSchema, Guidance, ModelInfo
from service.errors import InvalidRequest
from service.run.opening import is_kept

MAX_METADATA_PAIRS: Final = 16
MAX_METADATA_KEY_CHARACTERS: Final = 64
MAX_METADATA_VALUE_CHARACTERS: Final = 512
MAX_TOOLS: Final = 1024

SEALED_REASONING: Final = "reasoning.encrypted_content"
"""Of `include`: reasoning items come with what gives them back to a server that has not kept them."""

_LOGPROBS: Final = "message.output_text.logprobs"
# What they would add to has no items here: they are honoured by there being nothing to add.
_OF_HOSTED_TOOLS: Final = frozenset(
    {
        "code_interpreter_call.outputs",
        "computer_call_output.output.image_url",
        "file_search_call.results",
        "web_search_call.action.sources",
        "web_search_call.results",
    }
)
_FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How far a request may choose its own flushing."""

    max_interval_tokens: int
    """Most tokens to a flush."""
    max_interval_ms: int
    """Most milliseconds that tokens may wait."""


def validate(request: CreateResponseRequest, model: ModelInfo, limits: StreamLimits) -> None:
    """Check everything of `request` that does not depend on the prompt.

    Raises:
        InvalidRequest: `param` names the field.

    """
    _check_numbers(request, limits)
    _check_offered(request)
    _check_include(request, model)
    _check_kept(request)
    check_metadata(request.metadata)
    _check_tools(request, model)


def top_logprobs(request: CreateResponseRequest) -> int | None:
    """Return how many alternatives each token comes with; None where no log-probabilities are wanted."""
    return request.top_logprobs if _LOGPROBS in request.include else None


def guidance(request: CreateResponseRequest) -> Guidance:
    """Return what the engine has to hold the output of a validated request to."""
    choice = request.tool_choice
    functions = function_tools(request)
    if choice.selection.HasField("function"):
        functions = [tool for tool in functions if tool.name == choice.selection.function.name]
    return Guidance(
        functions=tuple(
            FunctionSchema(
                tool.name, tool.parameters if tool.HasField("parameters") else None, tool.description
            )
            for tool in functions
        ),
        call_required=choice.mode == TOOL_CHOICE_MODE_REQUIRED or choice.HasField("selection"),
    )


def _check_numbers(request: CreateResponseRequest, limits: StreamLimits) -> None:
    options = request.stream_options
    checks: Iterable[tuple[object, str, float, float]] = (
        (request, "temperature", 0, 2),
        (request, "top_p", 0, 1),
        (request, "max_output_tokens", 1, 2**31 - 1),
        (request, "max_tool_calls", 1, 2**31 - 1),
        (request, "top_logprobs", 0, 20),
        (options, "stream_interval", 1, limits.max_interval_tokens),
        (options, "stream_interval_ms", 0, limits.max_interval_ms),
    )
    for message, name, least, most in checks:
        if message.HasField(name):  # type: ignore[attr-defined]
            value = getattr(message, name)
            # Written so that NaN is refused.
            if not least <= value <= most:
                param = f"stream_options.{name}" if message is options else name
                raise InvalidRequest(
                    f"{param} must be between {least} and {most}; it is {value}.", param=param
                )
    if request.HasField("top_p") and request.top_p == 0:
        raise InvalidRequest("top_p must be above 0.", param="top_p")


def _check_offered(request: CreateResponseRequest) -> None:
    """Refuse what changes the outcome and is not offered."""
    unoffered = (
        ("prompt", request.HasField("prompt"), "write the prompt out in instructions and input"),
        ("moderation", request.HasField("moderation"), "leave it out"),
        ("context_management", bool(request.context_management), "leave it out"),
        ("truncation", request.truncation == TRUNCATION_AUTO, 'use "disabled", and shorten the input'),
        ("max_tool_calls", request.HasField("max_tool_calls"), "use parallel_tool_calls: false"),
        (
            "text.format",
            request.text.HasField("format") and not request.text.format.HasField("text"),
            'use {"type": "text"}',
        ),
    )
    for param, asked, instead in unoffered:
        if asked:
            raise InvalidRequest(
                f"{param} is not supported by this server: {instead}.",
                code="unsupported_parameter",
                param=param,
            )


def _check_kept(request: CreateResponseRequest) -> None:
    if request.background and not is_kept(request):
        raise InvalidRequest("background needs store: true.", param="store")


def _check_include(request: CreateResponseRequest, model: ModelInfo) -> None:
    for i, name in enumerate(request.include):
        if name in _OF_HOSTED_TOOLS or name == SEALED_REASONING:
            continue
        if name != _LOGPROBS:
            raise InvalidRequest(
                f"include[{i}] is not supported by this server: {_LOGPROBS} and {SEALED_REASONING} are.",
                code="unsupported_parameter",
                param=f"include[{i}]",
            )
        if not model.logprobs:
            raise InvalidRequest(
                f"The model {model.id} gives no log-probabilities: leave {_LOGPROBS} out of include.",
                code="unsupported_parameter",
                param=f"include[{i}]",
            )
    if request.top_logprobs and _LOGPROBS not in request.include:
        raise InvalidRequest(f'top_logprobs needs include: ["{_LOGPROBS}"].', param="top_logprobs")


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Check the notes that are kept with a response or a conversation.

    Raises:
        InvalidRequest: there are too many, or too long ones.

    """
    if len(metadata) > MAX_METADATA_PAIRS:
        raise InvalidRequest(f"metadata may hold {MAX_METADATA_PAIRS} pairs at most.", param="metadata")
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY_CHARACTERS or len(value) > MAX_METADATA_VALUE_CHARACTERS:
            raise InvalidRequest(
                f"metadata keys may have {MAX_METADATA_KEY_CHARACTERS} characters at most, values "
                f"{MAX_METADATA_VALUE_CHARACTERS}.",
                param="metadata",
            )


def _check_tools(request: CreateResponseRequest, model: ModelInfo) -> None:
    if len(request.tools) > MAX_TOOLS:
        raise InvalidRequest(f"tools may hold {MAX_TOOLS} tools at most.", param="tools")
    names: set[str] = set()
    for i, tool in enumerate(request.tools):
        if not tool.HasField("function"):
            continue
        name = tool.function.name
        if not _FUNCTION_NAME.fullmatch(name):
            raise InvalidRequest(
                f"tools[{i}].name must be 1 to 64 letters, digits, '_' or '-'.", param=f"tools[{i}].name"
            )
        if name in names:
            raise InvalidRequest(
                f"tools[{i}].name {name!r} is declared twice: give each function its own name.",
                param=f"tools[{i}].name",
            )
        names.add(name)
    _check_tool_choice(request, model, names)


def _check_tool_choice(request: CreateResponseRequest, model: ModelInfo, names: set[str]) -> None:
    choice = request.tool_choice
    if choice.HasField("selection"):
        selected = choice.selection.WhichOneof("selection")
        if selected != "function":
            raise InvalidRequest(
                "tool_choice may be none, auto, required or a function.",
                code="unsupported_parameter",
                param="tool_choice.type",
            )
        if choice.selection.function.name not in names:
            raise InvalidRequest(
                f"tool_choice names {choice.selection.function.name!r}, which tools does not hold.",
                param="tool_choice.name",
            )
    elif choice.mode in (
        ToolChoiceMode.TOOL_CHOICE_MODE_UNSPECIFIED,
        TOOL_CHOICE_MODE_AUTO,
        TOOL_CHOICE_MODE_NONE,
    ):
        return
    elif not names:
        raise InvalidRequest("tool_choice is required, but tools holds no function.", param="tool_choice")
    if not model.guided:
        raise InvalidRequest(
            f"The model {model.id!r} cannot be made to call a tool: use tool_choice auto.",
            code="unsupported_parameter",
            param="tool_choice",
        )
