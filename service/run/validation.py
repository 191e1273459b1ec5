"""Checks a request before anything runs: wrong values and what is not offered here are refused by name.

Nothing is silently ignored: a parameter is honoured, echoed as the hint that it is, or refused here with the
field's path and what to do instead. What a value means to the prompt (roles, item pairing) is checked where
the prompt is rendered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.callable_tools import RequestTools
from service.engine.base import FunctionSchema, Guidance, ModelInfo
from service.errors import InvalidRequest
from service.run.answer_format import AnswerFormat
from service.run.opening import is_kept
from service.run.tool_validation import check_tools

MAX_METADATA_PAIRS: Final = 16
MAX_METADATA_KEY_CHARACTERS: Final = 64
MAX_METADATA_VALUE_CHARACTERS: Final = 512

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


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What the server's settings allow requests."""

    max_interval_tokens: int
    """Most tokens to a flush."""
    max_interval_ms: int
    """Most milliseconds that tokens may wait."""
    rejects_unoffered_tools: bool = False
    """Tools that are not offered here are an error; else they are left out."""


def validate(request: CreateResponseRequest, model: ModelInfo, limits: RequestLimits) -> RequestTools:
    """Check everything of `request` that depends neither on the prompt nor on schemas; return its tools.

    Raises:
        InvalidRequest: `param` names the field.

    """
    _check_numbers(request, limits)
    _check_offered(request)
    _check_include(request, model)
    _check_kept(request)
    check_metadata(request.metadata)
    return check_tools(request, rejects_unoffered=limits.rejects_unoffered_tools)


def top_logprobs(request: CreateResponseRequest) -> int | None:
    """Return how many alternatives each token comes with; None where no log-probabilities are wanted."""
    return request.top_logprobs if _LOGPROBS in request.include else None


def guidance(tools: RequestTools, answer: AnswerFormat | None) -> Guidance:
    """Return what the engine has to hold the output of a validated request to."""
    return Guidance(
        functions=tuple(
            FunctionSchema(
                tool.name,
                tool.parameters,
                tool.full_description,
                tool.grammar.definition if tool.grammar and tool.grammar.syntax == "lark" else None,
                tool.arguments_path,
            )
            for tool in tools.allowed
        ),
        call_required=tools.call_required,
        answer_schema=answer.schema if answer else None,
    )


def _check_numbers(request: CreateResponseRequest, limits: RequestLimits) -> None:
    options = request.stream_options
    checks: Iterable[tuple[object, str, float, float]] = (
        (request, "temperature", 0, 2),
        (request, "top_p", 0, 1),
        (request, "max_output_tokens", 1, 2**31 - 1),
        (request, "max_tool_calls", 1, 2**31 - 1),
        (request, "top_logprobs", 0, 20),
        (request, "presence_penalty", -2, 2),
        (request, "frequency_penalty", -2, 2),
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
    reasoning, background = request.reasoning, request.background_options
    unoffered = (
        ("prompt", request.HasField("prompt"), "write the prompt out in instructions and input"),
        ("moderation", request.HasField("moderation"), "leave it out"),
        ("context_management", bool(request.context_management), "use POST /v1/responses/compact"),
        ("prompt_cache_options", request.HasField("prompt_cache_options"), "leave it out"),
        ("image", request.HasField("image"), "leave it out"),
        ("access_programs", request.HasField("access_programs"), "leave it out"),
        (
            "background_options.completion_window",
            background.completion_window not in ("", "soonest"),
            'use "soonest"',
        ),
        ("reasoning.context", reasoning.context == "all_turns", 'use "auto"'),
        ("reasoning.mode", reasoning.mode not in ("", "standard"), 'use "standard"'),
        (
            "stream_options.include_obfuscation",
            request.stream_options.include_obfuscation,
            "leave it out, or false",
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
    if is_kept(request):
        return
    for name, asked in (
        ("background", request.background),
        ("conversation", request.HasField("conversation")),
    ):
        if asked:
            raise InvalidRequest(f"{name} needs store: true.", param="store")


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
