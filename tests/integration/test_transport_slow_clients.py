"""The transport and clients that read slowly, or not at all: what they cost, and when they are let go."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from h2.connection import H2Connection
from h2.events import StreamReset
from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame, PingFrame, WindowUpdateFrame

from service.transport.connection import Connection
from service.transport.faults import Code
from service.transport.outgoing import HELD_BYTES
from tests.integration.transport import MIB, RawClient, many, raw_client, serving, until


async def test_a_stalled_reader_holds_its_handler_back(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=1000) as client:
        call = client.request("Many", many(count=10_000, size=1000))
        await client.receive(lambda: len(client.body(call)) == 1000)
        await client.settle()
        assert HELD_BYTES / 1000 <= server.methods.written < HELD_BYTES / 1000 + 3
        # One that waits cannot be made to wait for ever.
        client.http2.reset_stream(call)
        client.send()
        written = server.methods.written
        assert await client.status(client.request("Echo")) == Code.OK
        await client.settle()
        assert server.methods.written == written


async def test_a_client_that_stops_reading_costs_no_memory(server):
    """All the windows that there are, and nobody at the socket."""
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=2**31 - 1) as client:
        client.http2.increment_flow_control_window(2**31 - 1 - 65_535)
        client.request("Many", many(count=1_000_000, size=1000))
        before = -1
        while server.methods.written != before:
            before = server.methods.written
            await asyncio.sleep(0.3)
        # The kernel's buffers and the stream reader's are a few MiB.
        assert server.methods.written < 20_000
        (connection,) = server.server._connections
        assert connection._transport.get_write_buffer_size() < 2 * MIB
        client.writer.transport.abort()
    await until(lambda: not server.server._tasks)


class StuckTransport(asyncio.Transport):
    """What is written stays."""

    def __init__(self):
        super().__init__({"socket": socket.socket()})
        self.unsent_bytes = 0
        self.is_reading_now = True

    def write(self, data):
        self.unsent_bytes += len(data)

    def get_write_buffer_size(self):
        return self.unsent_bytes

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def is_closing(self):
        return False

    def pause_reading(self):
        self.is_reading_now = False

    def resume_reading(self):
        self.is_reading_now = True


async def test_answers_to_a_client_that_reads_nothing_are_not_hoarded(server, monkeypatch):
    monkeypatch.setattr("service.transport.connection._UNSENT_ANSWERS_BYTES", 10_000)
    connection, transport = Connection(server.server), StuckTransport()
    connection.connection_made(transport)
    connection.pause_writing()
    preface = H2Connection()
    preface.initiate_connection()
    connection.data_received(preface.data_to_send())
    for _ in range(1000):
        connection.data_received(PingFrame(0, b"12345678").serialize() * 20)
        await asyncio.sleep(0)
        if not transport.is_reading_now:
            break
    assert 10_000 < transport.unsent_bytes < 11_000
    # What is on its way already: more than a turn takes, and in several pieces.
    for _ in range(5):
        connection.data_received(PingFrame(0, b"12345678").serialize() * 500)
    unsent_bytes = -1
    while unsent_bytes != transport.unsent_bytes:
        unsent_bytes = transport.unsent_bytes
        await asyncio.sleep(0)
    assert 10_000 < unsent_bytes < 20_000
    assert not transport.is_reading_now
    # Once it reads, all the rest is answered, and more is read.
    while not transport.is_reading_now:
        transport.unsent_bytes = 0
        connection.resume_writing()
        await asyncio.sleep(0)
        assert not connection._http2.is_behind or not transport.is_reading_now
    assert not connection._http2.is_behind
    connection.connection_lost(None)
    transport.get_extra_info("socket").close()


async def test_a_response_that_nobody_fetches_is_dropped():
    async with serving(max_stall_s=0.1) as server, raw_client(server.port, INITIAL_WINDOW_SIZE=10) as client:
        call = client.request("Many", many(count=2))
        await client.receive(lambda: client.of(StreamReset, call))
        assert len(client.body(call)) == 10
        assert client.of(StreamReset, call)[0].error_code == 8
        await until(lambda: not server.server._tasks)


async def test_one_that_is_fetched_slowly_is_not():
    async with serving(max_stall_s=1) as server, raw_client(server.port, INITIAL_WINDOW_SIZE=6) as client:
        slow = client.request("Many", many(count=2))
        for received in range(6, 30, 6):
            await client.receive(lambda: len(client.body(slow)) == received)  # noqa: B023
            await asyncio.sleep(0.3)
            client.http2.increment_flow_control_window(6, slow)
            client.send()
        assert await client.status(slow) == Code.OK


async def test_a_server_that_stops_waits_for_what_has_not_been_read():
    async with serving() as server, raw_client(server.port, INITIAL_WINDOW_SIZE=10) as client:
        call = client.request("Many", many(count=2))
        await client.receive(lambda: len(client.body(call)) == 10)
        stopping = asyncio.create_task(server.server.stop(0.01, unread_s=10))
        # Longer than other calls are given to end.
        await asyncio.sleep(2.5)
        # h2 as a client knows nothing behind a GOAWAY: what goes on is said and looked at by hand.
        client.send(WindowUpdateFrame(call, window_increment=1000).serialize())
        rest = await client.reader.read()
        assert b"00000001" in rest
        client.writer.close()
        await stopping


SIZE = 10 * MIB


@asynccontextmanager
async def a_client_with_much_to_read(port: int) -> AsyncIterator[tuple[RawClient, int]]:
    """A client with room for a large response, and its call: little of it fits into the client's own buffers."""
    kernel = socket.socket()
    kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    kernel.connect(("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=kernel, limit=1 << 16)
    client = RawClient(reader, writer)
    client.begin(INITIAL_WINDOW_SIZE=2**31 - 1)
    client.http2.increment_flow_control_window(2**31 - 1 - 65_535)
    try:
        yield client, client.request("Many", many(count=1, size=SIZE))
    finally:
        writer.transport.abort()


def frames_of(data: bytes) -> list[Frame]:
    frames = []
    while data:
        frame, length = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + length]))
        frames.append(frame)
        data = data[9 + length :]
    return frames


async def test_a_server_that_stops_waits_for_those_who_read_slowly(monkeypatch):
    """Longer than anything else takes, while the transport and the kernel still hold the end."""
    monkeypatch.setattr("service.transport.closing.CLOSING_S", 0.5)
    monkeypatch.setattr("service.transport.server._LAST_S", 0.1)
    async with serving() as server, a_client_with_much_to_read(server.port) as (client, call):
        await until(lambda: server.methods.written)
        stopping = asyncio.create_task(server.server.stop(0.01, unread_s=60))
        received = bytearray()
        while data := await client.reader.read(1 << 16):
            received += data
            # It says so where it has read, too: by then the server has nothing more to say.
            client.send(WindowUpdateFrame(0, window_increment=1).serialize())
            await asyncio.sleep(0.02)
        client.writer.close()
        await stopping
    frames = frames_of(bytes(received))
    assert sum(len(frame.data) for frame in frames if isinstance(frame, DataFrame)) == SIZE + 5
    assert [frame.last_stream_id for frame in frames if isinstance(frame, GoAwayFrame)] == [call]
    assert isinstance(frames[-1], HeadersFrame | GoAwayFrame)
    assert any("END_STREAM" in frame.flags for frame in frames)


async def test_a_server_that_stops_does_not_wait_for_those_who_do_not_read(monkeypatch):
    monkeypatch.setattr("service.transport.closing.CLOSING_S", 0.1)
    async with serving(max_stall_s=0.1) as server, a_client_with_much_to_read(server.port):
        await until(lambda: server.methods.written)
        async with asyncio.timeout(30):
            await server.server.stop(0.01, unread_s=1000)


async def test_a_client_that_says_nothing_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr("service.transport.connection._PREFACE_S", 0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(10):
        with suppress(ConnectionError):
            await reader.read()
    writer.close()
    async with raw_client(server.port) as client:
        await asyncio.sleep(0.2)
        assert await client.status(client.request("Echo")) == Code.OK
