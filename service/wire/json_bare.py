"""JSON text without its strings: what is left is brackets, commas, numbers and words.

Slice by slice, since each look at bytes holds the interpreter's lock, and a body may be long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SLICE_BYTES = 2**18
"""Bytes that are looked at in one go, in some 5 ms at most."""


def bare_slices(data: bytes) -> Iterator[bytes]:
    """Yield JSON text without its strings, in slices; what is no JSON gives something, too."""
    escape, inside = b"", False
    for at in range(0, len(data), SLICE_BYTES):
        piece = escape + data[at : at + SLICE_BYTES]
        # From the left, so that of three backslashes the third stands before what follows.
        piece = piece.replace(b"\\\\", b"")
        escape = piece[-1:] if piece.endswith(b"\\") else b""
        piece = piece.removesuffix(escape).replace(b'\\"', b"")
        # Now every quote opens or closes a string.
        parts = piece.split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
