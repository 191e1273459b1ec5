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

MAX_WORD_WORK: Final = 2**29
"""Most `word_work` of all tools together: some 200 ms, during which nothing else runs."""

_SHORT_CHARS: Final = 128
"""Texts up to here are not looked at: as many as there may be are not too much work."""
_STRETCH: Final = re.compile(r"\S+|\s+")
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
    texts = [text for tool in tools for text in (tool.full_description, tool.parameters or "")]
    texts += [namespace.description for namespace, _ in namespaces]
    if sum(len(text.encode()) for text in texts) > MAX_TOOLS_BYTES:
        raise InvalidRequest(
            f"tools may hold {MAX_TOOLS_BYTES} bytes of descriptions and schemas at most.", param="tools"
        )
    words = _Words()
    members: dict[str, list[harmony.ToolDescription]] = {}
    for tool in tools:
        members.setdefault(tool.namespace, []).append(_description(tool, words))
    content = harmony.DeveloperContent.new()
    if functions := members.get(""):
        content = content.with_function_tools(functions)
    for namespace, path in namespaces:
        words.check([namespace.description], path)
        content = content.with_tools(
            harmony.ToolNamespaceConfig(
                name=namespace.name,
                description=namespace.description or None,
                tools=members.get(namespace.name, []),
            )
        )
    encoding = load_encoding()
    tokens = encoding.render(harmony.Message.from_role_and_content(harmony.Role.DEVELOPER, content))
    section: str = encoding.decode_utf8(tokens[tokens.index(MESSAGE) + 1 : -1])
    return section


def _description(tool: CallableTool, words: _Words) -> harmony.ToolDescription:
    words.check([tool.description], f"{tool.path}.description")
    if tool.grammar:
        words.check([tool.grammar.definition], tool.arguments_path)
    parameters = _parameters(tool.parameters, tool.arguments_path, words) if tool.parameters else None
    return harmony.ToolDescription.new(tool.bare_name, tool.full_description, parameters)


def _parameters(text: str, path: str, words: _Words) -> dict[str, Any]:
    try:
        schema = orjson.loads(text)
    except orjson.JSONDecodeError:
        schema = None
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{path} must be a JSON Schema: a JSON object.", param=path)
    layer: list[Any] = [schema]
    for _ in range(MAX_SCHEMA_LEVELS + 1):
        words.check(_texts(layer), path)
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


class _Words:
    """Checks the words of a request's tools, one text after the other."""

    def __init__(self) -> None:
        self._work = 0

    def check(self, texts: Iterable[str], path: str) -> None:
        """Take more texts, those at `path`."""
        for text in texts:
            if _LONG_WORD.search(text):
                raise InvalidRequest(
                    f"{path} may hold words of {MAX_WORD_CHARS} characters at most, and as much white space "
                    "at a time.",
                    param=path,
                )
            if len(text) > _SHORT_CHARS:
                self._work += word_work(text)
            if self._work > MAX_WORD_WORK:
                raise InvalidRequest(
                    f"{path} and the tools before it hold too many long words: put spaces between them.",
                    param=path,
                )


def word_work(text: str) -> int:
    """Return how much work tokenizing is, at most: the squares of the lengths in bytes of all stretches."""
    return sum(len(stretch.encode()) ** 2 for stretch in _STRETCH.findall(text))
