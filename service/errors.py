"""The domain's errors. Who is to blame is in the class; `rpc/status.py` maps each to a status once.

    ServiceError
    ├── InvalidRequest     the caller's: a field is wrong, missing or not supported here
    ├── Unauthenticated    the caller's: no key, or a wrong one
    ├── NotFound           the caller's: a named thing does not exist
    ├── Overloaded         nobody's: come back after `retry_after_s`
    ├── Unavailable        the server's: shutting down, or its engine is not ready
    └── EngineFailed       the engine's: generation broke; the message is safe to show

`message` is written for the caller: what is wrong and what to do. It never holds prompts, keys or the text
of an unexpected exception.
"""

from __future__ import annotations


class ServiceError(Exception):
    """A failure that the caller is told about.

    Attributes:
        message: one sentence for the caller.
        code: OpenAI's machine-readable error code, never empty.
        param: path of the request field to blame (`input[2].content`), or None.
    """

    default_code = "server_error"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.param = param


class InvalidRequest(ServiceError):
    """A request field is wrong, missing, or not supported by this server."""

    default_code = "invalid_value"


class Unauthenticated(ServiceError):
    """The call carries no API key that the server knows."""

    default_code = "invalid_api_key"


class NotFound(ServiceError):
    """A model, route or stored object that the request names does not exist."""

    default_code = "not_found"


class Overloaded(ServiceError):
    """Every slot and queue place is taken.

    Attributes:
        retry_after_s: whole seconds after which trying again is worth it, at least 1.
    """

    default_code = "rate_limit_exceeded"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = max(1, retry_after_s)


class Unavailable(ServiceError):
    """The server is shutting down, or its engine cannot serve now."""

    default_code = "server_unavailable"


class EngineFailed(ServiceError):
    """The engine broke while generating. The message is the engine adapter's own, safe to show."""

    default_code = "server_error"


class StartupError(Exception):
    """The service cannot start; the message says why and what to do, in one line."""
