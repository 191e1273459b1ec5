"""Pages of a list of items: which one is asked for, and what it looks like. Sans-IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.stored_pb2 import ItemList, Page

from service.errors import InvalidRequest
from service.items import item_id
from service.store.pages import PageBounds, not_in_list

MAX_PAGE_ITEMS: Final = 100
DEFAULT_PAGE_ITEMS: Final = 20


def bounds_of(page: Page) -> PageBounds:
    """Return what is asked for, defaults filled in.

    Raises:
        InvalidRequest: limit or order are wrong; `param` names the field.

    """
    limit = page.limit if page.HasField("limit") else DEFAULT_PAGE_ITEMS
    if not 1 <= limit <= MAX_PAGE_ITEMS:
        raise InvalidRequest(f"limit must be between 1 and {MAX_PAGE_ITEMS}; it is {limit}.", param="limit")
    order = page.order or "desc"
    if order not in ("asc", "desc"):
        raise InvalidRequest("order must be asc or desc.", param="order")
    return PageBounds(limit=limit, descending=order == "desc", after=page.after, before=page.before)


def page_of(items: Sequence[InputItem], bounds: PageBounds) -> tuple[Sequence[InputItem], bool]:
    """Return a page of `items`, as `ConversationStore.page` does; they are the oldest first, and have ids.

    Raises:
        NotFound: `after` or `before` is no item of the list.

    """
    ordered = items[::-1] if bounds.descending else items
    start = _position(ordered, bounds.after, "after") + 1 if bounds.after else 0
    end = _position(ordered, bounds.before, "before") if bounds.before else len(ordered)
    if bounds.before and not bounds.after:
        start = max(0, end - bounds.limit)
        return ordered[start:end], start > 0
    data = ordered[start : min(start + bounds.limit, end)]
    return data, start + len(data) < end


def item_list(data: Sequence[InputItem], *, has_more: bool) -> ItemList:
    """Return a page as clients see it. `has_more`: whether the list goes on behind it."""
    return ItemList(
        object="list",
        data=data,
        first_id=item_id(data[0]) if data else "",
        last_id=item_id(data[-1]) if data else "",
        has_more=has_more,
    )


def _position(items: Sequence[InputItem], wanted: str, param: str) -> int:
    for i, item in enumerate(items):
        if item_id(item) == wanted:
            return i
    raise not_in_list(wanted, param)
