"""The tools that the model is shown."""

from __future__ import annotations

from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import TOOL_CHOICE_MODE_NONE, FunctionTool


def function_tools(request: CreateResponseRequest) -> list[FunctionTool]:
    """Return the request's functions, in its order; none when it wants no calls."""
    if request.tool_choice.mode == TOOL_CHOICE_MODE_NONE:
        return []
    return [tool.function for tool in request.tools if tool.HasField("function")]
