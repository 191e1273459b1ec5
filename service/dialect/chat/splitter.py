"""The chat splitter: the text of a model with a chat template becomes messages. Sans-IO.

Such models write their markup as text, which tokens may split anywhere:

    <think> a thought </think> an answer <tool_call> {"name": ..., "arguments": ...} </tool_call>

or, as Llama does, a call as the bare JSON object in place of an answer. The rules:

  1. Text in `<think>` is reasoning. Text elsewhere is an answer. A call in a thought ends the thought.
  2. `<tool_call>` opens a call, in whatever state. It is one when its name is known; what never becomes one
     is an answer, as it is written.
  3. An answer that begins as `{"name": "F"`, where F is a function on offer, is a call of F; a semicolon or
     white space may separate it from the next one.
  4. A tag that opens or closes nothing is dropped. One that is missing at the end is supplied.
  5. White space next to a tag, and at the start of a message, belongs to the markup.
  6. Text is held back only while it may be the beginning of a tag or a call, or white space before one; at
     the end it is released.
  7. The turn ends with the end token, or after the first call where only one is allowed. Other control tokens
     are dropped.
  8. Invalid UTF-8 becomes U+FFFD, and the bytes of an incomplete character are held back, as in Harmony.
  9. When the output is cut, the open message is incomplete. A call whose name is not known yet is none; where
     nothing else was said, an empty answer stands for it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from openresponses.v1.content_pb2 import Logprob

from service.dialect.base import Kind, MessageEnd, MessageStart, MessageText, Segment
from service.dialect.chat.call import CallReader
from service.dialect.harmony.logprobs import text_logprob
from service.dialect.harmony.vocabulary import FIRST_SPECIAL, RETURN, token_bytes
from service.engine.base import TokenLogprob

_TAG: Final = re.compile(r"</?(?:think|tool_call)>")
_TAGS: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>")
# Every beginning of a tag, longest first, at the end of a text.
_HALF_TAG: Final = re.compile(
    "(?:"
    + "|".join(sorted({re.escape(t[:n]) for t in _TAGS for n in range(1, len(t))}, key=len)[::-1])
    + r")\Z"
)
_BEFORE_ARGUMENTS: Final = frozenset({"name", "type"})
"""Keys that a bare call may have before its name is known."""
_SEPARATOR: Final = re.compile(r"[\s;]*")

_new_decoder = codecs.getincrementaldecoder("utf-8")


class _State(Enum):
    TEXT = "text"
    THINK = "think"
    TAGGED_CALL = "tagged call"
    BARE_CALL = "bare call"
    DONE = "done"


class ChatSplitter:
    """Splits one turn; see the module's rules, and `dialect.base.Splitter` for the contract."""

    def __init__(self, functions: frozenset[str] = frozenset(), *, one_call: bool = False) -> None:
        """`functions`: names of the functions on offer. `one_call`: the first call ends the turn."""
        self.tokens = 0
        self.reasoning_tokens = 0
        self.ended = False
        self.closed = False
        self._functions = functions
        self._one_call = one_call
        self._token_bytes = token_bytes()
        self._decoder = _new_decoder("replace")
        self._state = _State.TEXT
        self._out: list[Segment] = []
        self._held = ""
        """The beginning of what may be a tag."""
        self._spaces: list[str] = []
        """White space that belongs to a tag, if one follows."""
        self._kind: Kind | None = None
        """Of the open message; None between messages."""
        self._said = False
        self._after_call = False
        self._call = CallReader()
        self._raw: list[str] = []
        """The text of a call that is not known to be one yet."""
        self._logprobs: list[Logprob] = []

    def feed(self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] = ()) -> list[Segment]:
        """Take the next tokens, with one log-probability each or none; return what they complete."""
        out = self._out = []
        for i, token in enumerate(token_ids):
            if self._state is _State.DONE:
                break
            self.tokens += 1
            if token >= FIRST_SPECIAL:
                if token == RETURN:
                    self._finish(complete=True)
                continue
            if logprobs:
                self._logprobs.append(text_logprob(logprobs[i], self._token_bytes))
            thinking = self._state is _State.THINK
            self._text(self._decoder.decode(self._token_bytes[token]))
            self.reasoning_tokens += thinking and self._state is _State.THINK
        return _joined(out)

    def finish(self, *, cut: bool) -> list[Segment]:
        """Release what is held back and close what is open; see rules 6 and 9."""
        out = self._out = []
        if self._state is not _State.DONE:
            self._finish(complete=not cut)
        return _joined(out)

    # Text, by state.

    def _text(self, text: str) -> None:
        while text and self._state is not _State.DONE:
            match self._state:
                case _State.TAGGED_CALL | _State.BARE_CALL:
                    text = self._call_text(text)
                case _:
                    text = self._plain_text(text)

    def _plain_text(self, text: str) -> str:
        """Take text of an answer or a thought, up to the next tag; return what is left."""
        text = self._held + text
        self._held = ""
        if self._state is _State.TEXT and self._kind is None:
            text = _SEPARATOR.sub("", text, 1) if self._after_call else text.lstrip()
            if text.startswith("{") and self._functions:
                self._begin_call(_State.BARE_CALL)
                return text
        if tag := _TAG.search(text):
            self._say(text[: tag.start()])
            self._tag(tag[0])
            return text[tag.end() :]
        half = _HALF_TAG.search(text)
        end = half.start() if half else len(text)
        self._held = text[end:]
        self._say(text[:end])
        return ""

    def _tag(self, tag: str) -> None:
        match tag:
            case "<think>" if self._state is _State.TEXT:
                self._close(complete=True)
                self._state = _State.THINK
            case "</think>" if self._state is _State.THINK:
                self._close(complete=True)
                self._state = _State.TEXT
            case "<tool_call>":
                self._close(complete=True)
                self._begin_call(_State.TAGGED_CALL)
            case _:
                self._spaces.clear()
                self._logprobs.clear()

    def _say(self, text: str) -> None:
        """More of an answer or a thought. White space waits for what follows it."""
        if self._kind is None:
            text = text.lstrip()
        body = text.rstrip()
        if body:
            if self._kind is None:
                self._open(Kind.REASONING if self._state is _State.THINK else Kind.ANSWER, "")
            self._emit("".join(self._spaces) + body)
            self._spaces.clear()
        if self._kind is not None and len(text) > len(body):
            self._spaces.append(text[len(body) :])

    # Calls.

    def _begin_call(self, state: _State) -> None:
        self._state = state
        self._call = CallReader()
        self._raw.clear()

    def _call_text(self, text: str) -> str:
        used = self._call.feed(text)
        mine, rest = text[:used], text[used:]
        if self._kind is None:
            self._raw.append(mine)
            if self._call.name and (self._state is _State.TAGGED_CALL or self._call.name in self._functions):
                self._open(Kind.FUNCTION_CALL, self._call.name)
                self._raw.clear()
        if self._kind is not None:
            self._emit(self._call.take_arguments())
        elif self._call.over or self._is_no_call():
            self._release_raw()
            return rest
        if self._call.over:
            self._end_call()
        return rest

    def _is_no_call(self) -> bool:
        """A bare object that does not begin as a call does, or names a function that is not on offer."""
        if self._state is not _State.BARE_CALL:
            return False
        return bool(self._call.name) or not self._call.keys <= _BEFORE_ARGUMENTS

    def _release_raw(self) -> None:
        """It was no call, so what it held is an answer."""
        self._state = _State.TEXT
        self._say("".join(self._raw))
        self._raw.clear()

    def _end_call(self) -> None:
        self._close(complete=True)
        self._after_call = True
        if self._state is not _State.DONE:
            self._state = _State.TEXT

    # Messages.

    def _open(self, kind: Kind, name: str) -> None:
        self._kind = kind
        self._said = True
        self._after_call = False
        self._out.append(MessageStart(kind, name))

    def _emit(self, text: str) -> None:
        if text:
            entries = tuple(self._logprobs) if self._kind is Kind.ANSWER else ()
            self._out.append(MessageText(text, entries))
        self._logprobs.clear()

    def _close(self, *, complete: bool) -> None:
        self._spaces.clear()
        self._logprobs.clear()
        if self._kind is None:
            return
        was_call = self._kind is Kind.FUNCTION_CALL
        self._kind = None
        self._out.append(MessageEnd(complete))
        if was_call and self._one_call:
            self._end_turn()

    def _finish(self, *, complete: bool) -> None:
        self._text(self._decoder.decode(b"", final=True))
        if self._state in (_State.TAGGED_CALL, _State.BARE_CALL) and self._kind is None and complete:
            self._release_raw()
        held, self._held = self._held, ""
        if held:
            self._say(held)
        if self._kind is Kind.ANSWER:
            self._emit("".join(self._spaces))
        if not complete and not self._said and self.tokens:
            self._open(Kind.ANSWER, "")
        self._close(complete=complete)
        self._end_turn()

    def _end_turn(self) -> None:
        self._state = _State.DONE
        self.ended = self.closed = True


def _joined(segments: list[Segment]) -> list[Segment]:
    """Neighbouring texts as one: a delta a flush, not a token."""
    joined: list[Segment] = []
    texts: list[MessageText] = []
    for segment in segments:
        if isinstance(segment, MessageText):
            texts.append(segment)
            continue
        joined += _as_one(texts)
        joined.append(segment)
        texts.clear()
    return joined + _as_one(texts)


def _as_one(texts: list[MessageText]) -> list[Segment]:
    if len(texts) < 2:
        return list(texts)
    entries = tuple(entry for text in texts for entry in text.logprobs)
    return [MessageText("".join(text.text for text in texts), entries)]
