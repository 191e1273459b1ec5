"""Sealed texts: what only the server can read, and the client keeps for it.

Reasoning goes round this way between requests that nothing is stored of. The seal is authenticated encryption
(Fernet), bound to the API key that the text was made for. Keys rotate: the first seals, every one opens.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Final, Literal

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from service.errors import InvalidRequest

MAX_SEALED_CHARACTERS: Final = 2**22
"""Longest sealed text that is opened, of 600,000 tokens: each key that is tried holds others up for 20 ms."""

SealedKind = Literal["reasoning", "compaction"]
"""What a sealed text is: a thought does not come back as a summary."""


class Sealer:
    """Seals and opens texts."""

    def __init__(self, keys: Sequence[str]) -> None:
        """`keys`: secrets of any form, at least one, the newest first."""
        self._fernet = MultiFernet([Fernet(_derived(key)) for key in keys])

    def seal(self, owner: str, kind: SealedKind, text: str) -> str:
        """Return the text sealed for an owner, to come back as what it is."""
        return self._fernet.encrypt(f"{owner} {kind}\n{text}".encode()).decode()

    def open(self, owner: str, kind: SealedKind, sealed: str, path: str) -> str:
        """Return a sealed text. `path`: the request field that it came in.

        Raises:
            InvalidRequest: it was not sealed here as this kind for this owner, has been changed since, or is
                longer than any that is opened.

        """
        if len(sealed) > MAX_SEALED_CHARACTERS:
            raise InvalidRequest(
                f"{path} may have {MAX_SEALED_CHARACTERS} characters at most. Send the item without it, or "
                "leave it out.",
                code="invalid_encrypted_content",
                param=path,
            )
        try:
            whose, _, text = self._fernet.decrypt(sealed.encode()).decode().partition("\n")
        except (InvalidToken, UnicodeError):
            whose = text = ""
        if whose != f"{owner} {kind}":
            raise InvalidRequest(
                f"{path} cannot be read: it was not made by this server for this API key, or has been "
                "changed. Send the item without it, or leave it out.",
                code="invalid_encrypted_content",
                param=path,
            )
        return text


def _derived(key: str) -> bytes:
    return base64.urlsafe_b64encode(hashlib.sha256(key.encode()).digest())
