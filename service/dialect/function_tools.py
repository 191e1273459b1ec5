"""What a request says of functions: those the model is shown, those it may name, how many it may call."""

from __future__ import annotations

from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import TOOL_CHOICE_MODE_NONE, FunctionTool


def function_tools(request: CreateResponseRequest) -> list[FunctionTool]:
    """Return the functions that the model is shown, in order; none when the request wants no calls."""
    if request.tool_choice.mode == TOOL_CHOICE_MODE_NONE:
        return []
    return [tool.function for tool in request.tools if tool.HasField("function")]


def function_names(request: CreateResponseRequest) -> frozenset[str]:
    """Return the names of all functions on offer, shown or not."""
    return frozenset(tool.function.name for tool in request.tools if tool.HasField("function"))


def parallel_tool_calls(request: CreateResponseRequest) -> bool:
    """Whether the turn may hold several calls; so by default."""
    return request.parallel_tool_calls if request.HasField("parallel_tool_calls") else True
