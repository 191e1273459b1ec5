"""The Harmony splitter: output tokens of one assistant turn become messages. Sans-IO.

It works on token ids, one state machine with three states. The prompt ends with `<|start|>assistant`, so a
turn begins inside a header.

    state    token                      what happens                                      next state
    -------  -------------------------  ------------------------------------------------  ----------
    HEADER   text                       kept until the header is understood               HEADER
             channel, constrain         begins the next piece of the header               HEADER
             message                    the message starts                                CONTENT
             start                      the header so far is closed (rule 4)              HEADER
             end, call                  the header so far is closed (rule 4)              HEADER
             return, endoftext          the header so far is closed (rule 4)              DONE
    CONTENT  text                       more of the message                               CONTENT
             end, call                  the message ends                                  HEADER
             start, channel             the message ends, a header begins (rule 2)        HEADER
             return, endoftext          the message ends                                  DONE
             message, constrain         dropped (rule 3)                                  CONTENT
    DONE     any                        dropped (rule 5)                                  DONE

On well-formed input it agrees with openai-harmony's StreamableParser. What models really emit is often
malformed; these rules make every token sequence a sequence of well-formed messages:

  1. Header words are found wherever they stand, glued or in any order; see `header.py`.
  2. A missing `<|end|>` or `<|start|>` is supplied: a start or channel marker in content ends the message.
  3. Control tokens out of place, unknown ones included, are dropped; they never become text.
  4. A header that never reaches `<|message|>` gives a message of the text that is no header word. One without
     any channel, recipient or text gives nothing.
  5. The turn is over after `<|return|>` (or `<|endoftext|>`), or after the first call where only one is
     allowed; what follows is dropped quietly.
  6. Text with no marker at all in front of it, or more than `MAX_HEADER_TOKENS` of it, is an answer: it
     reaches the user, as it is.
  7. Invalid UTF-8 becomes U+FFFD. The bytes of a character that is not complete yet are held back, at most
     three of them, and become U+FFFD when their message ends.
  8. When the output is cut inside a message, that message ends incomplete. When it is cut inside a header,
     nobody knows yet what the message would have been, so there is none, unless the header holds more text
     than the half of a header word, or nothing else was said: then an empty one stands for it. When the model
     stopped by itself, the end acts as `<|return|>`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from openresponses.v1.content_pb2 import Logprob

from service.dialect.base import Kind, MessageEnd, MessageStart, MessageText, Segment
from service.dialect.harmony import vocabulary
from service.dialect.harmony.header import Header, Marker, parse_header
from service.dialect.harmony.logprobs import text_logprob
from service.dialect.harmony.vocabulary import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    END_OF_TEXT,
    FIRST_SPECIAL,
    MESSAGE,
    RETURN,
    START,
)
from service.engine.base import TokenLogprob

MAX_HEADER_TOKENS: Final = 160
"""Most text tokens of a header: enough for a role, a channel, and the names of a namespace and of one of its
functions, each of 64 one-byte tokens."""

# What may be half of a channel, a recipient or a content type; before any marker only a recipient can stand.
_HALF_WORD = re.compile(r"[A-Za-z0-9_.=\-]*")
_HALF_RECIPIENT = re.compile(r"\s*(?:to?|to=\S*)?")

_new_decoder = codecs.getincrementaldecoder("utf-8")


class _State(Enum):
    HEADER = "header"
    CONTENT = "content"
    DONE = "done"


class HarmonySplitter:
    """Splits one turn; see the module's rules, and `dialect.base.Splitter` for the contract."""

    def __init__(self, functions: frozenset[str] = frozenset(), *, one_call: bool = False) -> None:
        """`functions`: bare names of the functions on offer, which help to mend malformed recipients.

        `one_call`: the first function call ends the turn (rule 5).
        """
        self.tokens = 0
        self.reasoning_tokens = 0
        self.ended = False
        self.closed = False
        self._functions = functions
        self._one_call = one_call
        self._token_bytes = vocabulary.token_bytes()
        self._state = _State.HEADER
        self._decoder = _new_decoder("replace")
        self._kind = Kind.ANSWER
        self._said = False
        # Of tokens whose characters are not complete yet.
        self._logprobs: list[Logprob] = []
        self._out: list[Segment] = []
        self._pieces: list[tuple[str, list[int]]] = []
        self._header_tokens = 0
        self._role_expected = True
        self._begin_header(role_expected=True)

    def feed(self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] = ()) -> list[Segment]:
        """Take the next tokens, with one log-probability each or none; return what they complete."""
        out = self._out = []
        count = len(token_ids)
        if self._state is _State.CONTENT and count and max(token_ids) < FIRST_SPECIAL:
            self.tokens += count
            self._content(token_ids, logprobs)
            return out
        at = 0
        while at < count and not self.ended:
            token = token_ids[at]
            if token >= FIRST_SPECIAL:
                self._control(token)
                at += 1
            elif self._state is _State.HEADER:
                self._header_text(token)
                at += 1
            else:
                end = at + 1
                while end < count and token_ids[end] < FIRST_SPECIAL:
                    end += 1
                self._content(token_ids[at:end], logprobs[at:end])
                at = end
        self.tokens += at
        return out

    def finish(self, *, cut: bool) -> list[Segment]:
        """Release what is held back and close what is open; see rule 8."""
        out = self._out = []
        match self._state:
            case _State.CONTENT:
                self._end_message(complete=not cut)
            case _State.HEADER if cut:
                self._abandon_header()
            case _State.HEADER:
                self._close_header(called=False)
            case _State.DONE:
                pass
        self._end_turn()
        return out

    # Tokens, by kind.

    def _control(self, token: int) -> None:
        in_content = self._state is _State.CONTENT
        self.closed = token in (CALL, RETURN, END_OF_TEXT)
        match token:
            case _ if token == MESSAGE:
                if not in_content:
                    self._open_message()
            case _ if token == CHANNEL:
                if in_content:
                    self._end_message(complete=True)
                    self._begin_header(role_expected=False)
                self._pieces.append((Marker.CHANNEL, []))
            case _ if token == CONSTRAIN:
                if not in_content:
                    self._pieces.append((Marker.CONSTRAIN, []))
            case _ if token in (START, END, CALL):
                if in_content:
                    self._end_message(complete=True)
                else:
                    self._close_header(called=token == CALL)
                self._begin_header(role_expected=token == START)
            case _ if token in (RETURN, END_OF_TEXT):
                if in_content:
                    self._end_message(complete=True)
                else:
                    self._close_header(called=False)
                self._end_turn()
            case _:
                pass

    def _content(self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob]) -> None:
        table = self._token_bytes
        if self._kind is Kind.REASONING:
            self.reasoning_tokens += len(token_ids)
        if logprobs and self._kind in (Kind.ANSWER, Kind.PREAMBLE):
            self._logprobs += [text_logprob(entry, table) for entry in logprobs]
        self._text(self._decoder.decode(b"".join([table[token] for token in token_ids])))

    def _text(self, text: str) -> None:
        """More of the open message's text; log-probabilities wait until there is some."""
        if not text:
            return
        if self._logprobs:
            self._out.append(MessageText(text, tuple(self._logprobs)))
            self._logprobs.clear()
        else:
            self._out.append(MessageText(text))

    def _header_text(self, token: int) -> None:
        self.closed = False
        self._pieces[-1][1].append(token)
        self._header_tokens += 1
        if self._header_tokens > MAX_HEADER_TOKENS:
            # The decoder keeps the bytes of a character that the limit cuts in two (rule 7).
            header = self._header(words=self._has_marker(), final=False)
            self._start(header.kind, header.name)
            self._state = _State.CONTENT
            if header.rest:
                self._out.append(MessageText(header.rest))

    # Headers.

    def _begin_header(self, *, role_expected: bool) -> None:
        if self.ended:
            return
        self._state = _State.HEADER
        self._pieces = [(Marker.NONE, [])]
        self._header_tokens = 0
        self._role_expected = role_expected

    def _has_marker(self) -> bool:
        return len(self._pieces) > 1

    def _header(self, *, words: bool, whole: bool = False, final: bool = True) -> Header:
        """Understand the header so far: by its words, or, where no marker makes it one, as text (rule 6)."""
        pieces = []
        for marker, tokens in self._pieces:
            last = final or tokens is not self._pieces[-1][1]
            data = b"".join([self._token_bytes[token] for token in tokens])
            pieces.append((marker, self._decoder.decode(data, last)))
        if words:
            return parse_header(pieces, self._functions, whole=whole)
        text = pieces[0][1]
        if self._role_expected:
            text = text.removeprefix("assistant")
        return Header(Kind.ANSWER, "", said=False, rest="" if text.isspace() else text)

    def _open_message(self) -> None:
        header = self._header(words=True, whole=True)
        self._start(header.kind, header.name)
        self._state = _State.CONTENT
        # Stray words are the user's to read; in front of a call's arguments they would only break them.
        if header.rest and header.kind is not Kind.FUNCTION_CALL:
            self._out.append(MessageText(header.rest))

    def _close_header(self, *, called: bool) -> None:
        header = self._header(words=called or self._has_marker())
        if header.said or header.rest:
            self._whole_message(header, complete=True)

    def _abandon_header(self) -> None:
        marked = self._has_marker()
        header = self._header(words=marked)
        half_word = _HALF_WORD if marked else _HALF_RECIPIENT
        if not half_word.fullmatch(header.rest):
            self._whole_message(header, complete=False)
        elif not self._said and self.tokens:
            # Of a call even the name may be half of one.
            kind = Kind.REASONING if header.kind is Kind.REASONING else Kind.ANSWER
            self._whole_message(Header(kind, "", said=False, rest=""), complete=False)

    # Messages.

    def _start(self, kind: Kind, name: str) -> None:
        self._kind = kind
        self._said = True
        self._out.append(MessageStart(kind, name))

    def _end_message(self, *, complete: bool) -> None:
        self._text(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        self._close(complete=complete)

    def _close(self, *, complete: bool) -> None:
        self._out.append(MessageEnd(complete))
        if self._one_call and self._kind is Kind.FUNCTION_CALL:
            self._end_turn()

    def _end_turn(self) -> None:
        self._state = _State.DONE
        self.ended = self.closed = True

    def _whole_message(self, header: Header, *, complete: bool) -> None:
        self._start(header.kind, header.name)
        if header.rest:
            self._out.append(MessageText(header.rest))
        self._close(complete=complete)
