"""What the service tells Prometheus, on a port of its own: `--metrics HOST:PORT`."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server

from service.errors import StartupError
from service.run.flush import FlushStats

_WAITING_BUCKETS: Final = (1, 4, 16, 64, 256, 1024, 4096, 8192, 16384)
_SIZE_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)


class Metrics:
    """Counts what responses have done; one call a response."""

    def __init__(self) -> None:
        """Register everything at zero."""
        self._registry = CollectorRegistry()
        self._responses = Counter(
            "openresponses_responses", "Responses that have ended, however they did.", registry=self._registry
        )
        self._tokens = Counter(
            "openresponses_output_tokens", "Tokens that engines have given.", registry=self._registry
        )
        self._flushes = Counter(
            "openresponses_flushes", "Flushes to clients that held tokens.", registry=self._registry
        )
        self._flush_tokens = Histogram(
            "openresponses_flush_tokens",
            "Tokens to a flush, as a response's mean: it grows with load and with slow clients.",
            buckets=_SIZE_BUCKETS,
            registry=self._registry,
        )
        self._waiting = Histogram(
            "openresponses_waiting_tokens_peak",
            "Most tokens of a response that waited for its client.",
            buckets=_WAITING_BUCKETS,
            registry=self._registry,
        )

    def observe(self, stats: FlushStats) -> None:
        """Count one response."""
        self._responses.inc()
        self._tokens.inc(stats.tokens)
        self._flushes.inc(stats.flushes)
        self._waiting.observe(stats.peak_waiting_tokens)
        if stats.flushes:
            self._flush_tokens.observe(stats.tokens / stats.flushes)

    def serve(self, address: str) -> int:
        """Serve them at HOST:PORT, in a thread; return the port.

        Raises:
            StartupError: the address cannot be bound.

        """
        host, _, port = address.rpartition(":")
        try:
            server, _ = start_http_server(int(port), host.strip("[]"), self._registry)
        except OSError as error:
            raise StartupError(
                f"Cannot serve metrics on {address}: {error.strerror}. See --metrics."
            ) from error
        return int(server.server_port)
