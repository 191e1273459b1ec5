"""How calls of the transport end before their time: GOAWAY, a server that stops, resets and deadlines."""

import asyncio

import pytest
from h2.events import PingAckReceived, StreamReset
from hyperframe.frame import GoAwayFrame, PingFrame, RstStreamFrame

from service.transport.faults import Code
from tests.integration.transport import many, raw_client, until


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
