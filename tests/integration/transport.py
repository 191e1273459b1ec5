"""A server with a few methods for tests of the transport, and a client that speaks HTTP/2 by hand."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

from service.transport.framing import MessageReader, framed
from service.transport.server import Server

MIB = 1024 * 1024
TIMEOUT_S = 20
MAX_REQUEST_BYTES = 32 * 1024 * 1024
SERVICE = "test.Transport"


class Methods:
    """What the server does, and what it has seen."""

    def __init__(self) -> None:
        self.written = 0
        """Messages that Many has got rid of."""
        self.running = 0
        """Calls in handlers that wait."""
        self.ended: list[str] = []
        """How those have ended."""
        self.contexts: list[Any] = []

    async def echo(self, request: bytes, context: Any) -> bytes:
        self.contexts.append(context)
        given = [
            (name, value) for name, value in context.invocation_metadata() if name.startswith(("x-", "y-"))
        ]
        await context.send_initial_metadata([pair for pair in given if pair[0].startswith("x-")])
        context.set_trailing_metadata([pair for pair in given if pair[0].startswith("y-")])
        return request

    async def many(self, request: bytes, context: Any) -> None:
        """As many messages as asked for, of a size: without a pause in between."""
        asked = json.loads(request)
        for number in range(asked["count"]):
            await context.write(b"%08d" % number + bytes(asked.get("size", 8) - 8))
            self.written = number + 1
        if "code" in asked:
            await context.abort(grpc.StatusCode[asked["code"]], "as asked")

    async def counted(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        """Numbers, each in a turn of its own."""
        for number in range(json.loads(request)["count"]):
            await asyncio.sleep(0)
            yield b"%d" % number

    async def chat(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            if request == b"wait":
                await self._wait()
            yield request.upper()

    async def chat_by_hand(self, requests: Any, context: Any) -> None:
        while (request := await context.read()) is not grpc.aio.EOF:
            await context.write(request.upper())

    async def joined(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        return b",".join([request async for request in requests])

    async def wait(self, request: bytes, context: Any) -> bytes:
        await self._wait()
        return b""

    async def running_now(self, request: bytes, context: Any) -> bytes:
        return b"%d" % self.running

    async def begin_and_wait(self, request: bytes, context: Any) -> None:
        await context.write(b"begun")
        await self._wait()
        await context.write(b"ended")

    async def fail(self, request: bytes, context: Any) -> bytes:
        raise RuntimeError("a secret")

    async def abort(self, request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata([("y-why", "because"), ("y-why-bin", b"\0\xff")])
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "grün 100 %\n")
        return b""

    async def coded(self, request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.NOT_FOUND)
        context.set_details("not here")
        return b"ignored"

    async def _wait(self) -> None:
        self.running += 1
        self.release = asyncio.Event()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            # Whoever lets go of something has to wait for others.
            for _ in range(10):
                await asyncio.sleep(0)
            self.ended.append("cancelled")
            raise
        finally:
            self.running -= 1

    def handlers(self) -> dict[str, Any]:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        return {
            "Echo": unary(self.echo),
            "Parse": unary(self.echo, request_deserializer=json.loads, response_serializer=json.dumps),
            "Many": stream(self.many),
            "Counted": stream(self.counted),
            "Chat": grpc.stream_stream_rpc_method_handler(self.chat),
            "ChatByHand": grpc.stream_stream_rpc_method_handler(self.chat_by_hand),
            "Joined": grpc.stream_unary_rpc_method_handler(self.joined),
            "Wait": unary(self.wait),
            "Running": unary(self.running_now),
            "BeginAndWait": stream(self.begin_and_wait),
            "Fail": unary(self.fail),
            "Abort": unary(self.abort),
            "Coded": unary(self.coded),
        }


class Serving:
    """A started server."""

    def __init__(self, server: Server, methods: Methods, port: int) -> None:
        self.server, self.methods, self.port = server, methods, port
        self.address = f"127.0.0.1:{port}"


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Serving]:
    methods = Methods()
    options = {"max_request_bytes": MAX_REQUEST_BYTES, "max_concurrent_calls": 4096, **options}
    server = Server(**options)
    server.add_registered_method_handlers(SERVICE, methods.handlers())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield Serving(server, methods, port)
    finally:
        await server.stop(0)


def many(**fields: int) -> bytes:
    """What is asked of Many."""
    return json.dumps(fields).encode()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0.005)


class RawClient:
    """HTTP/2 by hand. It gives the server no more room than it is told to, and remembers all that comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.http2 = H2Connection(
            H2Configuration(
                client_side=True,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.events: list[Event] = []
        self.is_closed = False
        self.gives_room = False

    def begin(self, **settings: int) -> None:
        from h2.settings import SettingCodes, Settings

        values = {SettingCodes[name]: value for name, value in settings.items()}
        self.http2.local_settings = Settings(client=True, initial_values=values)
        self.http2.initiate_connection()
        self.send()

    def send(self, data: bytes | None = None) -> None:
        self.writer.write(self.http2.data_to_send() if data is None else data)

    def request(
        self, method: str, message: bytes = b"", *, ends: bool = True, raw: bytes | None = None, **more: str
    ) -> int:
        stream_id = self.http2.get_next_available_stream_id()
        self.http2.send_headers(stream_id, self.fields(method, **more))
        self.http2.send_data(stream_id, framed(message) if raw is None else raw, end_stream=ends)
        self.send()
        return stream_id

    def fields(self, method: str, **more: str) -> list[tuple[str, str]]:
        fields = {":method": "POST", ":scheme": "http", ":path": f"/{SERVICE}/{method}"}
        fields |= {"content-type": "application/grpc", "te": "trailers"}
        return list((fields | {name.replace("_", "-"): value for name, value in more.items()}).items())

    async def receive(self, condition: Callable[[], Any]) -> None:
        """Take what comes until the condition holds."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                try:
                    data = await self.reader.read(65536)
                except ConnectionError:
                    data = b""
                if not data:
                    self.is_closed = True
                    assert condition(), "the connection was closed"
                    return
                for event in self.http2.receive_data(data):
                    self.events.append(event)
                    if self.gives_room and isinstance(event, DataReceived):
                        self.http2.acknowledge_received_data(
                            event.flow_controlled_length or 0, event.stream_id
                        )
                if not self.goaways():
                    self.send()

    def of(self, kind: type[Any], stream_id: int) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind) and e.stream_id == stream_id]

    def goaways(self) -> list[ConnectionTerminated]:
        return [event for event in self.events if isinstance(event, ConnectionTerminated)]

    def body(self, stream_id: int) -> bytes:
        return b"".join(event.data for event in self.of(DataReceived, stream_id))

    def messages(self, stream_id: int) -> list[bytes]:
        found = MessageReader(2**31, "identity").feed(self.body(stream_id))
        return [message for message in found if isinstance(message, bytes)]

    def is_over(self, stream_id: int) -> bool:
        return bool(self.of(StreamEnded, stream_id) or self.of(StreamReset, stream_id))

    def last_fields(self, stream_id: int) -> dict[str, str]:
        """The trailers, or the head where it is all there is."""
        found = self.of(TrailersReceived, stream_id) or self.of(ResponseReceived, stream_id)
        return {name.decode(): value.decode() for name, value in found[-1].headers}

    async def status(self, stream_id: int) -> int:
        await self.receive(lambda: self.is_over(stream_id))
        return int(self.last_fields(stream_id)["grpc-status"])

    async def settle(self) -> None:
        """Take what is on its way."""
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await self.receive(lambda: False)


@asynccontextmanager
async def raw_client(port: int, **settings: int) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    client = RawClient(reader, writer)
    client.begin(**settings)
    try:
        yield client
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
