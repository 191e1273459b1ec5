"""executor/utils.py: the failure of one request."""


class RequestError(RuntimeError):
    """Raised for a request that failed; the engine goes on."""
