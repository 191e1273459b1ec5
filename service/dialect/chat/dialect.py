"""The chat dialect as a `Dialect`, for engines that apply a model's own chat template.

The prompt travels as Harmony, which can say everything that a request does; the engine reads it back and has
the template write it. What the model writes comes as it is, in Harmony's text tokens, and is split here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.callable_tools import parallel_tool_calls, tool_names
from service.dialect.chat.splitter import ChatSplitter
from service.dialect.harmony import vocabulary
from service.dialect.harmony.input_items import check_items
from service.dialect.harmony.prompt import render


class ChatDialect:
    """The `Dialect` of models with a chat template."""

    stop_token_ids = frozenset({vocabulary.RETURN})
    # Markup is text: no token tells that an item begins.
    boundary_token_ids = frozenset({vocabulary.RETURN})

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
        """Return the prompt, in Harmony."""
        return render(request, history, max_tokens=max_tokens)

    def check_items(self, items: Sequence[InputItem]) -> None:
        """Check that items can stand in a prompt."""
        check_items(items)

    def splitter(self, request: CreateResponseRequest) -> ChatSplitter:
        """Return a splitter for the turn that answers `request`."""
        return ChatSplitter(tool_names(request), one_call=not parallel_tool_calls(request))
