"""What a request says of tools that the client runs: which there are, which the model may and must call.

Three kinds are one to a model: functions, functions in a namespace, and custom tools, whose free text it
writes as the one property of an object. A tool's name in prompts and output is NAME, or NAMESPACE.NAME.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import (
    TOOL_CHOICE_MODE_NONE,
    TOOL_CHOICE_MODE_REQUIRED,
    CustomTool,
    FunctionTool,
    Grammar,
    ToolSelection,
)

CUSTOM_INPUT: Final = "input"
"""The property that holds the text for a custom tool."""


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that the model may call and the client runs."""

    name: str
    """NAME, or NAMESPACE.NAME."""
    namespace: str
    """Empty for none."""
    bare_name: str
    description: str
    parameters: str | None
    """JSON Schema of the arguments as JSON text, or None where there are none."""
    is_strict: bool
    """Its arguments are promised to fit `parameters`."""
    is_custom: bool
    """Its argument is text: the property `CUSTOM_INPUT`."""
    grammar: Grammar | None
    """What the text of a custom tool must look like; None: any text."""
    path: str
    """Its place in the request."""

    @property
    def arguments_path(self) -> str:
        """The request field that says what its arguments may be."""
        return f"{self.path}.format.definition" if self.is_custom else f"{self.path}.parameters"

    @property
    def full_description(self) -> str:
        """What the model is told of it: the description, and the grammar that its text must match."""
        if not self.grammar:
            return self.description
        described = f"The input must match this {self.grammar.syntax} grammar:\n{self.grammar.definition}"
        return "\n\n".join(filter(None, [self.description, described]))


@dataclass(frozen=True, slots=True)
class RequestTools:
    """The tools of one request, worked out once."""

    offered: Sequence[CallableTool]
    """All that the model could call, in order."""
    allowed: Sequence[CallableTool]
    """Those that it may call, as `tool_choice` leaves them."""
    call_required: bool
    """It must call one of them."""


def request_tools(request: CreateResponseRequest) -> RequestTools:
    """Return what a request says of tools."""
    offered = callable_tools(request)
    return RequestTools(offered, _allowed(request, offered), call_required(request))


def callable_tools(request: CreateResponseRequest) -> list[CallableTool]:
    """Return all tools on offer, in order."""
    return list(_tools(request))


def shown_tools(request: CreateResponseRequest) -> list[CallableTool]:
    """Return the tools that the model is shown; none when the request wants no calls."""
    return [] if request.tool_choice.mode == TOOL_CHOICE_MODE_NONE else callable_tools(request)


def selections(request: CreateResponseRequest) -> list[ToolSelection]:
    """Return the selections of `tool_choice`, one or several; none where it has only a mode."""
    choice = request.tool_choice
    if not choice.HasField("selection"):
        return []
    selected = choice.selection
    return list(selected.allowed_tools.tools) if selected.HasField("allowed_tools") else [selected]


def selected_names(selections: Iterable[ToolSelection]) -> set[tuple[bool, str]]:
    """Return what selections, none of them of several tools, mean: whether a custom tool, and its name."""
    names: set[tuple[bool, str]] = set()
    for selection in selections:
        match selection.WhichOneof("selection"):
            case "function":
                names.add((False, selection.function.name))
            case "custom":
                names.add((True, selection.custom.name))
            case _:
                pass
    return names


def names_of(tool: CallableTool) -> set[tuple[bool, str]]:
    """Return what a selection may call a tool: its name, with its namespace or without."""
    return {(tool.is_custom, tool.name), (tool.is_custom, tool.bare_name)}


def _allowed(request: CreateResponseRequest, offered: Sequence[CallableTool]) -> Sequence[CallableTool]:
    if request.tool_choice.mode == TOOL_CHOICE_MODE_NONE:
        return []
    if not request.tool_choice.HasField("selection"):
        return offered
    wanted = selected_names(selections(request))
    return [tool for tool in offered if not wanted.isdisjoint(names_of(tool))]


def call_required(request: CreateResponseRequest) -> bool:
    """Whether the model must call one of the allowed tools."""
    choice = request.tool_choice
    if choice.HasField("selection") and choice.selection.HasField("allowed_tools"):
        return choice.selection.allowed_tools.mode == TOOL_CHOICE_MODE_REQUIRED
    return choice.HasField("selection") or choice.mode == TOOL_CHOICE_MODE_REQUIRED


def tool_names(request: CreateResponseRequest) -> frozenset[str]:
    """Return the names of all tools on offer, shown or not."""
    return frozenset(tool.name for tool in _tools(request))


def parallel_tool_calls(request: CreateResponseRequest) -> bool:
    """Whether the turn may hold several calls; so by default."""
    return request.parallel_tool_calls if request.HasField("parallel_tool_calls") else True


def custom_input_schema(grammar: Grammar | None) -> str:
    """Return the schema of the object that a custom tool's text is the one property of."""
    text = {"type": "string"}
    if grammar and grammar.syntax == "regex":
        text["pattern"] = whole_text_pattern(grammar.definition)
    return orjson.dumps(
        {
            "type": "object",
            "properties": {CUSTOM_INPUT: text},
            "required": [CUSTOM_INPUT],
            "additionalProperties": False,
        }
    ).decode()


def whole_text_pattern(regex: str) -> str:
    """Return the pattern of a JSON Schema that a text matches when all of it matches a regular expression."""
    return f"^(?:{regex})$"


def _tools(request: CreateResponseRequest) -> Iterator[CallableTool]:
    for i, tool in enumerate(request.tools):
        path = f"tools[{i}]"
        match tool.WhichOneof("tool"):
            case "function":
                yield _function(tool.function, "", path)
            case "custom":
                yield _custom(tool.custom, "", path)
            case "namespace":
                for j, member in enumerate(tool.namespace.tools):
                    within = f"{path}.tools[{j}]"
                    if member.HasField("function"):
                        yield _function(member.function, tool.namespace.name, within)
                    elif member.HasField("custom"):
                        yield _custom(member.custom, tool.namespace.name, within)
            case _:
                pass


def _function(tool: FunctionTool, namespace: str, path: str) -> CallableTool:
    return CallableTool(
        _full_name(namespace, tool.name),
        namespace,
        tool.name,
        tool.description,
        tool.parameters if tool.HasField("parameters") else None,
        is_strict=tool.strict,
        is_custom=False,
        grammar=None,
        path=path,
    )


def _custom(tool: CustomTool, namespace: str, path: str) -> CallableTool:
    grammar = tool.format.grammar if tool.format.HasField("grammar") else None
    return CallableTool(
        _full_name(namespace, tool.name),
        namespace,
        tool.name,
        tool.description,
        custom_input_schema(grammar),
        is_strict=False,
        is_custom=True,
        grammar=grammar,
        path=path,
    )


def _full_name(namespace: str, name: str) -> str:
    return f"{namespace}.{name}" if namespace else name
