"""Header fields: a request's to a call's metadata, and a call's metadata to a response's.

h2 is told not to check what it receives: what it finds wrong it answers by closing the connection, with all
its calls, and a gateway has those of many clients on one. Here only the one stream pays, whatever the fields
say. Frames that are wrong in themselves still end their connection: a window that grows by 0, PRIORITY of
another length than 5, what comes on a stream behind its end. Those are the gateway's own, not its clients'.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from service.transport.faults import Code, Malformed, NotGrpc, Refused
from service.transport.framing import ENCODINGS

Field: TypeAlias = tuple[bytes, bytes]
Metadata: TypeAlias = tuple[tuple[str, str | bytes], ...]

MAX_LIST_BYTES: Final = 65_536
"""Largest list of header fields that is served, counted as RFC 9113 does (6.5.2): 32 bytes a field on top."""

_FIELD_BYTES: Final = 32
# RFC 9113, 8.2.1 and 8.2.2.
_NAME: Final = re.compile(rb":?[!#$%&'*+.^_`|~0-9a-z-]+")
_ILLEGAL_IN_VALUES: Final = re.compile(rb"[\0\r\n]")
_CONNECTION_FIELDS: Final = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
_PSEUDO_FIELDS: Final = frozenset((b":method", b":scheme", b":authority", b":path"))
# Said to this layer, not to servicers.
_TAKEN: Final = frozenset(
    (
        b"content-type",
        b"content-length",
        b"te",
        b"grpc-timeout",
        b"grpc-encoding",
        b"grpc-accept-encoding",
        b"grpc-message-type",
    )
)
_CONTENT_TYPE: Final = re.compile(rb"application/grpc([+;].*)?", re.IGNORECASE)
_TIMEOUT: Final = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNIT_S: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

_RESPONSE: Final[tuple[Field, ...]] = (
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", ",".join(ENCODINGS).encode()),
)
_METADATA_NAME: Final = re.compile(r"[0-9a-z_.-]+")
_METADATA_VALUE: Final = re.compile(rb"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What a request says before its first message."""

    path: str
    """The method's full name: `/package.Service/Method`."""
    metadata: Metadata
    timeout_s: float | None
    """Seconds that the client waits; None where it waits for ever."""
    encoding: str
    """How messages may be compressed, as the client names it."""


def read_request(fields: Iterable[Field]) -> RequestHead:
    """Return what the header fields of a request say.

    Raises:
        Malformed: they are no request of HTTP/2.
        NotGrpc: the request is not one of gRPC.
        Refused: RESOURCE_EXHAUSTED where they are too many, INTERNAL where one has no meaning.
    """
    pseudo: dict[bytes, bytes] = {}
    plain: list[Field] = []
    size = 0
    for name, value in fields:
        size += len(name) + len(value) + _FIELD_BYTES
        _check_field(name, value)
        if not name.startswith(b":"):
            plain.append((name, value.strip(b" \t")))
        elif plain or name in pseudo or name not in _PSEUDO_FIELDS:
            raise Malformed(f"the pseudo-header field {name!r} is unknown, doubled or out of place")
        else:
            pseudo[name] = value
    if not pseudo.get(b":path") or b":method" not in pseudo or b":scheme" not in pseudo:
        raise Malformed("a pseudo-header field is missing")
    if pseudo[b":method"] != b"POST":
        raise NotGrpc(405)
    given = dict(plain)
    if not _CONTENT_TYPE.fullmatch(given.get(b"content-type", b"")):
        raise NotGrpc(415)
    if size > MAX_LIST_BYTES:
        raise Refused(
            Code.RESOURCE_EXHAUSTED,
            f"The metadata is too large: at most {MAX_LIST_BYTES} bytes, and it is {size}.",
        )
    return RequestHead(
        path=pseudo[b":path"].decode("latin-1"),
        metadata=tuple(_received(plain)),
        timeout_s=_timeout_s(given.get(b"grpc-timeout")),
        encoding=given.get(b"grpc-encoding", b"identity").decode("latin-1"),
    )


def response_head(metadata: Sequence[Field] = ()) -> list[Field]:
    """Return the header fields that a response begins with; `metadata` as `to_send` gives it."""
    return [*_RESPONSE, *metadata]


def trailers(code: int, message: str, metadata: Sequence[Field] = ()) -> list[Field]:
    """Return the header fields that a call ends with; without messages, the head stands before them."""
    fields = [(b"grpc-status", b"%d" % code)]
    if message:
        fields.append((b"grpc-message", percent_encoded(message)))
    return [*fields, *metadata]


def to_send(metadata: Iterable[tuple[str, str | bytes]]) -> list[Field]:
    """Return metadata as header fields.

    Raises:
        ValueError: a name or a value has characters that metadata cannot have.
    """
    fields = []
    for name, value in metadata:
        sent = value.encode() if isinstance(value, str) else value
        if name.endswith("-bin"):
            sent = base64.b64encode(sent).rstrip(b"=")
        elif not _METADATA_VALUE.fullmatch(sent):
            raise ValueError(f"the value of the metadata {name!r} is not printable ASCII")
        if not _METADATA_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of metadata: it takes a-z, 0-9 and _ . -")
        fields.append((name.encode(), sent))
    return fields


def percent_encoded(message: str) -> bytes:
    """Return a status message as it is sent: printable ASCII except `%`, the rest of its UTF-8 as `%XX`."""
    return b"".join(
        b"%c" % byte if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        for byte in message.encode("utf-8", "replace")
    )


def _check_field(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name) or name in _CONNECTION_FIELDS or _ILLEGAL_IN_VALUES.search(value):
        raise Malformed(f"the header field {name!r} is not legal")
    if name == b"te" and value.strip().lower() != b"trailers":
        raise Malformed("te may say `trailers` only")


def _received(fields: Iterable[Field]) -> Iterable[tuple[str, str | bytes]]:
    for name, value in fields:
        if name in _TAKEN:
            continue
        if name.endswith(b"-bin"):
            # Those on the way may have joined several of one name.
            for part in value.split(b","):
                yield name.decode(), _binary(name, part.strip())
        else:
            # ASCII by the protocol, yet people send more: no reason to fail.
            yield name.decode(), value.decode("latin-1")


def _binary(name: bytes, value: bytes) -> bytes:
    try:
        return base64.b64decode(value.rstrip(b"=") + b"=" * (-len(value.rstrip(b"=")) % 4), validate=True)
    except binascii.Error:
        raise Refused(Code.INTERNAL, f"The metadata {name.decode()} is not in base64.") from None


def _timeout_s(value: bytes | None) -> float | None:
    if value is None:
        return None
    found = _TIMEOUT.fullmatch(value)
    if not found:
        raise Refused(Code.INTERNAL, "The grpc-timeout is not a number of up to 8 digits and a unit.")
    return int(found[1]) * _UNIT_S[found[2]]
