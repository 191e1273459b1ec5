"""A turn's calls as the tools have them: namespaces named, the text of custom tools taken out. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from service.dialect.base import Kind, MessageEnd, MessageStart, MessageText, Segment
from service.dialect.callable_tools import CallableTool
from service.run.custom_input import CustomInput


class CallReader:
    """Reads the segments of one turn."""

    def __init__(self, tools: Sequence[CallableTool]) -> None:
        """`tools`: all that are on offer."""
        self._tools = {tool.name: tool for tool in tools if tool.namespace or tool.is_custom}
        self._custom: CustomInput | None = None

    def read(self, segments: Sequence[Segment]) -> Iterable[Segment]:
        """Return the next segments as they are to be shown."""
        # Most turns have no such tools.
        return self._read(segments) if self._tools else segments

    def _read(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        for segment in segments:
            match segment:
                case MessageStart(kind, name) if kind is Kind.FUNCTION_CALL and name in self._tools:
                    yield self._start(segment, self._tools[name])
                case MessageText(text) if self._custom:
                    if more := self._custom.feed(text):
                        yield MessageText(more)
                case MessageEnd() if self._custom:
                    if rest := self._custom.finish():
                        yield MessageText(rest)
                    self._custom = None
                    yield segment
                case _:
                    yield segment

    def _start(self, start: MessageStart, tool: CallableTool) -> MessageStart:
        kind = Kind.CUSTOM_CALL if tool.is_custom else Kind.FUNCTION_CALL
        self._custom = CustomInput() if tool.is_custom else None
        return replace(start, kind=kind, name=tool.bare_name, namespace=tool.namespace)
