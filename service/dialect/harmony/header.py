"""What a Harmony message header says: its channel, its recipient, and text that strayed into it.

A header is what stands between `<|start|>` and `<|message|>`. Well-formed, it reads

    assistant<|channel|>commentary to=functions.NAME <|constrain|>json

with the recipient before or after the channel. The splitter hands over the pieces of text between control
tokens, so text that only spells a marker can never act as one. Nothing here raises: a header is read by the
words that it does have, and what no rule explains is returned as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.dialect.base import MAX_NAME_CHARACTERS, Kind

CHANNEL_KINDS: Final = {
    "analysis": Kind.REASONING,
    "commentary": Kind.PREAMBLE,
    "final": Kind.ANSWER,
}

# Recipients that mean "nobody in particular".
_NOBODY: Final = frozenset({"", "all", "assistant", "user"})
# Words that models glue to a function's name when they forget the space or the marker in between.
_GLUED_SUFFIXES: Final = ("json", "code", "commentary", "analysis", "final")

_ROLE = re.compile(r"\s*(?:assistant)+")
_RECIPIENT = re.compile(r"\s*to=([A-Za-z0-9_.\-]*)")
_CHANNEL = re.compile(r"\s*(analysis|commentary|final)")
_UNKNOWN_CHANNEL = re.compile(r"\s*(?!to=)[A-Za-z0-9_\-]+(?=\s*(?:to=|$))")
_CONTENT_TYPE = re.compile(r"\s*(?:json|code|text)(?![A-Za-z0-9_])")
_CONSTRAINT = re.compile(r"\s*[A-Za-z0-9_\-]+")


class Marker:
    """The control tokens that may stand inside a header, as names of the pieces they open."""

    NONE: Final = ""
    """The piece before any marker: the role, and perhaps a recipient."""
    CHANNEL: Final = "channel"
    CONSTRAIN: Final = "constrain"


@dataclass(frozen=True, slots=True)
class Header:
    """A header as understood."""

    kind: Kind
    """What the message becomes: by its recipient first, by its channel second, else an answer."""
    name: str
    """The function's name for a call, else empty."""
    said: bool
    """The header names a known channel or a recipient, so that even an empty message of it counts."""
    rest: str
    """Text that belongs to no part of a header, in order, stripped at its start; content gone astray."""


def parse_header(pieces: Sequence[tuple[str, str]], functions: frozenset[str], *, whole: bool) -> Header:
    """Read a header from its pieces, each (the `Marker` before it, its text).

    `functions` are the bare names of the functions on offer, used only to mend glued names. `whole`: the
    header reached its `<|message|>`, so that a lone unknown word behind a channel marker is a channel's
    name, to be dropped; in a header that broke off it may as well be text. The last channel and the first
    recipient named win.
    """
    kind: Kind | None = None
    recipient = ""
    said = False
    rest: list[str] = []
    for marker, text in pieces:
        at = 0
        if marker == Marker.NONE:
            at = _end(_ROLE, text, at)
        elif marker == Marker.CONSTRAIN:
            at = _end(_CONSTRAINT, text, at)
        elif whole and not _CHANNEL.match(text):
            at = _end(_UNKNOWN_CHANNEL, text, at)
        while at < len(text):
            if found := _CHANNEL.match(text, at):
                kind, said = CHANNEL_KINDS[found[1]], True
            elif found := _RECIPIENT.match(text, at):
                recipient = recipient or found[1]
            elif not (found := _CONTENT_TYPE.match(text, at)):
                break
            at = found.end()
        if stray := text[at:].lstrip():
            rest.append(stray)
    name = _function_name(recipient, functions)
    if name:
        return Header(Kind.FUNCTION_CALL, name, said=True, rest="".join(rest))
    return Header(kind or Kind.ANSWER, "", said=said, rest="".join(rest))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _function_name(recipient: str, functions: frozenset[str]) -> str:
    """The bare function name behind a recipient, "" where it names nobody.

    A recipient that is not on offer is still a call, under the name that the model wrote: the client
    decides what to do with it, and the text cannot be mistaken for an answer.
    """
    name = recipient.removeprefix("functions.").strip(".")
    if recipient in _NOBODY or not name:
        return ""
    if name in functions:
        return name
    for suffix in _GLUED_SUFFIXES:
        if name.endswith(suffix) and name.removesuffix(suffix) in functions:
            return name.removesuffix(suffix)
    return name[:MAX_NAME_CHARACTERS]
