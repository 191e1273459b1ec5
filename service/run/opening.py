"""The response as it is before the model has said anything: the request's parameters, echoed as they act."""

from __future__ import annotations

from typing import Literal, get_args

from openresponses.v1.response_pb2 import TRUNCATION_DISABLED, Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import RESPONSE_STATUS_IN_PROGRESS, RESPONSE_STATUS_QUEUED
from openresponses.v1.tool_pb2 import TOOL_CHOICE_MODE_AUTO, Tool

from service.dialect.callable_tools import parallel_tool_calls
from service.engine.base import ModelInfo

_EchoedWhenSet = Literal[
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "safety_identifier",
    "user",
]


def opened_response(
    request: CreateResponseRequest, model: ModelInfo, *, response_id: str, created_at: float
) -> Response:
    """Return the response to a validated `request`, in progress or queued, and without output.

    It shows what is in force, not what was sent: defaults filled in, tools that are not offered left out.
    `created_at` is Unix time in seconds.
    """
    response = Response(
        id=response_id,
        object="response",
        created_at=created_at,
        status=RESPONSE_STATUS_QUEUED if request.background else RESPONSE_STATUS_IN_PROGRESS,
        model=model.id,
        tools=[tool for tool in request.tools if is_offered(tool)],
        parallel_tool_calls=parallel_tool_calls(request),
        temperature=request.temperature if request.HasField("temperature") else model.default_temperature,
        top_p=request.top_p if request.HasField("top_p") else model.default_top_p,
        top_logprobs=request.top_logprobs,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        truncation=request.truncation or TRUNCATION_DISABLED,
        store=is_kept(request),
        background=request.background,
        service_tier="default",
        prompt_cache_retention="in_memory" if request.HasField("prompt_cache_retention") else None,
        metadata=request.metadata,
    )
    # What holds more is filled in place: handing it over would copy it twice.
    if request.HasField("tool_choice"):
        response.tool_choice.CopyFrom(request.tool_choice)
    else:
        response.tool_choice.mode = TOOL_CHOICE_MODE_AUTO
    if request.text.HasField("format"):
        response.text.format.CopyFrom(request.text.format)
    else:
        response.text.format.text.SetInParent()
    response.reasoning.effort = request.reasoning.effort or "medium"
    if conversation := conversation_id(request):
        response.conversation.id = conversation
    if request.HasField("instructions"):
        response.instructions.text = request.instructions
    if request.text.HasField("verbosity"):
        response.text.verbosity = request.text.verbosity
    for name in get_args(_EchoedWhenSet):
        if request.HasField(name):
            setattr(response, name, getattr(request, name))
    return response


def is_kept(request: CreateResponseRequest) -> bool:
    """Whether the response is to be kept; so by default."""
    return request.store if request.HasField("store") else True


def conversation_id(request: CreateResponseRequest) -> str:
    """Return the id of the conversation that a request belongs to; empty where it belongs to none."""
    return request.conversation.id or request.conversation.conversation.id


def unoffered_tool_types(request: CreateResponseRequest) -> list[str]:
    """Return the types of the tools that are left out of prompt and response, each once, in order."""
    return list(dict.fromkeys(tool_type(tool) for tool in request.tools if not is_offered(tool)))


def is_offered(tool: Tool) -> bool:
    """Whether the model may be shown a tool here."""
    return tool.WhichOneof("tool") in ("function", "custom", "namespace")


def tool_type(tool: Tool) -> str:
    """Return a tool's type in OpenAI's words."""
    member = tool.WhichOneof("tool")
    return (tool.unknown.type if member == "unknown" else member) or "unknown"
