"""What a client can do wrong, by what it is answered with."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """The gRPC statuses that this layer gives by itself, by their numbers (doc/statuscodes.md)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Refused(Exception):
    """The call ends with this status. Other calls of the connection go on."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class NotGrpc(Exception):
    """The request is sound HTTP, but no gRPC: it is answered with an HTTP status."""

    def __init__(self, http_status: int) -> None:
        super().__init__(http_status)
        self.http_status = http_status


class Malformed(Exception):
    """The header fields are no HTTP/2 request (RFC 9113, 8.1.1). Its stream is reset; others go on."""
