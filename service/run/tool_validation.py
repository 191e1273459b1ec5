"""Checks the tools of a request, and what it wants of them."""

from __future__ import annotations

from typing import Final

from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import Grammar, ToolSelection

from service.dialect.callable_tools import (
    RequestTools,
    names_of,
    request_tools,
    selected_names,
    selections,
)
from service.errors import InvalidRequest
from service.run.names import NAME_RULE, is_name
from service.run.opening import is_offered, tool_type

MAX_TOOLS: Final = 1024
"""Most tools of a request, namespaces and those in them included; and most selections of `tool_choice`."""
MAX_SCHEMAS_BYTES: Final = 2**19
"""Most bytes of a request's schemas and grammars, all together."""
MAX_GRAMMAR_BYTES: Final = 2**16
"""Largest grammar of a custom tool."""
MAX_GRAMMAR_LEVELS: Final = 1000
"""Most rules and opening brackets of a lark grammar. llguidance follows them by recursion: some 2,500 rules
in a row end the process."""


def check_tools(request: CreateResponseRequest, *, rejects_unoffered: bool) -> RequestTools:
    """Check tools and tool_choice, and return them; with `rejects_unoffered`, all tools must be offered here.

    Raises:
        InvalidRequest: `param` names the field.

    """
    _check_counts(request)
    _check_namespaces(request)
    tools = request_tools(request)
    names: set[str] = set()
    for tool in tools.offered:
        if not tool.bare_name:
            raise InvalidRequest(
                f"{tool.path}.name is missing: it stands beside type here, unlike in Chat Completions.",
                param=f"{tool.path}.name",
            )
        if not is_name(tool.bare_name):
            raise InvalidRequest(f"{tool.path}.name must be {NAME_RULE}.", param=f"{tool.path}.name")
        if tool.name in names:
            raise InvalidRequest(
                f"{tool.path}.name {tool.name!r} is declared twice: give each tool its own name.",
                param=f"{tool.path}.name",
            )
        if tool.grammar:
            _check_grammar(tool.grammar, f"{tool.path}.format")
        names.add(tool.name)
    if schema_bytes(request, tools) > MAX_SCHEMAS_BYTES:
        raise InvalidRequest(
            f"tools and text.format may hold {MAX_SCHEMAS_BYTES} bytes of schemas and grammars at most.",
            param="tools",
        )
    _check_tool_choice(request, tools)
    if rejects_unoffered:
        _check_all_offered(request)
    return tools


def _check_counts(request: CreateResponseRequest) -> None:
    """First of all: what follows looks at each of them."""
    count = len(request.tools)
    if count <= MAX_TOOLS:
        count += sum(len(tool.namespace.tools) for tool in request.tools if tool.HasField("namespace"))
    if count > MAX_TOOLS:
        raise InvalidRequest(
            f"tools may hold {MAX_TOOLS} tools at most, namespaces and those in them included.", param="tools"
        )
    if len(request.tool_choice.selection.allowed_tools.tools) > MAX_TOOLS:
        raise InvalidRequest(
            f"tool_choice.tools may name {MAX_TOOLS} tools at most.", param="tool_choice.tools"
        )


def _check_grammar(grammar: Grammar, path: str) -> None:
    if grammar.syntax not in ("lark", "regex"):
        raise InvalidRequest(f"{path}.syntax must be lark or regex.", param=f"{path}.syntax")
    if len(grammar.definition.encode()) > MAX_GRAMMAR_BYTES:
        raise InvalidRequest(
            f"{path}.definition may have {MAX_GRAMMAR_BYTES} bytes at most.", param=f"{path}.definition"
        )
    # Those in strings count, too: the text is not read here.
    if grammar.syntax == "lark" and sum(map(grammar.definition.count, ":([{")) > MAX_GRAMMAR_LEVELS:
        raise InvalidRequest(
            f"{path}.definition may have {MAX_GRAMMAR_LEVELS} rules and opening brackets at most.",
            param=f"{path}.definition",
        )


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
            if not is_name(name) or name in names:
                raise InvalidRequest(
                    f"tools[{i}].name must be {NAME_RULE}, not functions, and each namespace's own.",
                    param=f"tools[{i}].name",
                )
            names.add(name)


def _check_tool_choice(request: CreateResponseRequest, tools: RequestTools) -> None:
    several = request.tool_choice.selection.HasField("allowed_tools")
    known = {name for tool in tools.offered for name in names_of(tool)}
    for i, selection in enumerate(selections(request)):
        _check_selection(selection, known, f"tool_choice.tools[{i}]" if several else "tool_choice")
    if tools.call_required and not tools.allowed:
        raise InvalidRequest(
            "tool_choice wants a call, but tools holds nothing that may be called.", param="tool_choice"
        )


def _check_selection(selection: ToolSelection, known: set[tuple[bool, str]], path: str) -> None:
    if not (names := selected_names([selection])):
        member = selection.WhichOneof("selection")
        kind = selection.unknown.type if member == "unknown" else member
        raise InvalidRequest(
            f"{path} wants a tool of type {kind!r:.100}, which this server does not offer: use function, "
            "custom or allowed_tools.",
            code="unsupported_parameter",
            param=f"{path}.type",
        )
    if known.isdisjoint(names):
        [(_, name)] = names
        raise InvalidRequest(f"{path} names {name[:100]!r}, which tools does not hold.", param=f"{path}.name")


def schema_bytes(request: CreateResponseRequest, tools: RequestTools) -> int:
    """Return how much there is to compile: schemas and grammars of tools, and the schema of the answer."""
    texts = [tool.parameters or "" for tool in tools.offered]
    texts += [tool.grammar.definition for tool in tools.offered if tool.grammar]
    return sum(len(text.encode()) for text in (*texts, request.text.format.json_schema.schema))
