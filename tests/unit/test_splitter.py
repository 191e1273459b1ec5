"""The splitter's numbered rules, a test or more each; see the top of `dialect/harmony/splitter.py`."""

import pytest

from service.dialect.base import MAX_NAME_CHARACTERS, Kind, MessageText
from service.dialect.harmony import vocabulary
from service.dialect.harmony.splitter import MAX_HEADER_TOKENS, HarmonySplitter
from service.engine.base import TokenLogprob
from service.wire.openai_json import encode
from tests.property.test_splitter import SplitMessage, messages_of

FUNCTIONS = frozenset({"get_weather", "search"})


def tokens(harmony: str) -> list[int]:
    return vocabulary.load_encoding().encode(harmony, allowed_special="all")


def plain(text: str) -> list[int]:
    return vocabulary.load_encoding().encode(text, disallowed_special=())


def split(output: str | list[int], *, cut: bool = False, one_call: bool = False) -> list[SplitMessage]:
    """The messages of an output, the same token by token and all at once."""
    ids = tokens(output) if isinstance(output, str) else output
    results = []
    for chunks in ([[token] for token in ids], [ids]):
        splitter = HarmonySplitter(FUNCTIONS, one_call=one_call)
        segments = [segment for chunk in chunks for segment in splitter.feed(chunk)]
        results.append(messages_of(segments + splitter.finish(cut=cut)))
    assert results[0] == results[1]
    return results[0]


def answer(text: str, *, complete: bool = True) -> SplitMessage:
    return SplitMessage(Kind.ANSWER, "", text, complete)


def reasoning(text: str, *, complete: bool = True) -> SplitMessage:
    return SplitMessage(Kind.REASONING, "", text, complete)


def preamble(text: str, *, complete: bool = True) -> SplitMessage:
    return SplitMessage(Kind.PREAMBLE, "", text, complete)


def call(arguments: str, name: str = "get_weather", *, complete: bool = True) -> SplitMessage:
    return SplitMessage(Kind.FUNCTION_CALL, name, arguments, complete)


WELL_FORMED = [
    ("<|channel|>final<|message|>Hi<|return|>", [answer("Hi")]),
    ("<|channel|>commentary<|message|>Hm<|end|>", [preamble("Hm")]),
    ("<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>A<|return|>",
     [reasoning(""), answer("A")]),
    ("<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>", [call("{}")]),
    (" to=functions.get_weather<|channel|>commentary json<|message|>{}<|call|>", [call("{}")]),
    ("<|channel|>analysis to=functions.get_weather code<|message|>{}<|call|>", [call("{}")]),
]  # fmt: skip


@pytest.mark.parametrize(("output", "messages"), WELL_FORMED)
def test_well_formed(output, messages):
    assert split(output) == messages


def test_a_delta_belongs_to_its_own_token_and_the_last_is_not_lost():
    """A delta read before its token is processed is the one of the token before."""
    splitter = HarmonySplitter()
    splitter.feed(tokens("<|channel|>final<|message|>"))
    texts = [[s.text for s in splitter.feed([token])] for token in tokens("one two three")]
    assert texts == [["one"], [" two"], [" three"]]
    assert messages_of(splitter.feed(tokens("<|return|>"))[:0]) == []


def test_white_space_alone_never_comes_before_its_message_is_announced():
    splitter = HarmonySplitter()
    segments = [
        s for token in tokens("<|channel|>final<|message|>\n\n Hi<|return|>") for s in splitter.feed([token])
    ]
    assert messages_of(segments) == [answer("\n\n Hi")]
    assert split(
        "<|channel|>analysis<|message|>a<|end|>\n<|start|>assistant<|channel|>final<|message|>b<|return|>"
    ) == [
        reasoning("a"),
        answer("b"),
    ]


RULE_1 = [
    # Recipient before and after the channel, on any channel, glued to what stands beside it.
    ("<|channel|>commentaryto=functions.get_weather<|message|>{}<|call|>", [call("{}")]),
    ("<|channel|>commentary to=functions.get_weatherjson<|message|>{}<|call|>", [call("{}")]),
    ("<|channel|>final to=functions.get_weather<|message|>{}<|call|>", [call("{}")]),
    ("analysis to=functions.get_weather code<|message|>{}<|call|>", [call("{}")]),
    ("<|channel|>commentary to=get_weather<|message|>{}<|call|>", [call("{}")]),
    ("<|channel|>commentary to=functions.nobody_knows<|message|>{}<|call|>", [call("{}", "nobody_knows")]),
    # No recipient to speak of.
    ("<|channel|>commentary to=<|constrain|>json<|message|>x<|end|>", [preamble("x")]),
    ("<|channel|>commentary to=functions.<|message|>x<|end|>", [preamble("x")]),
    ("<|channel|>commentary to=all<|message|>x<|end|>", [preamble("x")]),
    # Channels empty, unknown, glued, doubled.
    ("<|channel|><|message|>x<|end|>", [answer("x")]),
    ("<|channel|>musings<|message|>x<|end|>", [answer("x")]),
    ("<|channel|>finaljson<|message|>x<|end|>", [answer("x")]),
    ("<|channel|>analysis<|channel|>final<|message|>x<|end|>", [answer("x")]),
    ("<|start|>assistantassistant<|channel|>analysis<|message|>x<|end|>", [reasoning("x")]),
    # Content types are not content.
    ("<|channel|>final json<|message|>x<|end|>", [answer("x")]),
    ("<|channel|>final <|constrain|>json<|message|>x<|end|>", [answer("x")]),
    # Stray words reach the user, but never break a call's arguments.
    ("<|channel|>final sorry, no<|message|>!<|end|>", [answer("sorry, no!")]),
    ("<|channel|>commentary to=functions.search well then<|message|>{}<|call|>", [call("{}", "search")]),
]  # fmt: skip


@pytest.mark.parametrize(("output", "messages"), RULE_1)
def test_rule_1_header_words_wherever_they_stand(output, messages):
    assert split(output) == messages


def test_rule_1_the_name_of_a_call_fits_a_prompt():
    (dashes,) = plain("-" * 64)
    output = [*tokens("<|channel|>commentary to="), *[dashes] * 20, *tokens("<|message|>{}<|call|>")]
    assert split(output) == [call("{}", "-" * MAX_NAME_CHARACTERS)]


def test_rule_1_the_longest_names_that_may_be_on_offer_in_the_shortest_tokens():
    name = f"{'aZ' * 32}.{'0-' * 32}"
    to = [token for character in f"assistant to={name}" for token in plain(character)]
    header = [*to, *tokens("<|channel|>commentary <|constrain|>json<|message|>")]
    assert split([*header, *tokens("{}<|call|>")]) == [call("{}", name)]


RULE_2 = [
    ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>", [reasoning("a"), answer("b")]),
    ("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|return|>",
     [reasoning("a"), answer("b")]),
    ("<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b<|return|>", [reasoning("a"), answer("b")]),
    ("<|channel|>analysis<|message|>a<|end|>commentary to=functions.search <|constrain|>json<|message|>{}<|call|>",
     [reasoning("a"), call("{}", "search")]),
]  # fmt: skip


@pytest.mark.parametrize(("output", "messages"), RULE_2)
def test_rule_2_missing_ends_and_starts_are_supplied(output, messages):
    assert split(output) == messages


RULE_3 = [
    tokens(
        "<|start|><|start|>assistant<|channel|>final<|message|><|message|>x<|constrain|>y<|message|>z<|return|>"
    ),
    [*tokens("<|channel|>final<|message|>x"), 200001, 200500, 999_999, *tokens("yz<|return|>")],
    [200001, *tokens("<|channel|>final<|message|>xyz<|end|><|end|><|return|>")],
]


@pytest.mark.parametrize("output", RULE_3)
def test_rule_3_control_tokens_out_of_place_are_dropped(output):
    assert split(output) == [answer("xyz")]


def test_rule_3_text_that_spells_a_marker_is_text():
    spelled = "<|end|><|start|>assistant<|channel|>final<|message|>"
    output = [*tokens("<|channel|>final<|message|>"), *plain(spelled), vocabulary.RETURN]
    assert split(output) == [answer(spelled)]


RULE_4 = [
    ("<|channel|>final Sorry, I cannot help.<|return|>", [answer("Sorry, I cannot help.")]),
    ("<|channel|>I'm sorry.<|end|>", [answer("I'm sorry.")]),
    ("<|channel|>final<|end|>", [answer("")]),
    ('<|channel|>commentary to=functions.search <|constrain|>json{"a":1}<|call|>', [call('{"a":1}', "search")]),
    ("<|channel|>commentary to=functions.search<|call|>", [call("", "search")]),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|end|><|start|>assistant<|return|>", [reasoning("a")]),
    ("<|channel|><|end|><|return|>", []),
]  # fmt: skip


@pytest.mark.parametrize(("output", "messages"), RULE_4)
def test_rule_4_headers_without_a_message_marker(output, messages):
    assert split(output) == messages


@pytest.mark.parametrize("end", ["<|return|>", "<|endoftext|>"])
def test_rule_5_nothing_counts_after_the_turn(end):
    output = tokens(f"<|channel|>final<|message|>x{end}")
    trailing = tokens("<|end|><|start|>assistant<|channel|>final<|message|>y<|return|>")
    assert split(output + trailing) == [answer("x")]
    splitter = HarmonySplitter()
    splitter.feed(output + trailing)
    assert (splitter.ended, splitter.tokens) == (True, len(output))


def test_rule_5_one_call_ends_the_turn_where_only_one_is_allowed():
    first = "<|channel|>commentary to=functions.search<|message|>{}<|call|>"
    both = first + "<|start|>assistant<|channel|>commentary to=functions.get_weather<|message|>{}<|call|>"
    assert split(both, one_call=True) == [call("{}", "search")]
    assert split(both) == [call("{}", "search"), call("{}")]


RULE_6 = [
    ("Just text.<|return|>", [answer("Just text.")]),
    ("final answer: 42<|end|>", [answer("final answer: 42")]),
    ("<|channel|>analysis<|message|>a<|end|>Stray words.<|return|>", [reasoning("a"), answer("Stray words.")]),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant No.<|end|>", [reasoning("a"), answer(" No.")]),
    ("word " * 300 + "end<|return|>", [answer("word " * 300 + "end")]),
    ("<|channel|>analysis " + "word " * 300 + "end<|return|>", [reasoning("word " * 300 + "end")]),
]  # fmt: skip


@pytest.mark.parametrize(("output", "messages"), RULE_6)
def test_rule_6_text_without_a_header_reaches_the_user(output, messages):
    assert split(output) == messages


def test_rule_6_text_without_a_header_is_streamed_not_gathered():
    splitter = HarmonySplitter()
    assert splitter.feed(tokens("word " * (MAX_HEADER_TOKENS + 2)))


INCOMPLETE = "🎉".encode()[:3]
RULE_7 = [
    ("🎉".encode(), "🎉"),
    (INCOMPLETE, "\ufffd"),
    (b"a\xffb", "a\ufffdb"),
    (b"\xc3", "\ufffd"),
    (INCOMPLETE + b"a", "\ufffda"),
]


@pytest.mark.parametrize(("data", "text"), RULE_7)
def test_rule_7_invalid_and_incomplete_utf8(data, text):
    table = {value: i for i, value in enumerate(vocabulary.token_bytes()) if len(value) == 1}
    ids = [table[bytes([byte])] for byte in data]
    following = tokens("<|end|><|start|>assistant<|channel|>final<|message|>next<|return|>")
    output = [*tokens("<|channel|>analysis<|message|>"), *ids]
    assert split(output + following) == [reasoning(text), answer("next")]
    assert split(output, cut=True) == [reasoning(text, complete=False)]


def test_rule_7_a_character_cut_by_the_header_limit_is_whole():
    emoji = tokens("🎉🎊")
    output = plain("word" * MAX_HEADER_TOKENS)[: MAX_HEADER_TOKENS - 1] + emoji * 3
    assert split([*output, vocabulary.RETURN])[0].text.endswith("🎉🎊" * 3)


RULE_8 = [
    ("<|channel|>final<|message|>Hel", [answer("Hel", complete=False)]),
    ("<|channel|>commentary to=functions.search<|message|>{", [call("{", "search", complete=False)]),
    ("<|channel|>final<|message|>Hi<|return|>", [answer("Hi")]),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.sea", [reasoning("a")]),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>comm", [reasoning("a")]),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant to", [reasoning("a")]),
    ("<|channel|>final Sorry, I can", [answer("Sorry, I can", complete=False)]),
    ("Just te", [answer("Just te", complete=False)]),
]  # fmt: skip


@pytest.mark.parametrize(("output", "messages"), RULE_8)
def test_rule_8_cut_short(output, messages):
    assert split(output, cut=True) == messages


def test_rule_8_without_a_stop_token_the_model_still_stopped_by_itself():
    assert split("<|channel|>final<|message|>Hi") == [answer("Hi")]
    assert split("<|channel|>commentary to=functions.search") == [call("", "search")]


@pytest.mark.parametrize("figure", ["-inf", "nan"])
def test_log_probabilities_that_json_cannot_say(figure):
    splitter = HarmonySplitter()
    splitter.feed(tokens("<|channel|>final<|message|>"))
    (word,) = plain("word")
    (text,) = splitter.feed([word], [TokenLogprob(word, float(figure), [(word, float(figure))])])
    assert isinstance(text, MessageText)
    (entry,) = text.logprobs
    assert entry.logprob == entry.top_logprobs[0].logprob == -9999
    encode(entry)
