"""Any chunking of the same tokens gives the same events, but for how deltas are grouped; all are right."""

from hypothesis import given
from hypothesis import strategies as st

from service.dialect.harmony.splitter import HarmonySplitter
from service.wire.stream_rules import check_stream
from tests.property.turns import chunkings, soups, turn_tokens, written_turns
from tests.streams import Events, play, with_joined_deltas


def stream(chunks: list[list[int]], *, end: str) -> Events:
    return play(HarmonySplitter(), chunks, end=end)


ends = st.sampled_from(["stop", "length", "fault"])


@given(st.data(), ends)
def test_well_formed_turns(data, end):
    tokens = turn_tokens(data.draw(written_turns()))
    tokens = tokens[: data.draw(st.integers(0, len(tokens)))] if end != "stop" else tokens
    one_by_one = stream([[token] for token in tokens], end=end)
    assert check_stream(one_by_one) == []
    chunked = stream(data.draw(chunkings(tokens)), end=end)
    assert check_stream(chunked) == []
    assert with_joined_deltas(chunked) == with_joined_deltas(one_by_one)


@given(st.data(), ends)
def test_token_soup(data, end):
    soup = data.draw(soups)
    one_by_one = stream([[token] for token in soup], end=end)
    assert check_stream(one_by_one) == []
    chunked = stream(data.draw(chunkings(soup)), end=end)
    assert check_stream(chunked) == []
    assert with_joined_deltas(chunked) == with_joined_deltas(one_by_one)
