"""What is wrong with a JSON value, where, and how the caller is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import InvalidRequest
from service.wire.json_text import JsonValue, Number

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_LISTED_NAMES = 12
"""How many accepted values an error lists."""

_MAX_KEY_CHARS = 64
"""The longest key of the caller's own that an error names."""

KINDS: dict[type, tuple[str, str]] = {
    type(None): ("null", "null"),
    bool: ("boolean", "a boolean"),
    int: ("number", "a number"),
    float: ("number", "a number"),
    Number: ("number", "a number"),
    str: ("string", "a string"),
    list: ("array", "an array"),
    dict: ("object", "an object"),
}
"""The JSON kind of a parsed value, and how a sentence names it."""


class Mismatch(Exception):
    """The value at a path is not what the contract expects.

    Attributes:
        problem: what goes after the path in a sentence. It never holds the value.
        code: OpenAI's error code.
        path: the parts of the path, the innermost first.

    """

    def __init__(self, problem: str, code: str = "invalid_type") -> None:
        super().__init__(problem)
        self.problem = problem
        self.code = code
        self.path: list[str] = []

    def within(self, part: str) -> Mismatch:
        """The same, of the value that holds this one at `part`: `.key` or `[index]`."""
        self.path.append(part)
        return self

    def as_error(self) -> InvalidRequest:
        """The error that the caller is told."""
        path = "".join(reversed(self.path)).removeprefix(".")
        return InvalidRequest(f"{path or 'The body'} {self.problem}.", code=self.code, param=path or None)


def expected(what: str, value: JsonValue) -> Mismatch:
    """A value of the wrong type; `what` has its article."""
    return Mismatch(f"must be {what}, not {KINDS[type(value)][1]}")


def not_one_of(accepted: Iterable[str], verb: str = "must be") -> Mismatch:
    """A string that is none of those accepted, or is not there."""
    names = list(accepted)
    listed = ", ".join(names[:_MAX_LISTED_NAMES])
    more = len(names) - _MAX_LISTED_NAMES
    return Mismatch(f"{verb} one of {listed}" + (f" or {more} more" if more > 0 else ""), "unknown_value")


def key_path(key: str) -> str:
    """A map's key is the caller's own text: it is shown when it is short and plain."""
    return f".{key}" if key.isidentifier() and key.isascii() and len(key) <= _MAX_KEY_CHARS else "[*]"
