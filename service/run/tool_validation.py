"""Checks the tools of a request, and what it wants of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import ToolSelection

from service.dialect.callable_tools import (
    CallableTool,
    allowed_tools,
    call_required,
    callable_tools,
    selects,
)
from service.errors import InvalidRequest
from service.run.opening import is_offered, tool_type

MAX_TOOLS: Final = 1024

_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_tools(request: CreateResponseRequest, *, rejects_unoffered: bool) -> None:
    """Check tools and tool_choice; with `rejects_unoffered`, tools that are not offered here are an error.

    Raises:
        InvalidRequest: `param` names the field.

    """
    tools = callable_tools(request)
    if len(request.tools) + len(tools) > MAX_TOOLS:
        raise InvalidRequest(f"tools may hold {MAX_TOOLS} tools at most.", param="tools")
    _check_namespaces(request)
    names: set[str] = set()
    for tool in tools:
        if not _TOOL_NAME.fullmatch(tool.bare_name):
            raise InvalidRequest(
                f"{tool.path}.name must be 1 to 64 letters, digits, '_' or '-'.", param=f"{tool.path}.name"
            )
        if tool.name in names:
            raise InvalidRequest(
                f"{tool.path}.name {tool.name!r} is declared twice: give each tool its own name.",
                param=f"{tool.path}.name",
            )
        if tool.grammar and tool.grammar.syntax not in ("lark", "regex"):
            raise InvalidRequest(
                f"{tool.path}.format.syntax must be lark or regex.", param=f"{tool.path}.format.syntax"
            )
        names.add(tool.name)
    _check_tool_choice(request)
    if rejects_unoffered:
        _check_all_offered(request)


def _check_all_offered(request: CreateResponseRequest) -> None:
    for i, tool in enumerate(request.tools):
        if not is_offered(tool):
            raise InvalidRequest(
                f"tools[{i}] is of type {tool_type(tool)!r:.100}, which this server does not offer: use "
                "function, custom or namespace.",
                code="unsupported_value",
                param=f"tools[{i}].type",
            )


def _check_namespaces(request: CreateResponseRequest) -> None:
    names = {"functions"}
    for i, tool in enumerate(request.tools):
        if tool.HasField("namespace"):
            name = tool.namespace.name
            if not _TOOL_NAME.fullmatch(name) or name in names:
                raise InvalidRequest(
                    f"tools[{i}].name must be 1 to 64 letters, digits, '_' or '-', not functions, and each "
                    "namespace's own.",
                    param=f"tools[{i}].name",
                )
            names.add(name)


def _check_tool_choice(request: CreateResponseRequest) -> None:
    choice = request.tool_choice
    if choice.HasField("selection"):
        tools = callable_tools(request)
        if choice.selection.HasField("allowed_tools"):
            for i, selection in enumerate(choice.selection.allowed_tools.tools):
                _check_selection(selection, tools, f"tool_choice.tools[{i}]")
        else:
            _check_selection(choice.selection, tools, "tool_choice")
    if call_required(request) and not allowed_tools(request):
        raise InvalidRequest(
            "tool_choice wants a call, but tools holds nothing that may be called.", param="tool_choice"
        )


def _check_selection(selection: ToolSelection, tools: Sequence[CallableTool], path: str) -> None:
    match selection.WhichOneof("selection"):
        case "function":
            name = selection.function.name
        case "custom":
            name = selection.custom.name
        case other:
            kind = selection.unknown.type if other == "unknown" else other
            raise InvalidRequest(
                f"{path} wants a tool of type {kind!r:.100}, which this server does not offer: use function, "
                "custom or allowed_tools.",
                code="unsupported_parameter",
                param=f"{path}.type",
            )
    if not any(selects(selection, tool) for tool in tools):
        raise InvalidRequest(f"{path} names {name[:100]!r}, which tools does not hold.", param=f"{path}.name")
