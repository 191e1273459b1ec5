"""The text for a custom tool, taken out of the object that the model writes, as it comes. Sans-IO.

The model writes `{"input": "..."}`. What does not begin like that is the text itself: models forget the
object, and their words are worth more than a rule. Any chunking of the same arguments gives the same text.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from service.dialect.callable_tools import CUSTOM_INPUT

_OPENING: Final = f'{{"{CUSTOM_INPUT}":"'
# White space may stand around the brace, the key and the colon.
_GAPS: Final = frozenset({0, 1, len(_OPENING) - 2, len(_OPENING) - 1})
_PLAIN: Final = re.compile(r'[^"\\]+')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_UNICODE: Final = re.compile(r"u([0-9a-fA-F]{4})")
_PARTIAL: Final = re.compile(r"u[0-9a-fA-F]{0,3}")
_REPLACEMENT: Final = "\ufffd"


class _State(Enum):
    OPENING = "opening"
    TEXT = "text"
    RAW = "raw"
    DONE = "done"


class CustomInput:
    """Reads one call's arguments."""

    def __init__(self) -> None:
        self._state = _State.OPENING
        self._held = ""
        """The beginning of an escape."""
        self._opening: list[str] = []
        """All so far, while it may be the object's opening."""
        self._matched = 0
        self._high = ""

    def feed(self, arguments: str) -> str:
        """Take more of the arguments; return what they add to the text."""
        match self._state:
            case _State.OPENING:
                return self._open(arguments)
            case _State.TEXT:
                return self._unescaped(arguments)
            case _State.RAW:
                return arguments
            case _State.DONE:
                return ""

    def finish(self) -> str:
        """The arguments are over: return what was held back of the text."""
        if self._state is _State.OPENING:
            # An object without the text, or its beginning: of no use to the tool, but all there is.
            return "".join(self._opening)
        return self._lone()

    def _open(self, arguments: str) -> str:
        for i, character in enumerate(arguments):
            if character == _OPENING[self._matched]:
                self._matched += 1
                if self._matched == len(_OPENING):
                    self._state = _State.TEXT
                    return self._unescaped(arguments[i + 1 :])
            elif not (character.isspace() and self._matched in _GAPS):
                self._state = _State.RAW
                return "".join([*self._opening, arguments])
        self._opening.append(arguments)
        return ""

    def _unescaped(self, arguments: str) -> str:
        source, self._held = self._held + arguments, ""
        out: list[str] = []
        at = 0
        while at < len(source):
            if plain := _PLAIN.match(source, at):
                out += [self._lone(), plain[0]]
                at = plain.end()
            elif source[at] == '"':
                out.append(self._lone())
                self._state = _State.DONE
                break
            elif at + 1 == len(source) or _PARTIAL.fullmatch(source, at + 1):
                self._held = source[at:]
                break
            elif unicode := _UNICODE.match(source, at + 1):
                out.append(self._unit(unicode[1]))
                at = unicode.end()
            else:
                out += [self._lone(), _ESCAPES.get(source[at + 1], source[at + 1])]
                at += 2
        return "".join(out)

    def _unit(self, digits: str) -> str:
        """Take one UTF-16 unit; the first of a pair waits for the second."""
        unit = chr(int(digits, 16))
        if "\ud800" <= unit <= "\udbff":
            lone, self._high = self._lone(), unit
            return lone
        if "\udc00" <= unit <= "\udfff":
            if not self._high:
                return _REPLACEMENT
            pair, self._high = self._high + unit, ""
            return pair.encode("utf-16", "surrogatepass").decode("utf-16")
        return self._lone() + unit

    def _lone(self) -> str:
        """Half a pair whose other half has not come."""
        lone, self._high = _REPLACEMENT if self._high else "", ""
        return lone
