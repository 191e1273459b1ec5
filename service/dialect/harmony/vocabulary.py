"""Harmony's vocabulary, loaded offline: text to tokens, the bytes of tokens, and the control tokens.

The ranks (o200k) come from the PyPI package quicktok-v1, and so does the encoder: openai-harmony's own takes
time quadratic in the length of a word and panics on long ones (openai/harmony#151, #93), which one request
could use to stop the server. A test holds the two to the same tokens.

openai-harmony reads the ranks from a file, `o200k_base.tiktoken`, and would download it. Here it is made from
quicktok's, checked against its published hash, and kept in a cache folder, `openresponses` in
`$XDG_CACHE_HOME` or `~/.cache`. A `TIKTOKEN_ENCODINGS_BASE` that the user has set wins: openai-harmony reads
that folder itself.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import openai_harmony
import quicktok

from service.errors import StartupError

END_OF_TEXT: Final = 199999
RETURN: Final = 200002
CONSTRAIN: Final = 200003
CHANNEL: Final = 200005
START: Final = 200006
END: Final = 200007
MESSAGE: Final = 200008
CALL: Final = 200012

FIRST_SPECIAL: Final = 199998
"""Every id below is text; every id from here on is a control token, a reserved one, or none at all."""

_FILE_NAME: Final = "o200k_base.tiktoken"
_SHA256: Final = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_FOLDER_VARIABLE: Final = "TIKTOKEN_ENCODINGS_BASE"


@cache
def load_encoding() -> openai_harmony.HarmonyEncoding:
    """Return openai-harmony's encoding for gpt-oss, without any network.

    Raises:
        StartupError: the ranks are not those that Harmony's vocabulary is made of.

    """
    if os.environ.get(_FOLDER_VARIABLE):
        return _load(f"{_FOLDER_VARIABLE} must name a folder that holds {_FILE_NAME}")
    with _ranks_folder() as folder:
        os.environ[_FOLDER_VARIABLE] = str(folder)
        try:
            return _load(f"delete {folder}")
        finally:
            # The folder may go, and child processes take what is set here for the user's.
            del os.environ[_FOLDER_VARIABLE]


def load() -> None:
    """Load all of it, so that no request has to wait for it."""
    load_encoding()
    token_bytes()
    _encoder()


def encode(text: str) -> list[int]:
    """Return the tokens of a text, in time linear in its length. A marker spelled out in it stays text."""
    tokens: list[int] = _encoder().encode_ordinary(text)
    return tokens


def count(text: str) -> int:
    """Return how many tokens a text has, without making them: other threads go on meanwhile."""
    number: int = _encoder().count(text)
    return number


@cache
def token_bytes() -> tuple[bytes, ...]:
    """Return the bytes of every text token, indexed by its id: `FIRST_SPECIAL` entries.

    Raises:
        StartupError: the package that holds them is missing.

    """
    data = _packed_ranks()
    (count,) = struct.unpack_from("<I", data)
    table = [b""] * count
    at = 4
    for _ in range(count):
        size = data[at] | data[at + 1] << 8
        at += 2
        rank_at = at + size
        table[int.from_bytes(data[rank_at : rank_at + 4], "little")] = data[at:rank_at]
        at = rank_at + 4
    return tuple(table)


@cache
def _encoder() -> quicktok.Tokenizer:
    return quicktok.get_encoding("o200k_harmony")


def _load(advice: str) -> openai_harmony.HarmonyEncoding:
    try:
        return openai_harmony.load_harmony_encoding(openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS)
    except openai_harmony.HarmonyError as error:
        raise StartupError(f"Harmony's vocabulary cannot be loaded: {advice}.") from error


def _packed_ranks() -> bytes:
    """Quicktok's ranks: uint32 count; then uint16 length, bytes, uint32 rank for each; little-endian."""
    spec = importlib.util.find_spec("quicktok")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "data" / "o200k.vocab").read_bytes()


@contextmanager
def _ranks_folder() -> Iterator[Path]:
    """Give a folder that holds the ranks file: the cache, or a temporary one where it cannot be written."""
    try:
        folder = _filled_cache()
    except OSError:
        with tempfile.TemporaryDirectory(prefix="openresponses-") as temporary:
            _write_ranks(Path(temporary))
            yield Path(temporary)
    else:
        yield folder


def _filled_cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if not base.is_absolute():
        raise FileNotFoundError("there is no home folder, or XDG_CACHE_HOME is relative and does not count")
    folder = base / "openresponses"
    path = folder / _FILE_NAME
    if not (path.is_file() and _digest(path.read_bytes()) == _SHA256):
        folder.mkdir(parents=True, exist_ok=True)
        _write_ranks(folder)
    return folder


def _write_ranks(folder: Path) -> None:
    """Put the ranks file into a folder, whole or not at all: other processes may be doing so too."""
    content = b"".join(
        base64.b64encode(token) + b" " + str(rank).encode() + b"\n"
        for rank, token in enumerate(token_bytes())
    )
    if _digest(content) != _SHA256:
        raise StartupError("quicktok-v1 does not carry the o200k ranks: install the pinned version.")
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(content)
    try:
        Path(file.name).replace(folder / _FILE_NAME)
    except OSError:
        Path(file.name).unlink()
        raise


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
