"""Pages of a list of items. Sans-IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.stored_pb2 import ItemList, Page

from service.errors import InvalidRequest, NotFound
from service.items import item_id

MAX_PAGE_ITEMS: Final = 100
DEFAULT_PAGE_ITEMS: Final = 20


def page_of(items: Sequence[InputItem], page: Page) -> ItemList:
    """Return the page of `items`, which are the oldest first and all have ids.

    Raises:
        InvalidRequest: limit or order are wrong; `param` names the field.
        NotFound: `after` or `before` is no item of the list.

    """
    limit = page.limit if page.HasField("limit") else DEFAULT_PAGE_ITEMS
    if not 1 <= limit <= MAX_PAGE_ITEMS:
        raise InvalidRequest(f"limit must be between 1 and {MAX_PAGE_ITEMS}; it is {limit}.", param="limit")
    order = page.order or "desc"
    if order not in ("asc", "desc"):
        raise InvalidRequest("order must be asc or desc.", param="order")
    ordered = items if order == "asc" else items[::-1]
    start = _position(ordered, page.after, "after") + 1 if page.after else 0
    end = _position(ordered, page.before, "before") if page.before else len(ordered)
    if page.before and not page.after:
        # The page that ends there.
        start = max(0, end - limit)
    data = ordered[start : min(start + limit, end)]
    return ItemList(
        object="list",
        data=data,
        first_id=item_id(data[0]) if data else "",
        last_id=item_id(data[-1]) if data else "",
        has_more=start > 0 if page.before and not page.after else start + len(data) < end,
    )


def _position(items: Sequence[InputItem], wanted: str, param: str) -> int:
    for i, item in enumerate(items):
        if item_id(item) == wanted:
            return i
    raise NotFound(f"The list has no item {wanted[:100]!r}.", code="item_not_found", param=param)
