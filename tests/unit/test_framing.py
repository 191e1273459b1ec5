"""Framing: any split of a stream of bytes gives the same messages; what is wrong or too large is refused."""

import gzip
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.transport.faults import Code, Refused
from service.transport.framing import Compressed, MessageReader, framed

LIMIT = 1000


def compressed(body: bytes) -> bytes:
    return struct.pack(">BI", 1, len(body)) + body


@st.composite
def pieces(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Messages, and their bytes in pieces."""
    messages = draw(st.lists(st.binary(max_size=40), max_size=6))
    whole = b"".join(map(framed, messages))
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return messages, [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(pieces())
def test_any_split_gives_the_same_messages(case):
    messages, split = case
    reader = MessageReader(LIMIT, "identity")
    assert [message for piece in split for message in reader.feed(piece)] == messages
    assert not reader.holds_a_part


@pytest.mark.parametrize("length", range(1, 10))
def test_a_message_that_has_begun_is_held(length):
    reader = MessageReader(LIMIT, "identity")
    assert reader.feed(framed(b"12345")[:length]) == []
    assert reader.holds_a_part


def plain(reader: MessageReader, data: bytes) -> list[bytes]:
    """The messages as they are read."""
    return [
        reader.uncompressed(message) if isinstance(message, Compressed) else message
        for message in reader.feed(data)
    ]


def refusal(reader: MessageReader, data: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        plain(reader, data)
    return caught.value


def test_a_message_of_the_limit_passes_and_one_above_is_refused_by_its_prefix():
    assert MessageReader(LIMIT, "identity").feed(framed(bytes(LIMIT))) == [bytes(LIMIT)]
    refused = refusal(MessageReader(LIMIT, "identity"), framed(bytes(LIMIT + 1))[:5])
    assert refused.code is Code.RESOURCE_EXHAUSTED
    assert "1000" in refused.message
    assert "1001" in refused.message


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_messages(encoding, compress):
    reader = MessageReader(LIMIT, encoding)
    data = compressed(compress(b"hello" * 200)) + framed(b"plain all the same") + compressed(compress(b""))
    assert plain(reader, data) == [b"hello" * 200, b"plain all the same", b""]


def test_a_compressed_message_waits_as_it_was_sent():
    body = gzip.compress(bytes(50_000_000))
    assert MessageReader(100_000, "gzip").feed(compressed(body)) == [Compressed(body)]


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_bomb_is_refused(encoding, compress):
    body = compress(bytes(50_000_000))
    reader = MessageReader(100_000, encoding)
    tracemalloc.start()
    try:
        refused = refusal(reader, compressed(body))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert refused.code is Code.RESOURCE_EXHAUSTED
    assert "100000" in refused.message
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("identity", compressed(gzip.compress(b"x", mtime=0))),
        ("gzip", compressed(b"not gzip")),
        ("gzip", compressed(zlib.compress(b"x"))),
        ("gzip", compressed(gzip.compress(b"x", mtime=0)[:-1])),
        ("gzip", compressed(gzip.compress(b"x", mtime=0) + b"more")),
        ("gzip", compressed(b"")),
        ("gzip", struct.pack(">BI", 2, 1) + b"x"),
    ],
)
def test_what_is_not_compressed_as_the_headers_say(encoding, data):
    assert refusal(MessageReader(LIMIT, encoding), data).code is Code.INTERNAL


@pytest.mark.parametrize("encoding", ["br", "", "gzip, gzip", "GZIP\xe9"])
def test_an_unknown_encoding(encoding):
    with pytest.raises(Refused) as caught:
        MessageReader(LIMIT, encoding)
    assert caught.value.code is Code.UNIMPLEMENTED


@given(st.lists(st.binary(max_size=30), max_size=10), st.sampled_from(["identity", "gzip", "deflate"]))
def test_no_bytes_raise_anything_else(split, encoding):
    reader = MessageReader(LIMIT, encoding)
    try:
        for piece in split:
            plain(reader, piece)
    except Refused:
        pass
