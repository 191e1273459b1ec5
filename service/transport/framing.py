"""Messages in a stream of bytes: one byte for "is compressed", four for the length, then the message."""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple, TypeAlias

from service.transport.faults import Code, Refused

ENCODINGS: Final = ("identity", "deflate", "gzip")
"""How messages of a request may be compressed."""

_PREFIX: Final = struct.Struct(">BI")
# zlib's name for the formats: a header of zlib's own, and 16 more for that of gzip.
_WINDOW_BITS: Final = {"deflate": zlib.MAX_WBITS, "gzip": zlib.MAX_WBITS + 16}


def framed(message: bytes) -> bytes:
    """Return a message as it is sent, uncompressed."""
    return _PREFIX.pack(0, len(message)) + message


class Compressed(NamedTuple):
    """A message as it is sent: a thousandth of what `MessageReader.uncompressed` makes of it, or more."""

    body: bytes


Message: TypeAlias = bytes | Compressed


class MessageReader:
    """Takes a request's bytes in pieces of any size, and gives its messages.

    After `feed` has raised it must not be called again.
    """

    def __init__(self, max_bytes: int, encoding: str) -> None:
        """`max_bytes`: largest message, as it is sent and as it is uncompressed; `encoding`: of ENCODINGS.

        Raises:
            Refused: the encoding is none of ENCODINGS.
        """
        if encoding not in ENCODINGS:
            # Which there are is said in grpc-accept-encoding, which every response has (doc/compression.md).
            raise Refused(Code.UNIMPLEMENTED, "The request's grpc-encoding is not supported.")
        self._max_bytes = max_bytes
        self._encoding = encoding
        self._held = bytearray()

    @property
    def holds_a_part(self) -> bool:
        """Whether a message has begun and not ended: a request may not end then."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[Message]:
        """Take the next bytes, and return the messages that they complete.

        Raises:
            Refused: RESOURCE_EXHAUSTED where a message is too large, before it is held; INTERNAL where it is
                compressed, and the headers do not say how.
        """
        held = self._held
        held += data
        messages: list[Message] = []
        at = 0
        while len(held) - at >= _PREFIX.size:
            flag, length = _PREFIX.unpack_from(held, at)
            if length > self._max_bytes:
                raise self._too_large(f"{length} bytes long")
            end = at + _PREFIX.size + length
            if len(held) < end:
                break
            body = bytes(memoryview(held)[at + _PREFIX.size : end])
            messages.append(body if flag == 0 else self._compressed(flag, body))
            at = end
        del held[:at]
        return messages

    def uncompressed(self, compressed: Compressed) -> bytes:
        """Return a message of `feed` uncompressed. It may take tenths of a second, and may be in a thread.

        Raises:
            Refused: RESOURCE_EXHAUSTED where it is too large; INTERNAL where it is not compressed as the
                headers say.
        """
        unpacker = zlib.decompressobj(_WINDOW_BITS[self._encoding])
        try:
            # A few bytes can stand for gigabytes: no more than the limit is ever unpacked.
            message = unpacker.decompress(compressed.body, self._max_bytes + 1)
        except zlib.error:
            raise self._not_compressed() from None
        if len(message) > self._max_bytes:
            raise self._too_large("longer when it is uncompressed")
        if not unpacker.eof or unpacker.unused_data:
            raise self._not_compressed()
        return message

    def _compressed(self, flag: int, body: bytes) -> Compressed:
        if flag != 1 or self._encoding == "identity":
            raise Refused(Code.INTERNAL, "A message is marked as compressed, and the headers do not say how.")
        return Compressed(body)

    def _not_compressed(self) -> Refused:
        return Refused(
            Code.INTERNAL, f"A message is not compressed as its headers say, with {self._encoding}."
        )

    def _too_large(self, what: str) -> Refused:
        return Refused(
            Code.RESOURCE_EXHAUSTED,
            f"A message is too large: at most {self._max_bytes} bytes, and it is {what}.",
        )
