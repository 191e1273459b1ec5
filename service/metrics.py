"""What the service tells Prometheus, on a port of its own: `--metrics HOST:PORT`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import grpc
from openresponses.v1.response_pb2 import Response
from openresponses.v1.status_pb2 import (
    RESPONSE_STATUS_COMPLETED,
    RESPONSE_STATUS_FAILED,
    RESPONSE_STATUS_INCOMPLETE,
)
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from service.errors import StartupError
from service.run.flush import FlushStats

_WAITING_BUCKETS: Final = (1, 4, 16, 64, 256, 1024, 4096, 8192, 16384)
_SIZE_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
_FIRST_TOKEN_BUCKETS_S: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_GENERATION_BUCKETS_S: Final = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
# Whatever else a response is when it is over: its client has left.
_ENDINGS: Final = {
    RESPONSE_STATUS_COMPLETED: "completed",
    RESPONSE_STATUS_INCOMPLETE: "incomplete",
    RESPONSE_STATUS_FAILED: "failed",
}
_LEFT: Final = "cancelled"


class Metrics:
    """Counts what calls and responses have come to; nothing a token or a flush."""

    def __init__(self) -> None:
        """Register everything at zero."""
        self._registry = registry = CollectorRegistry()
        self._calls = Counter(
            "openresponses_calls",
            "RPCs that are over, those of the HTTP face included, by method and gRPC status.",
            ("method", "code"),
            registry=registry,
        )
        self._running = Gauge(
            "openresponses_responses_running",
            "Responses that are made, or wait for their turn.",
            registry=registry,
        )
        self._responses = Counter(
            "openresponses_responses",
            "Responses that are over, by their end.",
            ("status",),
            registry=registry,
        )
        self._by_ending = {name: self._responses.labels(name) for name in (*_ENDINGS.values(), _LEFT)}
        self._input_tokens = Counter(
            "openresponses_input_tokens",
            "Tokens of the prompts of responses that have ended.",
            registry=registry,
        )
        self._tokens = Counter(
            "openresponses_output_tokens", "Tokens that engines have given.", registry=registry
        )
        self._first_token_s = Histogram(
            "openresponses_first_token_seconds",
            "From the engine's taking a request on to its first token, the wait for a slot included.",
            buckets=_FIRST_TOKEN_BUCKETS_S,
            registry=registry,
        )
        self._generation_s = Histogram(
            "openresponses_generation_seconds",
            "From the engine's taking a request on to its last token.",
            buckets=_GENERATION_BUCKETS_S,
            registry=registry,
        )
        self._flushes = Counter(
            "openresponses_flushes", "Flushes to clients that held tokens.", registry=registry
        )
        self._flush_tokens = Histogram(
            "openresponses_flush_tokens",
            "Tokens to a flush, as a response's mean: it grows with load and with slow clients.",
            buckets=_SIZE_BUCKETS,
            registry=registry,
        )
        self._waiting = Histogram(
            "openresponses_waiting_tokens_peak",
            "Most tokens of a response that waited for its client.",
            buckets=_WAITING_BUCKETS,
            registry=registry,
        )

    def watch(self, running: Callable[[], int]) -> None:
        """Tell `running` when asked how many responses run."""
        self._running.set_function(running)

    def observe_call(self, method: str, code: grpc.StatusCode) -> None:
        """Count one RPC; `method` is empty where there is none of the name that was asked for."""
        self._calls.labels(method, code.name).inc()

    def observe(self, response: Response, stats: FlushStats) -> None:
        """Count one response."""
        self._by_ending[_ENDINGS.get(response.status, _LEFT)].inc()
        self._input_tokens.inc(response.usage.input_tokens)
        self._tokens.inc(stats.tokens)
        self._flushes.inc(stats.flushes)
        self._waiting.observe(stats.peak_waiting_tokens)
        if stats.flushes:
            self._first_token_s.observe(stats.first_token_s)
            self._generation_s.observe(stats.last_token_s)
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
