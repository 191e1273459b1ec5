"""Harmony as a `Dialect`: what the service needs of it, in one place."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.callable_tools import parallel_tool_calls, tool_names
from service.dialect.harmony import vocabulary
from service.dialect.harmony.input_items import check_items
from service.dialect.harmony.prompt import render
from service.dialect.harmony.splitter import HarmonySplitter


class HarmonyDialect:
    """The `Dialect` of gpt-oss models."""

    # The model ends its turn with a return, or hands over to a function with a call.
    stop_token_ids = frozenset({vocabulary.RETURN, vocabulary.CALL})
    # A message marker opens an item, the others close one.
    boundary_token_ids = frozenset(
        {vocabulary.MESSAGE, vocabulary.END, vocabulary.RETURN, vocabulary.CALL, vocabulary.END_OF_TEXT}
    )

    def __init__(self) -> None:
        """Load the vocabulary, so that the first request does not wait for it."""
        vocabulary.load()

    def render(
        self,
        request: CreateResponseRequest,
        history: Sequence[InputItem] = (),
        *,
        max_tokens: int = sys.maxsize,
    ) -> list[int]:
        """Return the prompt tokens, up to `<|start|>assistant`."""
        return render(request, history, max_tokens=max_tokens)

    def check_items(self, items: Sequence[InputItem]) -> None:
        """Check that items can stand in a prompt."""
        check_items(items)

    def splitter(self, request: CreateResponseRequest) -> HarmonySplitter:
        """Return a splitter for the turn that answers `request`."""
        return HarmonySplitter(tool_names(request), one_call=not parallel_tool_calls(request))
