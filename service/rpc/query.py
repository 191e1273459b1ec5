"""Values of a query: texts on the wire, read here so that an error names its parameter."""

from __future__ import annotations

from typing import Final

from openresponses.v1 import openai_http_pb2 as http
from openresponses.v1.stored_pb2 import Page

from service.errors import InvalidRequest

_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
_MAX_NUMBER: Final = 2**31 - 1


def boolean(text: str, param: str) -> bool:
    """Return a truth value. Raises InvalidRequest for anything but true and false."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise InvalidRequest(f"{param} must be true or false.", code="invalid_type", param=param)
    return value


def number(text: str, param: str) -> int:
    """Return a whole number. Raises InvalidRequest for anything else, and beyond 32 bits."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(_MAX_NUMBER))):
        raise InvalidRequest(f"{param} must be a whole number.", code="invalid_type", param=param)
    value = int(text)
    if abs(value) > _MAX_NUMBER:
        raise InvalidRequest(f"{param} must be a whole number of 32 bits.", param=param)
    return value


def page(request: http.ListInputItemsHttpRequest | http.ListItemsHttpRequest) -> Page:
    """Return the page that a list is asked for. Raises InvalidRequest when `limit` is no number."""
    given = {name: getattr(request, name) for name in ("after", "before", "order") if request.HasField(name)}
    if request.HasField("limit"):
        return Page(limit=number(request.limit, "limit"), **given)
    return Page(**given)
