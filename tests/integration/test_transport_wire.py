"""The transport, as clients see it that speak HTTP/2 by hand: slow, wrong, or on their way out."""

import asyncio
import json
import resource
import socket
import struct
from contextlib import suppress

import pytest
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    SettingsAcknowledged,
    StreamReset,
)
from h2.settings import SettingCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    WindowUpdateFrame,
)

from service.transport.connection import Connection
from service.transport.faults import Code
from service.transport.framing import framed
from service.transport.outgoing import HELD_BYTES
from tests.integration.transport import raw_client, serving, until

MIB = 1024 * 1024


@pytest.fixture
async def server():
    async with serving() as started:
        yield started


def many(**fields: int) -> bytes:
    return json.dumps(fields).encode()


async def assert_serves(server) -> None:
    async with raw_client(server.port) as other:
        call = other.request("Echo", b"others go on")
        assert await other.status(call) == Code.OK
        assert other.messages(call) == [b"others go on"]


async def test_what_is_written_in_one_turn_arrives_in_one_frame(server):
    async with raw_client(server.port) as client:
        call = client.request("Many", many(count=100))
        assert await client.status(call) == Code.OK
        assert len(client.messages(call)) == 100
        assert len(client.of(DataReceived, call)) == 1


async def test_calls_of_one_turn_arrive_in_one_piece(server):
    async with raw_client(server.port) as client:
        await client.settle()
        calls, pieces = [], []
        for _ in range(20):
            call = client.http2.get_next_available_stream_id()
            client.http2.send_headers(call, client.fields("Many"))
            client.http2.send_data(call, framed(many(count=3)), end_stream=True)
            calls.append(call)
            pieces.append(client.http2.data_to_send())
        client.send(b"".join(pieces))
        await client.receive(lambda: client.of(ResponseReceived, calls[0]))
        # What came with the head of the first is all of every one.
        assert all(client.is_over(call) for call in calls)


async def test_windows_of_one_byte(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=1) as client:
        call = client.request("Many", many(count=3, size=20))
        for received in range(1, 75):
            await client.receive(lambda: len(client.body(call)) == received)  # noqa: B023
            client.http2.increment_flow_control_window(1, call)
            client.send()
        assert await client.status(call) == Code.OK
        assert [len(message) for message in client.messages(call)] == [20] * 3


async def test_no_window_at_first(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=0) as client:
        calls = [client.request("Many", many(count=1)) for _ in range(3)]
        await client.receive(lambda: all(client.of(ResponseReceived, call) for call in calls))
        await client.settle()
        assert all(client.body(call) == b"" for call in calls)
        # Head and status of others need no window.
        assert await client.status(client.request("Abort")) == 9
        client.http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
        client.send()
        for call in calls:
            assert await client.status(call) == Code.OK


async def test_a_window_that_shrinks_below_nothing(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=1000) as client:
        call = client.request("Many", many(count=100, size=100))
        await client.receive(lambda: len(client.body(call)) == 1000)
        client.http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
        client.send()
        await client.receive(
            lambda: len([event for event in client.events if isinstance(event, SettingsAcknowledged)]) == 2
        )
        client.http2.increment_flow_control_window(900, call)
        client.send()
        await client.settle()
        assert len(client.body(call)) == 1000
        client.http2.increment_flow_control_window(20_000, call)
        client.send()
        assert await client.status(call) == Code.OK


async def test_two_calls_share_the_window_of_the_connection(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=10 * MIB) as client:
        first, second = (client.request("Many", many(count=2000, size=1000)) for _ in range(2))
        for round_ in range(1, 20):
            await client.receive(
                lambda: len(client.body(first) + client.body(second)) == 65_535 + (round_ - 1) * 20_000  # noqa: B023
            )
            client.http2.increment_flow_control_window(20_000)
            client.send()
        shares = [len(client.body(call)) for call in (first, second)]
        assert min(shares) > 0.4 * sum(shares)


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


async def test_answers_to_a_client_that_reads_nothing_are_not_hoarded(server):
    connection, transport = Connection(server.server), StuckTransport()
    connection.connection_made(transport)
    connection.pause_writing()
    preface = H2Connection()
    preface.initiate_connection()
    connection.data_received(preface.data_to_send())
    sent = 0
    while transport.is_reading_now:
        connection.data_received(PingFrame(0, b"12345678").serialize() * 5000)
        sent += 5000
        await asyncio.sleep(0)
        assert sent < 200_000, "it reads on and on"
    assert transport.unsent_bytes > MIB // 2
    connection.resume_writing()
    assert transport.is_reading_now
    connection.connection_lost(None)
    transport.get_extra_info("socket").close()


async def test_goaway_in_the_middle_of_a_response(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=1000) as client:
        call = client.request("Many", many(count=50, size=100))
        await client.receive(lambda: len(client.body(call)) == 1000)
        # In one piece with what follows it.
        client.http2.increment_flow_control_window(100_000, call)
        ping = PingFrame(0, b"before__").serialize()
        client.send(ping + GoAwayFrame(0).serialize() + client.http2.data_to_send())
        await asyncio.sleep(0.05)
        client.send(PingFrame(0, b"12345678").serialize())
        assert await client.status(call) == Code.OK
        assert len(client.messages(call)) == 50
        await client.receive(lambda: any(isinstance(e, PingAckReceived) for e in client.events))
        assert next(e.ping_data for e in client.events if isinstance(e, PingAckReceived)) == b"before__"


async def test_stopping_tells_clients_to_go_and_refuses_what_they_open_meanwhile(server):
    async with raw_client(server.port) as client:
        call = client.request("BeginAndWait")
        await client.receive(lambda: client.body(call))
        stopping = asyncio.create_task(server.server.stop(5))
        await asyncio.sleep(0.05)
        late = client.request("Echo")
        await client.receive(lambda: client.goaways())
        assert client.goaways()[0].last_stream_id == call
        assert client.goaways()[0].error_code == 0
        # h2 as a client reads nothing behind a GOAWAY: the frames are looked at by hand.
        server.methods.release.set()
        rest = await client.reader.read()
        assert b"ended" in rest
        assert RstStreamFrame(late, error_code=7).serialize() in rest or client.of(StreamReset, late)
        await stopping


async def test_reset_cancels_the_handler(server):
    async with raw_client(server.port) as client:
        call = client.request("BeginAndWait")
        await client.receive(lambda: client.body(call))
        client.http2.reset_stream(call)
        client.send()
        await until(lambda: server.methods.ended == ["cancelled"])
        assert await client.status(client.request("Echo")) == Code.OK


async def test_a_call_that_follows_a_reset_finds_its_place_free(server):
    async with raw_client(server.port) as client:
        call = client.request("BeginAndWait")
        await client.receive(lambda: client.body(call))
        client.http2.reset_stream(call)
        asking = client.request("Running")
        assert await client.status(asking) == Code.OK
        assert client.messages(asking) == [b"0"]


async def test_resets_of_calls_that_have_not_begun(server):
    async with raw_client(server.port) as client:
        for _ in range(500):
            client.http2.reset_stream(client.request("Wait", ends=False))
        client.send()
        assert await client.status(client.request("Echo")) == Code.OK
        await until(lambda: not server.server._tasks)
        (connection,) = server.server._connections
        assert connection._calls == {}


@pytest.mark.parametrize("ends", [True, False])
async def test_the_server_keeps_the_deadline_by_itself(server, ends):
    async with raw_client(server.port) as client:
        call = client.request("Wait", ends=ends, grpc_timeout="100m")
        assert await client.status(call) == Code.DEADLINE_EXCEEDED
        await until(lambda: server.methods.ended == ["cancelled"] * ends)
        assert bool(client.of(StreamReset, call)) is not ends


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
        await stopping


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


async def test_refused_and_reset_in_one_piece(server):
    """What was told of a stream and what has become of it are two things."""
    async with raw_client(server.port) as client:
        running = client.request("BeginAndWait")
        await client.receive(lambda: client.body(running))
        pieces = []
        for fields in ({"grpc_timeout": "soon"}, {"connection": "close"}, {"content_type": "x"}, {"a": "b"}):
            stream_id = client.http2.get_next_available_stream_id()
            client.http2.send_headers(stream_id, client.fields("Nothing", **fields))
            client.http2.reset_stream(stream_id)
            pieces.append(client.http2.data_to_send())
        client.send(b"".join(pieces))
        server.methods.release.set()
        assert await client.status(running) == Code.OK


GARBAGE = [
    pytest.param(b"\0" * 100, id="data on stream 0"),
    pytest.param(b"\x00\x13\x37" + b"\x00" * 6 + b"x" * 2000, id="noise"),
    pytest.param(struct.pack(">I", 2**24 - 1)[1:] + b"\0\0\0\0\0\1" + bytes(2**17), id="frame too large"),
    pytest.param(HeadersFrame(1, b"\xff\xff\xff", flags=["END_HEADERS"]).serialize(), id="no header block"),
    pytest.param(ContinuationFrame(1, b"").serialize(), id="continuation of nothing"),
    pytest.param(DataFrame(99, b"x").serialize(), id="data of no stream"),
    pytest.param(
        HeadersFrame(1, b"").serialize() + ContinuationFrame(1, b"").serialize() * 100, id="no end of headers"
    ),
    pytest.param(WindowUpdateFrame(0, window_increment=2**31 - 1).serialize(), id="window too large"),
]


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_ends_its_connection_only(server, garbage, caplog):
    async with raw_client(server.port) as client:
        running = client.request("Wait")
        await until(lambda: server.methods.running == 1)
        client.send(garbage)
        with suppress(ConnectionError):
            async with asyncio.timeout(10):
                while await client.reader.read(65536):
                    pass
        assert running
    await until(lambda: server.methods.ended == ["cancelled"])
    await until(lambda: not server.server._connections)
    assert caplog.records == [] or all(record.levelname == "DEBUG" for record in caplog.records)
    await assert_serves(server)


@pytest.mark.parametrize("preface", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"\x16\x03\x01"])
async def test_a_bad_preface(server, preface):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(preface)
    async with asyncio.timeout(10):
        await reader.read()
    writer.close()
    await assert_serves(server)


async def test_header_values_that_are_not_ascii(server):
    async with raw_client(server.port) as client:
        call = client.request("Wait", x_a="caf\xe9")
        await until(lambda: server.methods.running == 1)
        assert not client.is_over(call)
        assert await client.status(client.request("Nothing", z="\xff")) == Code.UNIMPLEMENTED


@pytest.mark.parametrize(
    "fields", [{"Upper": "a"}, {"connection": "close"}, {"x": "a\nb"}, {":custom": "a"}, {"te": "gzip"}]
)
async def test_a_malformed_request_is_reset_and_others_go_on(server, fields):
    async with raw_client(server.port) as client:
        running = client.request("BeginAndWait")
        await client.receive(lambda: client.body(running))
        malformed = client.request("Echo", **fields)
        await client.receive(lambda: client.of(StreamReset, malformed))
        assert client.of(StreamReset, malformed)[0].error_code == 1
        server.methods.release.set()
        assert await client.status(running) == Code.OK


@pytest.mark.parametrize(
    ("fields", "status"), [({":method": "GET"}, "405"), ({"content-type": "application/json"}, "415")]
)
async def test_requests_that_are_no_grpc(server, fields, status):
    async with raw_client(server.port) as client:
        stream_id = client.http2.get_next_available_stream_id()
        given = {":method": "POST", ":scheme": "http", ":path": "/", "content-type": "application/grpc"}
        client.http2.send_headers(stream_id, list({**given, **fields}.items()))
        client.send()
        await client.receive(lambda: client.is_over(stream_id))
        assert client.last_fields(stream_id)[":status"] == status
        assert await client.status(client.request("Echo")) == Code.OK


async def test_header_lists_that_are_too_large(server):
    async with raw_client(server.port) as client:
        large = client.request("Echo", **{f"x-{number}": "a" * 1000 for number in range(70)})
        assert await client.status(large) == Code.RESOURCE_EXHAUSTED
        assert await client.status(client.request("Echo")) == Code.OK
        client.request("Echo", **{f"x-{number}": "a" * 1000 for number in range(300)})
        await client.receive(lambda: client.goaways())
        assert client.goaways()[0].error_code == 11
    await assert_serves(server)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"grpc_timeout": "soon"}, Code.INTERNAL),
        ({"grpc_encoding": "br"}, Code.UNIMPLEMENTED),
        ({"x_bin": "!"}, Code.INTERNAL),
    ],
)
async def test_headers_without_meaning(server, fields, code):
    async with raw_client(server.port) as client:
        call = client.request("Echo", **fields)
        assert await client.status(call) == code
        assert "gzip" in client.last_fields(call)["grpc-accept-encoding"]


async def test_a_refused_request_need_not_end(server):
    async with raw_client(server.port) as client:
        call = client.request("Nothing", ends=False)
        assert await client.status(call) == Code.UNIMPLEMENTED
        await client.receive(lambda: client.of(StreamReset, call))
        assert client.of(StreamReset, call)[0].error_code == 0
        # What was on its way is no harm, and its room in the connection's window comes back.
        for _ in range(40):
            client.http2.outbound_flow_control_window -= 800_000
            client.send(DataFrame(call, bytes(16_000)).serialize() * 50)
            assert await client.status(client.request("Echo")) == Code.OK
        assert client.http2.outbound_flow_control_window > 4 * MIB


async def test_a_request_that_is_too_long_is_refused_by_its_prefix(server):
    async with raw_client(server.port) as client:
        call = client.request("Echo", raw=struct.pack(">BI", 0, 2**32 - 1), ends=False)
        assert await client.status(call) == Code.RESOURCE_EXHAUSTED
        assert str(2**32 - 1) in client.last_fields(call)["grpc-message"]


@pytest.mark.parametrize("raw", [framed(b"12345")[:3], framed(b"12345")[:-1], b"\1\0\0\0\0", b"\2\0\0\0\0"])
async def test_a_broken_message(server, raw):
    async with raw_client(server.port) as client:
        assert await client.status(client.request("Echo", raw=raw)) == Code.INTERNAL


async def test_a_request_that_never_ends_holds_no_more_than_a_window(server):
    """A stream of requests whose handler does not read: the client must wait, and memory stays."""
    async with raw_client(server.port) as client:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        call = client.request("Chat", b"wait", ends=False)
        await until(lambda: server.methods.running == 1)
        await client.receive(lambda: any(isinstance(e, RemoteSettingsChanged) for e in client.events))
        sent = 0
        for _ in range(2000):
            room = min(client.http2.local_flow_control_window(call), 16_000)
            if room < 16_000:
                await client.settle()
                if client.http2.local_flow_control_window(call) < 16_000:
                    break
            client.http2.send_data(call, framed(bytes(15_995)))
            client.send()
            sent += 16_000
        assert 0.9 * MIB < sent < 2 * MIB
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 64 * MIB
        # Once it reads, the client may go on; and the window of the connection does not leak away.
        server.methods.release.set()
        client.gives_room = True
        await client.receive(lambda: client.http2.local_flow_control_window(call) > MIB // 2)


async def test_cancelled_requests_give_the_connections_window_back(server):
    async with raw_client(server.port) as client:
        await client.settle()
        for _ in range(40):
            call = client.request("Chat", b"wait", ends=False)
            for _ in range(55):
                client.http2.send_data(call, framed(bytes(15_995)))
            client.http2.reset_stream(call)
            client.send()
            await client.status(client.request("Echo"))
        assert client.http2.outbound_flow_control_window > 4 * MIB
        assert await client.status(client.request("Echo")) == Code.OK
