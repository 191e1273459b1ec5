"""One call of a function written as JSON, read while it comes. Sans-IO.

    {"name": "get_weather", "arguments": {"city": "Oslo"}}

`parameters` stands for `arguments` in Llama's way of writing. The text is scanned once, without being parsed:
arguments go on as they are written, from the moment that the name is known.
"""

from __future__ import annotations

import json
import re
from enum import Enum
from typing import Final

from service.dialect.base import MAX_NAME_CHARACTERS

_ARGUMENTS: Final = frozenset({"arguments", "parameters"})
_PLAIN_IN_STRING: Final = re.compile(r'[^"\\]+')
_PLAIN: Final = re.compile(r'[^"{}\[\],:<]+')


class CallState(Enum):
    """How far a call is."""

    OPEN = "open"
    """More of it may come."""
    DONE = "done"
    """Its last brace is closed."""
    BROKEN = "broken"
    """It is no JSON object."""


class CallReader:
    """Reads one call.

    Attributes:
        name: the function's name, empty until it is known.
        keys: the top keys so far, each once.
        state: how far the call is.

    """

    def __init__(self) -> None:
        self.name = ""
        self.keys: set[str] = set()
        self.state = CallState.OPEN
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._span: list[str] = []
        """The text of the top key or value that is being read."""
        self._key = ""
        self._in_value = False
        self._waiting: list[str] = []
        """Arguments that are not handed over yet."""
        self._streaming = False

    @property
    def over(self) -> bool:
        """No more of the call can come."""
        return self.state is not CallState.OPEN

    def feed(self, text: str) -> int:
        """Take the next text; return how much of it belongs to the call."""
        at = 0
        while at < len(text) and not self.over:
            plain = (_PLAIN_IN_STRING if self._in_string else _PLAIN).match(text, at)
            end = plain.end() if plain and not self._escaped else at + 1
            self._take(text[at:end])
            # What broke it is not part of it.
            at = at if self.state is CallState.BROKEN else end
        return at

    def take_arguments(self) -> str:
        """Return the arguments that have come since the last time."""
        arguments = "".join(self._waiting)
        self._waiting.clear()
        return arguments

    def _take(self, piece: str) -> None:
        if self._in_string:
            self._keep(piece)
            if self._escaped:
                self._escaped = False
            elif piece == "\\":
                self._escaped = True
            elif piece == '"':
                self._in_string = False
        elif self._depth == 0:
            if piece == "{":
                self._depth = 1
            elif not piece.isspace():
                self.state = CallState.BROKEN
        else:
            self._structure(piece)

    def _structure(self, piece: str) -> None:
        """Take what stands outside of strings, inside the object."""
        at_top = self._depth == 1
        match piece:
            case '"':
                self._in_string = True
                self._keep(piece)
            case "{" | "[":
                self._depth += 1
                self._keep(piece)
            case "}" | "]" if not at_top:
                self._depth -= 1
                self._keep(piece)
            case "}":
                self._end_value()
                self.state = CallState.DONE
            case ":" if at_top and not self._in_value:
                self._begin_value()
            case "," if at_top:
                self._end_value()
            case "<" | "]":
                self.state = CallState.BROKEN
            case _ if at_top and piece.isspace():
                pass
            case _:
                self._keep(piece)

    def _keep(self, piece: str) -> None:
        if self._streaming:
            self._waiting.append(piece)
            return
        self._span.append(piece)
        # An object is handed over as it comes; anything else has to be seen whole first.
        if self._in_value and self._key in _ARGUMENTS and len(self._span) == 1 and piece == "{":
            self._streaming = True
            self._waiting.append(piece)
            self._span.clear()

    def _begin_value(self) -> None:
        self._key = str(_value("".join(self._span)))
        self.keys.add(self._key)
        self._span.clear()
        self._in_value = True

    def _end_value(self) -> None:
        if self._in_value and not self._streaming:
            value = _value("".join(self._span))
            if self._key == "name" and isinstance(value, str):
                self.name = value[:MAX_NAME_CHARACTERS]
            elif self._key in _ARGUMENTS:
                # Some models write the object as a string, or null for none.
                self._waiting.append(value if isinstance(value, str) else "".join(self._span))
                if value is None:
                    self._waiting[:] = ["{}"]
        self._span.clear()
        self._in_value = self._streaming = False


def _value(text: str) -> object:
    """Return what a key or a value says; what is no JSON says itself."""
    if text.startswith(("[", "{")):
        # Neither a name nor a text: it is not looked into, however deep it is.
        return ()
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if not isinstance(value, str):
        return value
    # Half a pair of surrogates is no character, and no event could carry it.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
