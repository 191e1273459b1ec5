"""The gRPC server: wires engine, dialect and faces together, and sees them through start and stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
import uuid
from typing import Final, assert_never

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection
from openresponses.v1 import openai_http_pb2, service_pb2
from openresponses.v1.openai_http_pb2_grpc import add_OpenAIHttpServiceServicer_to_server
from openresponses.v1.service_pb2_grpc import add_ResponsesServiceServicer_to_server

from service.config import Settings
from service.dialect.base import Dialect
from service.dialect.chat.dialect import ChatDialect
from service.dialect.harmony.dialect import HarmonyDialect
from service.engine.base import Engine
from service.engine.factory import create_engine
from service.errors import StartupError
from service.metrics import Metrics
from service.rpc.openai_http import OpenAIHttpServicer
from service.rpc.responses import ResponsesServicer
from service.run.drain import Drain
from service.run.interval import AdaptiveBounds, AdaptiveInterval, Interval, watch_loop
from service.run.run import ResponseRunner, StreamSettings
from service.run.validation import StreamLimits

_log = logging.getLogger(__name__)

_LAST_WRITES_S: Final = 1.0
"""Seconds for the last messages of finished responses to leave."""

_SERVICES: Final = (
    service_pb2.DESCRIPTOR.services_by_name["ResponsesService"].full_name,
    openai_http_pb2.DESCRIPTOR.services_by_name["OpenAIHttpService"].full_name,
)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then let running streams finish within the grace period.

    Prints one line to standard output, `ready grpc=HOST:PORT`, once calls are accepted.

    Raises:
        StartupError: the engine cannot be made, or the address cannot be bound.
    """
    engine = create_engine(settings)
    try:
        await _serve(settings, engine)
    finally:
        await engine.close()


async def _serve(settings: Settings, engine: Engine) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    interval = _interval(settings)
    drain = Drain()
    metrics = Metrics()
    if settings.metrics is not None:
        _log.info("metrics on port %d", metrics.serve(settings.metrics))
    runner = ResponseRunner(
        engine,
        create_dialect(settings),
        StreamSettings(
            interval=interval,
            interval_ms=settings.stream_interval_ms,
            max_waiting_tokens=settings.max_waiting_tokens,
            silence_s=settings.keepalive_s,
            limits=StreamLimits(
                max_interval_tokens=settings.max_stream_interval,
                max_interval_ms=settings.max_stream_interval_ms,
            ),
        ),
        drain,
        new_id=lambda: uuid.uuid4().hex,
        clock=time.time,
        observe=metrics.observe,
    )
    server = grpc.aio.server(options=_channel_options(settings))
    add_ResponsesServiceServicer_to_server(
        ResponsesServicer(runner, engine, max_stall_s=settings.max_stall_s), server
    )
    add_OpenAIHttpServiceServicer_to_server(
        OpenAIHttpServicer(runner, engine, drain, max_stall_s=settings.max_stall_s), server
    )
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection(
        (*_SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME),
        server,
    )
    host = settings.listen.rpartition(":")[0]
    try:
        port = server.add_insecure_port(settings.listen)
    except RuntimeError as error:
        raise StartupError(f"Cannot listen on {settings.listen}: is the port taken? See --listen.") from error
    await server.start()
    for name in ("", *_SERVICES):
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    print(f"ready grpc={host}:{port}", flush=True)  # noqa: T201 - the ready line is for programs

    watch = asyncio.create_task(watch_loop(interval)) if isinstance(interval, AdaptiveInterval) else None

    await stop.wait()
    _log.info("stopping: running streams have %g s to finish", settings.grace_s)
    await health.enter_graceful_shutdown()
    # Not left to grpc's own grace period: it answers new calls with CANCELLED, which no client retries.
    await drain.stop(settings.grace_s)
    await server.stop(_LAST_WRITES_S)
    if watch is not None:
        watch.cancel()


def _interval(settings: Settings) -> Interval:
    if settings.stream_interval != "auto":
        return Interval(settings.stream_interval)
    return AdaptiveInterval(
        AdaptiveBounds(
            settings.auto_min_interval,
            max(settings.auto_min_interval, settings.auto_max_interval),
            settings.auto_max_lag_ms / 1000,
        )
    )


def create_dialect(settings: Settings) -> Dialect:
    """Return the dialect that the settings name."""
    match settings.dialect:
        case "harmony":
            return HarmonyDialect()
        case "chat":
            return ChatDialect()
        case _:
            assert_never(settings.dialect)


def _channel_options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", settings.max_request_bytes),
        # A taken port is an error, not a second server behind it.
        ("grpc.so_reuseport", 0),
    ]
