"""JSON pointers (RFC 6901): `/$defs/a~1b/0` names a part of a document. Sans-IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def pointed(document: Any, pointer: str) -> Iterator[Any]:
    """Yield the part of a document that a pointer names, if there is such a part; the empty one names all."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and name in document:
            document = document[name]
        elif isinstance(document, list) and name.isdecimal() and str(int(name[:9])) == name:
            if int(name) >= len(document):
                return
            document = document[int(name)]
        else:
            return
    yield document
