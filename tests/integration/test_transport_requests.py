"""The transport and requests that do not come, or are much larger than what is sent of them."""

import asyncio
import gzip
import struct
import threading

import grpc
import pytest

from service.rpc.auth import ApiKeys
from service.transport.faults import Code
from service.transport.framing import MessageReader
from tests.integration.transport import MIB, SERVICE, raw_client, serving, until

UNPACKED = b"a" * (10 * MIB)


def bomb() -> bytes:
    """A message of 10 MiB in 10 KiB."""
    body = gzip.compress(UNPACKED)
    return struct.pack(">BI", 1, len(body)) + body


@pytest.fixture
def unpacking(monkeypatch) -> list[str]:
    """The threads in which messages have been uncompressed."""
    threads: list[str] = []
    uncompressed = MessageReader.uncompressed

    def watched(*args):
        threads.append(threading.current_thread().name)
        return uncompressed(*args)

    monkeypatch.setattr(MessageReader, "uncompressed", watched)
    return threads


async def test_a_message_is_uncompressed_once_its_request_has_ended(server, unpacking):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=2**30) as client:
        client.http2.increment_flow_control_window(2**30)
        await client.settle()
        client.gives_room = True
        for _ in range(20):
            call = client.request("Echo", raw=bomb(), ends=False, grpc_encoding="gzip")
        await client.status(client.request("Running"))
        assert unpacking == []
        client.http2.end_stream(call)
        client.send()
        assert await client.status(call) == Code.OK
        assert client.messages(call) == [UNPACKED]
        # And not where calls of others would wait for it.
        (thread,) = unpacking
        assert thread != threading.current_thread().name


async def test_small_messages_are_worth_no_thread(server, unpacking):
    async with raw_client(server.port) as client:
        body = gzip.compress(b"a small message")
        raw = struct.pack(">BI", 1, len(body)) + body
        assert await client.status(client.request("Echo", raw=raw, grpc_encoding="gzip")) == Code.OK
        assert unpacking == [threading.current_thread().name]


async def test_messages_of_a_stream_are_uncompressed_as_they_are_read(server, unpacking):
    async with raw_client(server.port) as client:
        call = client.request("Chat", b"wait", ends=False, grpc_encoding="gzip")
        client.http2.send_data(call, bomb())
        client.send()
        await until(lambda: server.methods.running == 1)
        await client.status(client.request("Running"))
        assert unpacking == []
        server.methods.release.set()
        await until(lambda: unpacking)


async def test_a_broken_large_message(server):
    async with raw_client(server.port) as client:
        raw = struct.pack(">BI", 1, 5000) + bytes(5000)
        call = client.request("Echo", raw=raw, grpc_encoding="gzip")
        assert await client.status(call) == Code.INTERNAL


@pytest.mark.parametrize("raw", [b"", b"\0\0\0\0\x05he"])
async def test_a_unary_request_that_stands_still_ends(server, monkeypatch, raw):
    monkeypatch.setattr("service.transport.incoming.SILENCE_S", 0.05)
    async with raw_client(server.port) as client:
        call = client.request("Echo", raw=raw, ends=False)
        assert await client.status(call) == Code.DEADLINE_EXCEEDED
        await until(lambda: not server.server._tasks)


async def test_one_of_which_only_frames_without_bytes_come_ends_too(server, monkeypatch):
    monkeypatch.setattr("service.transport.incoming.SILENCE_S", 0.2)
    async with raw_client(server.port) as client:
        call = client.request("Echo", raw=b"\0", ends=False)

        async def send_nothing() -> None:
            while True:
                client.http2.send_data(call, b"")
                client.send()
                await asyncio.sleep(0.02)

        sending = asyncio.create_task(send_nothing())
        assert await client.status(call) == Code.DEADLINE_EXCEEDED
        sending.cancel()


async def test_one_that_comes_slowly_does_not(server, monkeypatch):
    monkeypatch.setattr("service.transport.incoming.SILENCE_S", 1.0)
    async with raw_client(server.port) as client:
        call = client.request("Echo", raw=b"", ends=False)
        for byte in b"\0\0\0\0\x05hello":
            await asyncio.sleep(0.2)
            client.http2.send_data(call, bytes([byte]))
            client.send()
        client.http2.end_stream(call)
        client.send()
        assert await client.status(call) == Code.OK


@pytest.mark.parametrize("method", ["Echo", "Many"])
async def test_who_has_no_key_is_refused_before_the_request_is_there(method):
    async with serving(interceptors=[ApiKeys(frozenset({"a"}))]) as server:
        async with raw_client(server.port) as client:
            call = client.request(method, raw=b"", ends=False)
            assert await client.status(call) == grpc.StatusCode.UNAUTHENTICATED.value[0]
        async with grpc.aio.insecure_channel(server.address) as channel:
            echo = channel.unary_unary(f"/{SERVICE}/Echo")
            assert await echo(b"hi", metadata=[("authorization", "Bearer a")]) == b"hi"
            with pytest.raises(grpc.aio.AioRpcError, match="API key"):
                await echo(b"hi")
