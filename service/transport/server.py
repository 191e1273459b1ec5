"""The server: where it listens, what it serves, and how it stops."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias

import grpc

from service.transport.call import Call
from service.transport.connection import Connection
from service.transport.faults import Code, Refused
from service.transport.handlers import Handler, serve
from service.transport.headers import Metadata

_log = logging.getLogger(__name__)

_LAST_S: Final = 1.0
"""Seconds that handlers have to clean up when they are cancelled, and clients to read the last."""
_BACKLOG: Final = 1024
"""Connections that may wait to be accepted."""

_Find: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


@dataclass(frozen=True, slots=True)
class _Details(grpc.HandlerCallDetails):
    """What interceptors and handlers are chosen by."""

    method: str
    invocation_metadata: Metadata


class Server(grpc.aio.Server):
    """Stands where a server of grpc.aio can stand. Handlers are coroutines or async generators."""

    def __init__(
        self,
        *,
        max_request_bytes: int,
        max_concurrent_calls: int,
        max_stall_s: float = 60.0,
        always_admitted: Collection[str] = (),
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        observe: Callable[[str, grpc.StatusCode], None] = lambda *_: None,
    ) -> None:
        """Limits: bytes of the largest request message, calls of all connections together, of which one
        connection may have half, and seconds that a client may leave a response unread.

        `always_admitted`: methods (`/package.Service/Method`) that are served beyond the limit, too, on a
        connection without other calls: health checks, for a server is not dead because it is busy.

        `interceptors`: asked for every call, the first of them first. `observe` is told of every call that is
        over: its method (`/package.Service/Method`, empty where there is none of that name) and its status.
        """
        self.max_request_bytes = max_request_bytes
        self.max_stall_s = max_stall_s
        self._observe = observe
        self._max_concurrent_calls = max_concurrent_calls
        self._max_calls_of_connection = (max_concurrent_calls + 1) // 2
        self._always_admitted = frozenset(always_admitted)
        self._handlers: dict[str, Handler] = {}
        self._generic: list[grpc.GenericRpcHandler] = []
        self._sockets: list[socket.socket] = []
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_stopped = asyncio.Event()
        self._is_alone = asyncio.Event()
        self._is_alone.set()
        self._find: _Find = self._look_up
        for interceptor in reversed(interceptors):
            self._find = partial(interceptor.intercept_service, self._find)

    # What it serves.

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Serve what these have a handler for, where no method is registered."""
        self._generic += generic_rpc_handlers

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """Serve the methods of a service, by name."""
        self._handlers.update({f"/{service_name}/{name}": each for name, each in method_handlers.items()})

    # Its life.

    def add_insecure_port(self, address: str) -> int:
        """Listen on HOST:PORT, from `start` on, and return the port: a free one in the place of 0.

        An IPv6 host is in brackets; `[::]` is every address, those of IPv4, too.

        Raises:
            OSError: the address cannot be had; the port is taken.
        """
        host, _, text = address.rpartition(":")
        host, port = host.strip("[]"), int(text)
        both = host == "::" and socket.has_dualstack_ipv6()
        for family, _, _, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            # All addresses of a name share the port.
            place = (where[0], port, *where[2:])
            listening = socket.create_server(place, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
            self._sockets.append(listening)
            port = listening.getsockname()[1]
        return port

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> NoReturn:
        """Not offered: TLS ends at the gateway or at a proxy."""
        raise NotImplementedError("no TLS here")

    async def start(self) -> None:
        """Accept calls at the ports that have been added."""
        loop = asyncio.get_running_loop()
        while self._sockets:
            listening = self._sockets.pop()
            self._listeners.append(
                await loop.create_server(partial(Connection, self), sock=listening, backlog=_BACKLOG)
            )

    async def stop(self, grace: float | None, *, unread_s: float = _LAST_S) -> None:
        """Accept no more calls, and return when all have ended: by themselves in `grace` seconds, or cut.

        `unread_s`: seconds that clients have to read what calls that have ended have left for them.
        """
        for listening in self._sockets:
            listening.close()
        for listener in self._listeners:
            listener.close()
        for connection in tuple(self._connections):
            connection.leave()
        if self._tasks and grace:
            await asyncio.wait(self._tasks, timeout=grace)
        for connection in self._connections:
            for call in connection.calls():
                call.cut(Code.UNAVAILABLE, "The server has stopped.")
        loop = asyncio.get_running_loop()
        until = loop.time() + max(unread_s, _LAST_S)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=until - loop.time())
        # What has been sent may be unread still.
        until = max(until, loop.time() + _LAST_S)
        try:
            async with asyncio.timeout_at(until):
                await self._is_alone.wait()
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
        for task in self._tasks:
            task.cancel()
        self._has_stopped.set()

    async def wait_for_termination(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the interface's
        """Wait until the server has stopped; return whether `timeout` seconds were over before."""
        try:
            async with asyncio.timeout(timeout):
                await self._has_stopped.wait()
        except TimeoutError:
            return True
        return False

    # For its connections.

    def joined(self, connection: Connection) -> None:
        """Know a connection."""
        self._connections.add(connection)
        self._is_alone.clear()

    def left(self, connection: Connection) -> None:
        """Know it no more."""
        self._connections.discard(connection)
        if not self._connections:
            self._is_alone.set()

    def admit(self, method: str, others: int) -> None:
        """Return while there may be one call more; its connection has so many others.

        Raises:
            Refused: RESOURCE_EXHAUSTED.
        """
        if len(self._tasks) >= self._max_concurrent_calls:
            if others == 0 and method in self._always_admitted:
                return
            who = "server"
        elif others >= self._max_calls_of_connection:
            who = "connection"
        else:
            return
        self._observe("", grpc.StatusCode.RESOURCE_EXHAUSTED)
        raise Refused(Code.RESOURCE_EXHAUSTED, f"The {who} has as many calls as it takes: try again later.")

    def start_call(self, call: Call, cancelled: Collection[asyncio.Future[None]]) -> None:
        """Handle a call in a task of its own."""
        task = call.run(serve(call, self._handler_of, cancelled))
        self._tasks.add(task)
        task.add_done_callback(partial(self._over, call))

    def _over(self, call: Call, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._observe(call.path if call.path in self._handlers else "", call.code())

    async def _handler_of(self, call: Call) -> Handler | None:
        return await self._find(_Details(call.path, call.invocation_metadata()))

    async def _look_up(self, details: grpc.HandlerCallDetails) -> Handler | None:
        if (registered := self._handlers.get(details.method)) is not None:
            return registered
        found = (generic.service(details) for generic in self._generic)
        return next((handler for handler in found if handler is not None), None)
