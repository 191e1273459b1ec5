"""What of grpc.aio's ServicerContext is the same for every call here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import grpc


class PlainContext(grpc.aio.ServicerContext[Any, Any]):
    """No TLS, so nobody is known; no compressed responses."""

    def peer_identities(self) -> Iterable[bytes] | None:
        """Return None: the client has shown no certificate."""
        return None

    def peer_identity_key(self) -> str | None:
        """Return None, as above."""
        return None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return nothing, as above."""
        return {}

    def set_compression(self, compression: grpc.Compression) -> None:
        """Not offered: a compressed token would be larger than a plain one."""
        raise NotImplementedError("responses are not compressed")

    def disable_next_message_compression(self) -> None:
        """Do nothing: no message is compressed."""

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        """End the call with a status and its metadata, and leave the handler."""
        await self.abort(status.code, status.details, status.trailing_metadata or ())
