"""Header fields: metadata comes back as it was sent, and no field harms more than its own call."""

import base64
from contextlib import suppress
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.transport.faults import Code, Malformed, NotGrpc, Refused
from service.transport.headers import (
    MAX_LIST_BYTES,
    Field,
    percent_encoded,
    read_request,
    to_send,
    trailers,
)

PSEUDO = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a.B/C"), (b":authority", b"x")]
GRPC = [(b"content-type", b"application/grpc"), (b"te", b"trailers")]
NAMES = st.from_regex(r"x-[0-9a-z_.-]{0,10}", fullmatch=True).filter(lambda name: not name.endswith("-bin"))
# White space around a value is no part of it: RFC 9110, 5.5.
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)).map(str.strip)


def request(*more: Field) -> list[Field]:
    return [*PSEUDO, *GRPC, *more]


def changed(**values: bytes | None) -> list[Field]:
    """A request with a field's value changed, or without it."""
    given = {name.decode().lstrip(":").replace("-", "_"): (name, value) for name, value in request()}
    return [
        (name, values.get(key, value) or b"")
        for key, (name, value) in given.items()
        if values.get(key, value) is not None
    ]


def test_a_request():
    head = read_request(request((b"grpc-timeout", b"5S"), (b"grpc-encoding", b"gzip"), (b"x-a", b"b")))
    assert head.path == "/a.B/C"
    assert head.metadata == (("x-a", "b"),)
    assert head.timeout_s == 5
    assert head.encoding == "gzip"
    assert read_request(request()).timeout_s is None
    assert read_request(request()).encoding == "identity"


@given(
    st.lists(
        st.tuples(NAMES, VALUES) | st.tuples(NAMES.map(lambda name: f"{name}-bin"), st.binary()), max_size=6
    )
)
def test_metadata_comes_back(metadata):
    assert read_request(request(*to_send(metadata))).metadata == tuple(metadata)


@pytest.mark.parametrize("value", [b"", b"\0", b"ab", b"abc", bytes(range(256))])
def test_binary_metadata_with_and_without_padding(value):
    whole = base64.b64encode(value)
    for sent in (whole, whole.rstrip(b"=")):
        assert read_request(request((b"x-bin", sent))).metadata == (("x-bin", value),)


def test_binary_metadata_that_was_joined_on_the_way():
    assert read_request(request((b"x-bin", b"YQ, Yg==,"))).metadata == (
        ("x-bin", b"a"),
        ("x-bin", b"b"),
        ("x-bin", b""),
    )


@pytest.mark.parametrize("value", [b"caf\xc3\xa9", b"\xff\xfe", b"tab\there", b"\x7f\x01"])
def test_values_that_are_not_ascii_do_no_harm(value):
    assert read_request(request((b"x-a", value))).metadata == (("x-a", value.decode("latin-1")),)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"1H", 3600), (b"2M", 120), (b"3S", 3), (b"4m", 0.004), (b"5u", 5e-6), (b"99999999n", 0.099999999)],
)
def test_timeouts(value, seconds):
    assert read_request(request((b"grpc-timeout", value))).timeout_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", [b"", b"5", b"S", b"123456789S", b"-1S", b"1.5S", b"5s", b"5S ,5S", b"\xb2S"]
)
def test_a_timeout_without_meaning(value):
    with pytest.raises(Refused) as caught:
        read_request(request((b"grpc-timeout", value)))
    assert caught.value.code is Code.INTERNAL


@pytest.mark.parametrize("value", [b"!", b"YQ=Q", b"a", b"\xc3"])
def test_binary_metadata_that_is_not_base64(value):
    with pytest.raises(Refused) as caught:
        read_request(request((b"x-bin", value)))
    assert caught.value.code is Code.INTERNAL


@pytest.mark.parametrize(
    ("content_type", "is_grpc"),
    [
        (b"application/grpc", True),
        (b"application/grpc+proto", True),
        (b"application/grpc;charset=utf-8", True),
        (b"Application/GRPC", True),
        (b"application/grpc-web", False),
        (b"application/json", False),
        (b"", False),
        (None, False),
    ],
)
def test_content_types(content_type, is_grpc):
    fields = changed(content_type=content_type)
    if is_grpc:
        read_request(fields)
    else:
        with pytest.raises(NotGrpc) as caught:
            read_request(fields)
        assert caught.value.http_status == 415


def test_methods():
    with pytest.raises(NotGrpc) as caught:
        read_request(changed(method=b"GET"))
    assert caught.value.http_status == 405


def test_te_may_be_missing_and_may_not_say_anything_else():
    read_request(changed(te=None))
    with pytest.raises(Malformed):
        read_request(changed(te=b"gzip"))


@pytest.mark.parametrize(
    "fields",
    [
        changed(path=None),
        changed(path=b""),
        changed(method=None),
        changed(scheme=None),
        request((b":path", b"/late")),
        [(b":path", b"/twice"), *request()],
        [(b":status", b"200"), *request()],
        request((b"X-Upper", b"a")),
        request((b"with space", b"a")),
        request((b"", b"a")),
        request((b"caf\xe9", b"a")),
        request((b"x-a", b"a\r\nb: c")),
        request((b"x-a", b"\0")),
        request((b"connection", b"close")),
        request((b"transfer-encoding", b"chunked")),
    ],
)
def test_malformed_requests(fields):
    with pytest.raises(Malformed):
        read_request(fields)


def test_a_list_that_is_too_large():
    read_request(request((b"x-a", b"a" * (MAX_LIST_BYTES - 1000))))
    with pytest.raises(Refused) as caught:
        read_request(request((b"x-a", b"a" * MAX_LIST_BYTES)))
    assert caught.value.code is Code.RESOURCE_EXHAUSTED
    # The small ones count, too.
    with pytest.raises(Refused):
        read_request(request(*[(b"x-a", b"")] * 2000))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([name for name, _ in request()] + [b"grpc-timeout", b"x-bin"])
            | st.binary(max_size=8),
            st.sampled_from([value for _, value in request()]) | st.binary(max_size=8),
        ),
        max_size=12,
    )
)
def test_no_fields_raise_anything_else(fields):
    with suppress(Refused, NotGrpc, Malformed):
        read_request(fields)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_messages_come_back(message):
    encoded = percent_encoded(message)
    assert all(0x20 <= byte <= 0x7E for byte in encoded)
    assert unquote(encoded.decode(), errors="strict") == message


def test_a_message_that_is_no_text():
    assert percent_encoded("a\ud800b") == b"a?b"


def test_trailers():
    assert trailers(0, "") == [(b"grpc-status", b"0")]
    assert trailers(8, "100 %\n", [(b"a", b"b")]) == [
        (b"grpc-status", b"8"),
        (b"grpc-message", b"100 %25%0A"),
        (b"a", b"b"),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [("Upper", "a"), ("", "a"), ("a:b", "a"), ("a", "\n"), ("a", "caf\xe9"), (":path", "a")],
)
def test_metadata_that_cannot_be_sent(name, value):
    with pytest.raises(ValueError, match="metadata"):
        to_send([(name, value)])
