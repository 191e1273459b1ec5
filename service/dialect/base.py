"""The dialect contract: requests become prompt tokens, output tokens become segments.

A turn is a sequence of messages; a message is `MessageStart`, any number of `MessageText`, and `MessageEnd`,
never nested and never interleaved. Splitters are sans-IO, hold the state of one turn, never raise, and give
the same messages for every chunking of the same tokens: only the grouping of `MessageText` differs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from openresponses.v1.content_pb2 import Logprob
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.engine.base import TokenLogprob

MAX_NAME_CHARACTERS: Final = 1024
"""Most characters of a called function's name, and of its namespace's, in prompts and in outputs."""


class Kind(Enum):
    """What a message of the model becomes."""

    REASONING = "reasoning"
    """Thinking that is not part of the answer: a reasoning item."""
    PREAMBLE = "preamble"
    """Text for the user before or between tool calls: a message of phase `commentary`."""
    ANSWER = "answer"
    """The answer: a message of phase `final_answer`."""
    FUNCTION_CALL = "function_call"
    """Arguments for a function: a function call item."""
    CUSTOM_CALL = "custom_call"
    """Text for a custom tool: a custom tool call item. To splitters such calls are those of functions."""


@dataclass(frozen=True, slots=True)
class MessageStart:
    """A message begins."""

    kind: Kind
    name: str = ""
    """The function's name, cut where it is longer than a prompt may hold; empty for other kinds."""
    namespace: str = ""
    """The namespace of the function. Splitters leave it in the name."""


class MessageText(NamedTuple):
    """More of the open message's content."""

    text: str
    """Never empty, never part of a character, never a control token."""
    logprobs: tuple[Logprob, ...] = ()
    """One entry for each token of the text, where the engine gives them and the kind shows them."""


@dataclass(frozen=True, slots=True)
class MessageEnd:
    """The open message is over."""

    complete: bool
    """False when the output stopped in the middle of it."""


Segment = MessageStart | MessageText | MessageEnd


class Splitter(Protocol):
    """Splits the tokens of one turn into messages."""

    tokens: int
    """Tokens taken so far; those after the end of the turn do not count."""
    reasoning_tokens: int
    """Those of `tokens` that are content of reasoning messages."""
    ended: bool
    """The turn is over: nothing that is fed from now on counts."""
    closed: bool
    """The last token ended a turn (which may go on with further calls): no limit cut this output short."""

    def feed(self, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] = ()) -> list[Segment]:
        """Take the next tokens, with one log-probability each or none; return what they complete."""
        ...

    def finish(self, *, cut: bool) -> list[Segment]:
        """The output is over: release what is held back and close the open message.

        `cut`: a limit ended it, so what is open is incomplete; else the model stopped by itself. Must be
        called once, after the last `feed`.
        """
        ...


class PromptTooLong(Exception):
    """A prompt has more tokens than it may have.

    Attributes:
        tokens: how many it has.

    """

    def __init__(self, tokens: int) -> None:
        super().__init__(f"{tokens} tokens")
        self.tokens = tokens


class Dialect(Protocol):
    """A model family's way of writing."""

    stop_token_ids: frozenset[int]
    """Tokens that end a turn."""
    boundary_token_ids: frozenset[int]
    """Tokens after which a flush is worth it at once, since an item begins or ends there."""

    def render(
        self,
        request: CreateResponseRequest,
        history: Sequence[InputItem] = (),
        *,
        max_tokens: int = sys.maxsize,
    ) -> list[int]:
        """Return the prompt tokens, up to where the model goes on. `history` comes before the input.

        Files have become text before. What the history holds and cannot be rendered is left out.

        Raises:
            InvalidRequest: an input item cannot be rendered; `param` names it.
            PromptTooLong: there are more than `max_tokens`.

        """
        ...

    def check_items(self, items: Sequence[InputItem]) -> None:
        """Check that items can stand in a prompt, whatever comes before them.

        Raises:
            InvalidRequest: one cannot; `param` names it.

        """
        ...

    def splitter(self, request: CreateResponseRequest) -> Splitter:
        """Return a splitter for a turn that continues the prompt of `render(request)`."""
        ...
