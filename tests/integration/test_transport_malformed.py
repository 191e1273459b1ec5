"""The transport and what is wrong on the wire: garbage, bad headers and messages harm nobody else."""

import asyncio
import struct
from contextlib import suppress

import pytest
from h2.events import StreamReset
from hyperframe.frame import (
    AltSvcFrame,
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PriorityFrame,
    WindowUpdateFrame,
)

from service.transport.faults import Code
from service.transport.framing import framed
from tests.integration.transport import MIB, raw_client, until


async def assert_serves(server) -> None:
    async with raw_client(server.port) as other:
        call = other.request("Echo", b"others go on")
        assert await other.status(call) == Code.OK
        assert other.messages(call) == [b"others go on"]


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


@pytest.mark.parametrize("length", ["abc", "-1", "3", "9", "1" * 5000])
async def test_a_content_length_is_not_looked_at(server, length):
    async with raw_client(server.port) as client:
        call = client.request("Echo", content_length=length)
        assert await client.status(call) == Code.OK
        assert await client.status(client.request("Echo")) == Code.OK


@pytest.mark.parametrize("fields", [[("x", "y")], [(":status", "100")]])
async def test_header_fields_in_the_middle_of_a_request_reset_it(server, fields):
    async with raw_client(server.port) as client:
        running = client.request("BeginAndWait")
        call = client.request("Wait", raw=b"\0", ends=False)
        await client.receive(lambda: client.body(running))
        block = client.http2.encoder.encode(fields)
        client.send(HeadersFrame(call, block, flags=["END_HEADERS"]).serialize())
        await client.receive(lambda: client.of(StreamReset, call))
        assert client.of(StreamReset, call)[0].error_code == 1
        server.methods.release.set()
        assert await client.status(running) == Code.OK
        await until(lambda: not server.server._tasks)


async def test_priority_is_ignored(server):
    async with raw_client(server.port) as client:
        call = client.http2.get_next_available_stream_id()
        block = client.http2.encoder.encode(client.fields("Echo"))
        client.http2.send_headers(call, client.fields("Echo"))
        client.http2.data_to_send()
        client.send(
            PriorityFrame(7, depends_on=7).serialize()
            + HeadersFrame(call, block, flags=["END_HEADERS", "PRIORITY"], depends_on=call).serialize()
            + DataFrame(call, framed(b"hi"), flags=["END_STREAM"]).serialize()
        )
        assert await client.status(call) == Code.OK


async def test_alternative_services_are_ignored(server, caplog):
    """Ahead of all else, on a stream, and with a GOAWAY behind."""
    async with raw_client(server.port) as client:
        client.send(AltSvcFrame(0, b"", b"x").serialize())
        call = client.request("BeginAndWait")
        await client.receive(lambda: client.body(call))
        client.send(AltSvcFrame(call, b"", b"x").serialize() + GoAwayFrame(0).serialize())
        assert await client.status(client.request("Echo")) == Code.OK
        server.methods.release.set()
        assert await client.status(call) == Code.OK
    assert caplog.records == []


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
