"""What is left of a conversation that outgrows the context: its oldest items go first. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from openresponses.v1.item_pb2 import ROLE_DEVELOPER, ROLE_SYSTEM, InputItem

_CALLS: Final = ("function_call", "custom_tool_call")
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output")


def fitting(items: Sequence[InputItem], fits: Callable[[Sequence[InputItem]], bool]) -> list[InputItem]:
    """Return the items without as few of the oldest as make the rest fit; with all that may go, if none do.

    The words of developers and the last item never go, nor does the call that it answers; any other output
    goes with its call. `fits` holds for fewer items whenever it holds for more.
    """
    answered = _call_id(items[-1]) if items and items[-1].WhichOneof("item") in _OUTPUTS else None
    old = [
        i
        for i, item in enumerate(items[:-1])
        if not _is_developers(item) and not (item.WhichOneof("item") in _CALLS and _call_id(item) == answered)
    ]
    least, most = 0, len(old)
    while least < most:
        count = (least + most) // 2
        if fits(_without(items, frozenset(old[:count]))):
            most = count
        else:
            least = count + 1
    return _without(items, frozenset(old[:least]))


def _without(items: Sequence[InputItem], dropped: frozenset[int]) -> list[InputItem]:
    calls = {_call_id(items[i]) for i in dropped if items[i].WhichOneof("item") in _CALLS}
    return [
        item
        for i, item in enumerate(items)
        if i not in dropped and not (item.WhichOneof("item") in _OUTPUTS and _call_id(item) in calls)
    ]


def _call_id(item: InputItem) -> str:
    return str(getattr(item, item.WhichOneof("item") or "").call_id)


def _is_developers(item: InputItem) -> bool:
    return item.HasField("message") and item.message.role in (ROLE_DEVELOPER, ROLE_SYSTEM)
