"""Pages of a list of items: which one is wanted. Sans-IO."""

from __future__ import annotations

from dataclasses import dataclass

from service.errors import NotFound


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Which page of a list is wanted."""

    limit: int
    """Most items of it."""
    descending: bool
    """The newest item comes first."""
    after: str
    """The id of the item before the page; empty for none."""
    before: str
    """The id of the item behind the page; empty for none. Without `after` it is the page that ends there."""


def not_in_list(wanted: str, param: str) -> NotFound:
    """Return the error for an id that bounds a page, `after` or `before`, and is no item of the list."""
    return NotFound(f"The list has no item {wanted[:100]!r}.", code="item_not_found", param=param)
