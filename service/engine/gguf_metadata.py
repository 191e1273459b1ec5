"""What a GGUF file says of its model before the weights begin: keys and values."""

from __future__ import annotations

import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO, Final

_MAGIC: Final = b"GGUF"
_STRING: Final = 8
_ARRAY: Final = 9
# The other types, by their numbers, as `struct` writes them.
_NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_metadata(path: Path, keys: Collection[str]) -> dict[str, Any]:
    """Return the values of those `keys` that the file has; strings in them are bytes.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no GGUF file.

    """
    with path.open("rb") as file:
        if file.read(4) != _MAGIC:
            raise ValueError(f"{path} is no GGUF file")
        _version, _tensors, count = _unpack(file, "IQQ")
        pairs = ((_string(file).decode(), _value(file, *_unpack(file, "I"))) for _ in range(count))
        return {key: value for key, value in pairs if key in keys}


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        return _unpack(file, _number(kind))[0]
    kind, count = _unpack(file, "IQ")
    if kind in (_STRING, _ARRAY):
        return [_value(file, kind) for _ in range(count)]
    return _unpack(file, f"{count}{_number(kind)}")


def _number(kind: int) -> str:
    if kind not in _NUMBERS:
        raise ValueError(f"GGUF has no type {kind}")
    return _NUMBERS[kind]


def _string(file: BinaryIO) -> bytes:
    (size,) = _unpack(file, "Q")
    return file.read(size)


def _unpack(file: BinaryIO, form: str) -> tuple[Any, ...]:
    form = f"<{form}"
    data = file.read(struct.calcsize(form))
    if len(data) < struct.calcsize(form):
        raise ValueError("the GGUF file ends too early")
    return struct.unpack(form, data)
