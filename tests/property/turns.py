"""Hypothesis strategies: Harmony turns, token soups, and ways of cutting tokens into chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from service.dialect.harmony import vocabulary as v

CONTROL_TOKENS = (v.RETURN, v.CONSTRAIN, v.CHANNEL, v.START, v.END, v.MESSAGE, v.CALL, v.END_OF_TEXT)

# Words that headers are made of, and text that only looks like a marker.
HEADER_WORDS = (
    "assistant",
    "analysis",
    "commentary",
    "final",
    " to=functions.f",
    "to=functions.g",
    "json",
    " code",
    " ",
    "\n",
    "<|end|>",
    "<|message|>",
    "é",
    "🎉",
)


# Tokens of one byte that is not a character by itself.
_BYTE_TOKENS = [i for i, data in enumerate(v.token_bytes()) if len(data) == 1 and data[0] >= 0x80]


@dataclass(frozen=True)
class WrittenMessage:
    """A message as a well-behaved model writes it."""

    channel: str
    recipient: str
    recipient_first: bool
    content_type: str
    text: str
    ending: int

    def tokens(self, *, opened: bool) -> list[int]:
        """The message's tokens; `opened` when `<|start|>assistant` stands in the prompt already."""
        encode = v.load_encoding().encode
        to = f" to={self.recipient}" if self.recipient else ""
        head = [] if opened else [v.START, *encode("assistant")]
        if to and self.recipient_first:
            head += [*encode(to), v.CHANNEL, *encode(self.channel)]
        else:
            head += [v.CHANNEL, *encode(self.channel + to)]
        if self.content_type == "<|constrain|>json":
            head += [*encode(" "), v.CONSTRAIN, *encode("json")]
        elif self.content_type:
            head += encode(" " + self.content_type)
        return [*head, v.MESSAGE, *encode(self.text, disallowed_special=()), self.ending]


# Text of every UTF-8 width, with markers spelled out and white space alone.
texts = st.text(st.characters(codec="utf-8"), max_size=40) | st.lists(
    st.sampled_from(["<|end|>", "<|channel|>final", " ", "\n", "word", "é", "€", "🎉", "👩‍👩‍👧", "{}"]),
    max_size=12,
).map("".join)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_\-]{0,63}", fullmatch=True)


@st.composite
def written_messages(draw: st.DrawFn, *, last: bool) -> WrittenMessage:
    channel = draw(st.sampled_from(["analysis", "commentary", "final"]))
    recipient = ""
    content_type = ""
    if channel != "final" and draw(st.booleans()):
        recipient = f"{draw(st.just('functions') | names)}.{draw(names)}"
        content_type = draw(st.sampled_from(["", "<|constrain|>json", "json", "code"]))
    return WrittenMessage(
        channel=channel,
        recipient=recipient,
        recipient_first=draw(st.booleans()),
        content_type=content_type,
        text=draw(texts),
        ending=(v.CALL if recipient else v.RETURN) if last else (v.CALL if recipient else v.END),
    )


@st.composite
def written_turns(draw: st.DrawFn) -> list[WrittenMessage]:
    """One to five messages of any kinds, the last ended by a stop token."""
    count = draw(st.integers(0, 4))
    messages = [draw(written_messages(last=False)) for _ in range(count)]
    return [*messages, draw(written_messages(last=True))]


def turn_tokens(messages: Sequence[WrittenMessage]) -> list[int]:
    return [token for i, message in enumerate(messages) for token in message.tokens(opened=i == 0)]


# What models really emit, and worse: control tokens, header words, broken bytes, ids that mean nothing.
soups = st.lists(
    st.one_of(
        st.sampled_from(CONTROL_TOKENS).map(lambda token: [token]),
        st.sampled_from(HEADER_WORDS).map(lambda word: v.load_encoding().encode(word, disallowed_special=())),
        st.integers(0, v.FIRST_SPECIAL - 1).map(lambda token: [token]),
        st.integers(v.FIRST_SPECIAL, 201100).map(lambda token: [token]),
        st.sampled_from(_BYTE_TOKENS).map(lambda token: [token]),
    ),
    max_size=60,
).map(lambda parts: [token for part in parts for token in part])


@st.composite
def chunkings(draw: st.DrawFn, tokens: Sequence[int]) -> list[list[int]]:
    """A partition of `tokens` into chunks, empty ones included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(tokens)), max_size=len(tokens) + 2)))
    bounds = [0, *cuts, len(tokens)]
    return [list(tokens[a:b]) for a, b in pairwise(bounds)]
