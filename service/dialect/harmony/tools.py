"""Tools as the section of the developer message that declares them.

openai-harmony writes the declarations, from JSON Schema and in its order of keys. It tokenizes what it
writes, in time quadratic in the length of a word and with a limit on nesting; the limits here keep it well
away from both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import openai_harmony as harmony
import orjson
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.callable_tools import CallableTool, shown_tools
from service.dialect.harmony.vocabulary import MESSAGE, load_encoding
from service.errors import InvalidRequest

MAX_TOOLS_BYTES: Final = 2**19
"""Most bytes of descriptions and schemas, all tools together: more than fits a context."""
MAX_SCHEMA_LEVELS: Final = 64
"""Deepest nesting of arrays and objects in `parameters`."""
MAX_WORD_CHARS: Final = 2000
"""Longest stretch without white space in a text of a tool, and longest stretch of nothing else."""

# Looked for only where a stretch begins, so that each character is passed once.
_LONG_WORD: Final = re.compile(rf"(?<!\S)\S{{{MAX_WORD_CHARS + 1}}}|(?<!\s)\s{{{MAX_WORD_CHARS + 1}}}")


def tools_section(request: CreateResponseRequest) -> str:
    """Return the section, empty when the model is shown no tools.

    Raises:
        InvalidRequest: a tool cannot be rendered; `param` is its path.

    """
    tools = shown_tools(request)
    if not tools:
        return ""
    namespaces = [
        (tool.namespace, f"tools[{i}].description")
        for i, tool in enumerate(request.tools)
        if tool.HasField("namespace")
    ]
    texts = [text for tool in tools for text in (tool.description, tool.parameters or "")]
    texts += [namespace.description for namespace, _ in namespaces]
    if sum(len(text.encode()) for text in texts) > MAX_TOOLS_BYTES:
        raise InvalidRequest(
            f"tools may hold {MAX_TOOLS_BYTES} bytes of descriptions and schemas at most.", param="tools"
        )
    content = harmony.DeveloperContent.new()
    if functions := [_description(tool) for tool in tools if not tool.namespace]:
        content = content.with_function_tools(functions)
    for namespace, path in namespaces:
        _check_words([namespace.description], path)
        members = [_description(tool) for tool in tools if tool.namespace == namespace.name]
        content = content.with_tools(
            harmony.ToolNamespaceConfig(
                name=namespace.name, description=namespace.description or None, tools=members
            )
        )
    encoding = load_encoding()
    tokens = encoding.render(harmony.Message.from_role_and_content(harmony.Role.DEVELOPER, content))
    section: str = encoding.decode_utf8(tokens[tokens.index(MESSAGE) + 1 : -1])
    return section


def _description(tool: CallableTool) -> harmony.ToolDescription:
    _check_words([tool.description], f"{tool.path}.description")
    parameters = _parameters(tool.parameters, f"{tool.path}.parameters") if tool.parameters else None
    return harmony.ToolDescription.new(tool.bare_name, tool.description, parameters)


def _parameters(text: str, path: str) -> dict[str, Any]:
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError:
        schema = None
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{path} must be a JSON Schema: a JSON object.", param=path)
    layer: list[Any] = [schema]
    for _ in range(MAX_SCHEMA_LEVELS + 1):
        _check_words(_texts(layer), path)
        layer = [child for value in layer for child in _children(value)]
        if not layer:
            return schema
    raise InvalidRequest(f"{path} may be nested {MAX_SCHEMA_LEVELS} levels deep at most.", param=path)


def _children(value: object) -> Iterable[Any]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
        case _:
            return ()


def _texts(layer: list[Any]) -> Iterable[str]:
    for value in layer:
        match value:
            case str():
                yield value
            case dict():
                yield from value
                if "default" in value:
                    # Declared as JSON, in one word.
                    yield orjson.dumps(value["default"]).decode()


def _check_words(texts: Iterable[str], path: str) -> None:
    if any(_LONG_WORD.search(text) for text in texts):
        raise InvalidRequest(
            f"{path} may hold no more than {MAX_WORD_CHARS} characters without white space, nor of it.",
            param=path,
        )
