"""The transport and clients that send much at little cost: others are served in between, and nothing piles up."""

import pytest
from h2.events import StreamEnded
from h2.settings import SettingCodes
from hyperframe.frame import (
    DataFrame,
    Frame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from service.transport.faults import Code
from service.transport.framing import framed
from tests.integration.transport import many, raw_client, until

ENHANCE_YOUR_CALM = 11


def connection_of(server, client):
    """The server's end of a client's connection."""
    port = client.writer.get_extra_info("sockname")[1]
    return next(each for each in server.server._connections if each.peer.endswith(f":{port}"))


def ended(client) -> int:
    """How many calls have ended."""
    return sum(isinstance(event, StreamEnded) for event in client.events)


def in_one_piece(
    client, count: int, method: str = "Echo", message: bytes = b"", resets: bool = False
) -> bytes:
    """So many calls."""
    pieces = []
    for _ in range(count):
        call = client.http2.get_next_available_stream_id()
        client.http2.send_headers(call, client.fields(method))
        if resets:
            client.http2.reset_stream(call)
        else:
            client.http2.send_data(call, framed(message), end_stream=True)
        pieces.append(client.http2.data_to_send())
    return b"".join(pieces)


async def test_others_have_their_turns_while_one_sends_a_thousand_calls(server):
    async with raw_client(server.port) as client, raw_client(server.port) as other:
        await other.status(other.request("Running"))
        client.send(in_one_piece(client, 1000))
        assert await other.status(other.request("Running")) == Code.OK
        assert len(server.methods.contexts) < 500
        # And of what has waited nothing is lost.
        await client.receive(lambda: ended(client) == 1000)
        assert len(server.methods.contexts) == 1000


async def test_others_have_their_turns_while_a_thousand_calls_end(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=0) as client, raw_client(server.port) as other:
        client.send(in_one_piece(client, 1000, "Many", many(count=1)))
        await until(lambda: server.methods.written == 1 and len(connection_of(server, client)._calls) == 1000)
        await client.settle()
        client.http2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 1000})
        client.send()
        assert await other.status(other.request("Running")) == Code.OK
        assert len(connection_of(server, client)._calls) > 100
        await client.receive(lambda: ended(client) == 1000)


async def test_others_have_their_turns_between_settings(server):
    """Each may concern every stream."""
    async with raw_client(server.port) as client, raw_client(server.port) as other:
        await client.settle()
        await other.settle()
        client.send(SettingsFrame(0, settings={4: 70_000}).serialize() * 60)
        assert await other.status(other.request("Running")) == Code.OK
        assert connection_of(server, client)._http2.is_behind


IDLE = {
    "PING": PingFrame(0, b"12345678"),
    "PRIORITY": PriorityFrame(1, depends_on=0),
    "DATA without bytes": DataFrame(1, b""),
}


@pytest.mark.parametrize("frame", IDLE.values(), ids=IDLE)
async def test_frames_that_bring_nothing_end_their_connection(server, frame: Frame, monkeypatch):
    monkeypatch.setattr("service.transport.frames.IDLE_A_SECOND", 300)
    async with raw_client(server.port) as client:
        client.request("Chat", b"wait", ends=False)
        client.send(frame.serialize() * 310)
        await client.receive(client.goaways)
        assert client.goaways()[0].error_code == ENHANCE_YOUR_CALM
    async with raw_client(server.port) as other:
        assert await other.status(other.request("Echo")) == Code.OK


async def test_settings_without_end(server):
    async with raw_client(server.port) as client:
        client.send(SettingsFrame(0, settings={4: 70_000}).serialize() * 200)
        await client.receive(client.goaways)
        assert client.goaways()[0].error_code == ENHANCE_YOUR_CALM


async def test_what_comes_slowly_does_not_add_up(server, monkeypatch):
    seconds = iter(range(1000))
    monkeypatch.setattr("service.transport.frames.monotonic", lambda: next(seconds))
    monkeypatch.setattr("service.transport.frames.IDLE_A_SECOND", 300)
    async with raw_client(server.port) as client:
        client.send(PingFrame(0, b"12345678").serialize() * 5000)
        assert await client.status(client.request("Echo")) == Code.OK


async def test_a_gateway_whose_clients_cancel_is_not_cut_off(server, monkeypatch):
    monkeypatch.setattr("service.transport.frames.IDLE_A_SECOND", 300)
    async with raw_client(server.port) as client:
        running = client.request("BeginAndWait")
        await client.receive(lambda: client.body(running))
        client.send(in_one_piece(client, 1000, resets=True))
        client.send(RstStreamFrame(999, error_code=8).serialize() * 1000)
        client.send(WindowUpdateFrame(0, window_increment=1).serialize() * 1000)
        server.methods.release.set()
        assert await client.status(running) == Code.OK
        assert await client.status(client.request("Echo")) == Code.OK


async def test_hpack_keeps_nothing_whatever_the_client_allows(server):
    async with raw_client(server.port) as client:
        client.http2.update_settings({SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1})
        client.send()
        for number in range(200):
            assert await client.status(client.request("Echo", x_a=f"{number:0200}")) == Code.OK
        # The table of the one who reads is that of the one who writes.
        table = client.http2.decoder.header_table
        assert (len(table.dynamic_entries), table.maxsize) == (0, 0)


async def test_a_client_may_allow_a_smaller_table_of_hpack(server):
    async with raw_client(server.port) as client:
        assert await client.status(client.request("Echo", x_a="a")) == Code.OK
        for size in (0, 100, 2**20, 50, 2**20):
            client.http2.update_settings({SettingCodes.HEADER_TABLE_SIZE: size})
            client.send()
            for _ in range(2):
                call = client.request("Echo", x_a="a" * 20)
                assert await client.status(call) == Code.OK
        # Also with no call in between.
        for size in range(200, 250):
            client.http2.update_settings({SettingCodes.HEADER_TABLE_SIZE: size})
        client.send()
        assert await client.status(client.request("Echo")) == Code.OK
