"""The prompt of a request, and what is left out of it where it may be truncated to fit. Sans-IO."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from openresponses.v1.item_pb2 import Input, InputItem, InputItemList
from openresponses.v1.response_pb2 import TRUNCATION_AUTO
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.base import Dialect, PromptTooLong
from service.items import as_items
from service.run.truncation import fitting

_OUTPUT_SHARE: Final = 8
"""One part in so many of the context is left for the output where a truncated request sets no limit."""


def rendered_prompt(
    dialect: Dialect, request: CreateResponseRequest, history: Sequence[InputItem], window_tokens: int
) -> list[int]:
    """Return the prompt's tokens; at least one more fits the context, which holds `window_tokens`.

    Raises:
        InvalidRequest: what the client sends cannot be rendered.
        PromptTooLong: it does not fit, even without all that may be left out.

    """
    if request.truncation != TRUNCATION_AUTO:
        return dialect.render(request, history, max_tokens=window_tokens - 1)
    output_tokens = min(request.max_output_tokens or window_tokens // _OUTPUT_SHARE, window_tokens // 2)
    with suppress(PromptTooLong):
        return dialect.render(request, history, max_tokens=window_tokens - output_tokens)
    shorter = CreateResponseRequest()
    shorter.CopyFrom(request)
    # What is kept and can no longer be rendered is left out; of what the client sends, it is refused.
    kept = {id(item) for item in history}

    def render(items: Sequence[InputItem], max_tokens: int) -> list[int]:
        own = [item for item in items if id(item) not in kept]
        shorter.input.CopyFrom(Input(items=InputItemList(items=own)))
        return dialect.render(shorter, [item for item in items if id(item) in kept], max_tokens=max_tokens)

    def fits(items: Sequence[InputItem]) -> bool:
        try:
            render(items, window_tokens - output_tokens)
        except PromptTooLong:
            return False
        return True

    return render(fitting([*history, *as_items(request.input)], fits), window_tokens - 1)
