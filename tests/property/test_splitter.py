"""Any chunking of the same tokens gives the same messages; well-formed turns agree with openai-harmony."""

from dataclasses import dataclass

import openai_harmony
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.dialect.base import Kind, MessageEnd, MessageStart, MessageText, Segment
from service.dialect.harmony import vocabulary
from service.dialect.harmony.splitter import HarmonySplitter
from tests.property.turns import WrittenMessage, chunkings, soups, turn_tokens, written_turns


@dataclass
class SplitMessage:
    kind: Kind
    name: str
    text: str = ""
    complete: bool | None = None


def messages_of(segments: list[Segment]) -> list[SplitMessage]:
    """Join segments into messages; fails where they are not properly nested."""
    messages: list[SplitMessage] = []
    for segment in segments:
        is_open = bool(messages) and messages[-1].complete is None
        match segment:
            case MessageStart(kind, name):
                assert not is_open
                messages.append(SplitMessage(kind, name))
            case MessageText(text):
                assert is_open
                assert text
                messages[-1].text += text
            case MessageEnd(complete):
                assert is_open
                messages[-1].complete = complete
    assert not messages or messages[-1].complete is not None
    return messages


def split(chunks: list[list[int]], *, cut: bool, one_call: bool = False):
    splitter = HarmonySplitter(frozenset({"f", "g"}), one_call=one_call)
    segments = [segment for chunk in chunks for segment in splitter.feed(chunk)]
    segments += splitter.finish(cut=cut)
    return messages_of(segments), splitter.tokens, splitter.reasoning_tokens, splitter.closed


def expected(message: WrittenMessage) -> SplitMessage:
    if message.recipient:
        kind, name = Kind.FUNCTION_CALL, message.recipient.removeprefix("functions.")
    else:
        kind = {"analysis": Kind.REASONING, "commentary": Kind.PREAMBLE, "final": Kind.ANSWER}[
            message.channel
        ]
        name = ""
    return SplitMessage(kind, name, message.text, complete=True)


def by_openai_harmony(tokens: list[int], *, eos: bool) -> list[tuple[str, str, str]]:
    """The oracle's messages: channel, recipient, text."""
    parser = openai_harmony.StreamableParser(
        vocabulary.load_encoding(), openai_harmony.Role.ASSISTANT, strict=True
    )
    for token in tokens:
        parser.process(token)
    if eos:
        parser.process_eos()
    return [
        (m.channel or "", m.recipient or "", "".join(part.text for part in m.content))
        for m in parser.messages
    ]


@given(st.data())
def test_written_turns_come_back_whatever_the_chunking(data):
    written = data.draw(written_turns())
    chunks = data.draw(chunkings(turn_tokens(written)))
    messages, tokens, reasoning_tokens, closed = split(chunks, cut=False)
    assert messages == [expected(message) for message in written]
    assert tokens == sum(map(len, chunks))
    encode = vocabulary.load_encoding().encode
    assert reasoning_tokens == sum(
        len(encode(message.text, disallowed_special=()))
        for message in written
        if message.channel == "analysis" and not message.recipient
    )
    assert closed


@given(written_turns())
def test_written_turns_agree_with_openai_harmony(written):
    tokens = turn_tokens(written)
    oracle = by_openai_harmony(tokens, eos=False)
    assert [(m.channel, m.recipient, m.text) for m in written] == oracle


@given(st.data())
def test_deltas_agree_with_openai_harmony_token_for_token(data):
    tokens = turn_tokens(data.draw(written_turns()))
    parser = openai_harmony.StreamableParser(vocabulary.load_encoding(), openai_harmony.Role.ASSISTANT)
    splitter = HarmonySplitter()
    for token in tokens:
        parser.process(token)
        text = "".join(s.text for s in splitter.feed([token]) if isinstance(s, MessageText))
        assert text == (parser.last_content_delta or "")


@given(st.data())
def test_a_cut_anywhere_loses_no_text(data):
    written = data.draw(written_turns())
    tokens = turn_tokens(written)
    cut_at = data.draw(st.integers(0, len(tokens)))
    whole = [expected(message) for message in written]
    messages, _, _, _ = split(data.draw(chunkings(tokens[:cut_at])), cut=True)
    assert messages[:-1] == whole[: max(len(messages) - 1, 0)]
    # Inside the first header nothing was said yet: an empty answer stands for what it would have been.
    assert bool(messages) == bool(cut_at)
    if messages and vocabulary.MESSAGE in tokens[:cut_at]:
        last, full = messages[-1], whole[len(messages) - 1]
        assert (last.kind, last.name) == (full.kind, full.name)
        # A character cut in two shows as one replacement character at the very end.
        assert full.text.startswith(last.text.removesuffix("�")) or full.text.startswith(last.text)
        assert not last.complete or last == full


@given(st.data())
def test_soup_gives_the_same_messages_whatever_the_chunking(data):
    soup = data.draw(soups)
    cut, one_call = data.draw(st.booleans()), data.draw(st.booleans())
    one_by_one = split([[token] for token in soup], cut=cut, one_call=one_call)
    assert split(data.draw(chunkings(soup)), cut=cut, one_call=one_call) == one_by_one
    assert split([soup], cut=cut, one_call=one_call) == one_by_one


@given(soups)
def test_soup_never_puts_a_control_token_into_text_or_names(soup):
    # The soups spell `<|end|>` and `<|message|>` in ordinary tokens, but never these.
    messages, _, _, _ = split([soup], cut=False)
    for message in messages:
        for marker in ("<|return|>", "<|call|>", "<|start|>", "<|channel|>", "<|constrain|>"):
            assert marker not in message.name
            assert marker not in message.text


@pytest.mark.parametrize("cut", [True, False])
def test_no_tokens_give_no_messages(cut):
    assert split([], cut=cut)[0] == []
