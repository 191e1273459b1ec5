"""The gRPC server: puts the faces onto it, and sees it through start and stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection
from openresponses.v1 import conversation_pb2, openai_http_pb2, service_pb2
from openresponses.v1.conversation_pb2_grpc import add_ConversationsServiceServicer_to_server
from openresponses.v1.openai_http_pb2_grpc import add_OpenAIHttpServiceServicer_to_server
from openresponses.v1.service_pb2_grpc import add_ResponsesServiceServicer_to_server

from service.config import Settings
from service.engine.base import Engine
from service.engine.factory import create_engine
from service.errors import StartupError
from service.metrics import Metrics
from service.rpc.auth import ApiKeys, read_keys
from service.rpc.conversations import ConversationsServicer
from service.rpc.openai_http import OpenAIHttpServicer
from service.rpc.responses import ResponsesServicer
from service.run.interval import AdaptiveInterval, watch_loop
from service.store.database import Database
from service.transport.server import Server
from service.wiring import Parts, wire

_log = logging.getLogger(__name__)

_LAST_CALLS_S: Final = 1.0
"""Seconds that calls which are no responses have to end when the server stops."""

_HEALTH_CHECK: Final = "/grpc.health.v1.Health/Check"

_SERVICES: Final = (
    service_pb2.DESCRIPTOR.services_by_name["ResponsesService"].full_name,
    conversation_pb2.DESCRIPTOR.services_by_name["ConversationsService"].full_name,
    openai_http_pb2.DESCRIPTOR.services_by_name["OpenAIHttpService"].full_name,
)


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, then let running streams finish within the grace period.

    Prints one line to standard output, `ready grpc=HOST:PORT`, once calls are accepted.

    Raises:
        StartupError: the engine cannot be made, the database cannot be used, or the address cannot be bound.
    """
    interceptors = [ApiKeys(read_keys(settings.api_keys_file))] if settings.api_keys_file else []
    async with AsyncExitStack() as cleanup:
        database = await Database.open(settings.database)
        cleanup.push_async_callback(database.close)
        engine = create_engine(settings)
        cleanup.push_async_callback(engine.close)
        metrics = Metrics()
        if settings.metrics is not None:
            _log.info("metrics on port %d", metrics.serve(settings.metrics))
        parts = await wire(settings, engine, database, metrics)
        server = create_server(settings, engine, parts, interceptors, metrics.observe_call)
        await _serve(settings, server, parts)


def create_server(
    settings: Settings,
    engine: Engine,
    parts: Parts,
    interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
    observe: Callable[[str, grpc.StatusCode], None] = lambda *_: None,
) -> Server:
    """Return a server with the service's own faces on it, not started and without a port."""
    server = Server(
        max_request_bytes=settings.max_request_bytes,
        max_concurrent_calls=settings.max_concurrent_calls,
        max_stall_s=settings.max_stall_s,
        always_admitted=[_HEALTH_CHECK],
        interceptors=interceptors,
        observe=observe,
    )
    add_ResponsesServiceServicer_to_server(
        ResponsesServicer(parts.responses, parts.compactor, engine), server
    )
    add_ConversationsServiceServicer_to_server(ConversationsServicer(parts.conversations), server)
    add_OpenAIHttpServiceServicer_to_server(
        OpenAIHttpServicer(parts.responses, parts.conversations, parts.compactor, engine, parts.drain),
        server,
    )
    return server


async def _serve(settings: Settings, server: Server, parts: Parts) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection(
        (*_SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME),
        server,
    )
    host = settings.listen.rpartition(":")[0]
    try:
        port = server.add_insecure_port(settings.listen)
    except OSError as error:
        # Python names the address once more behind the reason.
        reason = str(error.strerror).partition(" (while ")[0]
        raise StartupError(f"Cannot listen on {settings.listen}: {reason}. See --listen.") from error
    # What is loaded by now stays: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    await server.start()
    for name in ("", *_SERVICES):
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    print(f"ready grpc={host}:{port}", flush=True)  # noqa: T201 - the ready line is for programs

    watches = [asyncio.create_task(parts.background.watch())]
    if isinstance(parts.interval, AdaptiveInterval):
        watches.append(asyncio.create_task(watch_loop(parts.interval)))

    await stop.wait()
    _log.info("stopping: running streams have %g s to finish", settings.grace_s)
    await health.enter_graceful_shutdown()
    # Not left to the transport's own grace period: it takes no calls, and kept responses are still fetched.
    stopped_at = loop.time()
    await parts.drain.stop(settings.grace_s)
    await parts.background.close()
    # Responses that have ended may still be on their way to slow clients.
    await server.stop(_LAST_CALLS_S, unread_s=settings.grace_s - (loop.time() - stopped_at))
    for watch in watches:
        watch.cancel()
    await asyncio.wait(watches)
