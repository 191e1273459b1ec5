"""The transport, as gRPC's own clients see it."""

import asyncio
import json
import logging
import socket
import time

import grpc
import pytest

from tests.integration.transport import MIB, SERVICE, TIMEOUT_S, serving, until


@pytest.fixture
async def channel(server):
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(server.address, options=options) as opened:
        yield opened


def unary(channel, method, request=b"", **options):
    return channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=TIMEOUT_S, **options)


def stream(channel, method, request=b"", **options):
    return channel.unary_stream(f"/{SERVICE}/{method}")(request, timeout=TIMEOUT_S, **options)


def asked(**fields):
    return json.dumps(fields).encode()


async def error_of(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_unary(channel):
    assert await unary(channel, "Echo", b"hi") == b"hi"
    assert await unary(channel, "Echo", b"") == b""


async def test_streams(channel):
    numbers = [b"%08d" % number for number in range(1000)]
    assert [message async for message in stream(channel, "Many", asked(count=1000))] == numbers
    assert [int(m) async for m in stream(channel, "Counted", asked(count=100))] == list(range(100))
    assert [m async for m in stream(channel, "Many", asked(count=0))] == []


@pytest.mark.parametrize("method", ["Chat", "ChatByHand"])
async def test_both_ways_at_once(channel, method):
    call = channel.stream_stream(f"/{SERVICE}/{method}")(timeout=TIMEOUT_S)
    for number in range(50):
        await call.write(b"message %d" % number)
        assert await call.read() == b"MESSAGE %d" % number
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_a_stream_of_requests(channel):
    parts = [b"%d" % number for number in range(1000)]
    call = channel.stream_unary(f"/{SERVICE}/Joined")(iter(parts), timeout=TIMEOUT_S)
    assert await call == b",".join(parts)


async def test_the_synchronous_client(server):
    def use():
        with grpc.insecure_channel(server.address) as channel:
            assert unary(channel, "Echo", b"hi") == b"hi"
            return list(stream(channel, "Many", asked(count=200)))

    assert len(await asyncio.to_thread(use)) == 200


async def test_a_thousand_streams_on_one_channel(channel):
    async def read():
        return [int(m) async for m in stream(channel, "Counted", asked(count=5))]

    assert await asyncio.gather(*(read() for _ in range(1000))) == [list(range(5))] * 1000


async def test_large_messages_both_ways(channel):
    large = bytes(range(256)) * (20 * MIB // 256)
    assert await unary(channel, "Echo", large) == large


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_requests(channel, compression):
    request = b"again and again " * 10_000
    assert await unary(channel, "Echo", request, compression=compression) == request


async def test_metadata_both_ways(channel):
    call = unary(
        channel,
        "Echo",
        metadata=(("x-a", "b"), ("x-two-bin", b"\0\xff"), ("y-a", "c"), ("y-bin", bytes(range(256)))),
    )
    await call
    assert dict(await call.initial_metadata())["x-a"] == "b"
    assert dict(await call.initial_metadata())["x-two-bin"] == b"\0\xff"
    assert dict(await call.trailing_metadata()) == {"y-a": "c", "y-bin": bytes(range(256))}


async def test_what_the_context_says(server, channel):
    await unary(channel, "Echo")
    (context,) = server.methods.contexts
    assert context.peer().startswith("ipv4:127.0.0.1:")
    assert 0 < context.time_remaining() < TIMEOUT_S + 1
    assert context.done()
    assert not context.cancelled()
    assert dict(context.invocation_metadata())["user-agent"].startswith("grpc-python-asyncio")


async def test_an_abort_carries_message_and_metadata(channel):
    error = await error_of(unary(channel, "Abort"))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert error.details() == "grün 100 %\n"
    assert dict(error.trailing_metadata()) == {"y-why": "because", "y-why-bin": b"\0\xff"}


async def test_an_abort_behind_messages(channel):
    call = stream(channel, "Many", asked(count=3, code="ABORTED"))
    for _ in range(3):
        await call.read()
    error = await error_of(call.read())
    assert error.code() is grpc.StatusCode.ABORTED
    assert error.details() == "as asked"


async def test_a_status_that_is_set(channel):
    error = await error_of(unary(channel, "Coded"))
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "not here")


async def test_a_bug_is_logged_and_not_told(channel, caplog):
    with caplog.at_level(logging.ERROR):
        error = await error_of(unary(channel, "Fail"))
    assert error.code() is grpc.StatusCode.UNKNOWN
    assert "secret" not in error.details()
    assert "a secret" in caplog.text


async def test_a_method_that_does_not_exist(channel):
    error = await error_of(unary(channel, "Nothing"))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "/test.Transport/Nothing" in error.details()


async def test_a_message_that_cannot_be_parsed(channel):
    error = await error_of(unary(channel, "Parse", b"{"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_message_above_the_limit():
    async with (
        serving(max_request_bytes=1000) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        assert len(await unary(channel, "Echo", bytes(1000))) == 1000
        error = await error_of(unary(channel, "Echo", bytes(1001)))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "1000 bytes" in error.details()
        error = await error_of(unary(channel, "Echo", bytes(1001), compression=grpc.Compression.Gzip))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("count", [0, 2])
async def test_a_unary_call_with_another_number_of_messages(channel, count):
    call = channel.stream_unary(f"/{SERVICE}/Echo")(iter([b"x"] * count), timeout=TIMEOUT_S)
    assert (await error_of(call)).code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_deadline_cancels_the_handler(server, channel):
    began = time.monotonic()
    error = await error_of(channel.unary_unary(f"/{SERVICE}/Wait")(b"", timeout=0.2))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - began < TIMEOUT_S / 2
    await until(lambda: server.methods.ended == ["cancelled"])


async def test_a_cancelled_call_cancels_the_handler(server, channel):
    call = stream(channel, "BeginAndWait")
    assert await call.read() == b"begun"
    call.cancel()
    await until(lambda: server.methods.ended == ["cancelled"])
    assert server.methods.running == 0
    assert await unary(channel, "Echo", b"next") == b"next"


async def test_a_channel_that_closes_cancels_its_handlers(server):
    async with grpc.aio.insecure_channel(server.address) as channel:
        calls = [stream(channel, "BeginAndWait") for _ in range(3)]
        for call in calls:
            await call.read()
    await until(lambda: server.methods.ended == ["cancelled"] * 3)


async def test_no_more_calls_than_the_limit():
    async with (
        serving(max_concurrent_calls=2) as server,
        grpc.aio.insecure_channel(server.address) as channel,
        grpc.aio.insecure_channel(server.address, options=[("grpc.x", 1)]) as second,
    ):
        calls = [stream(one, "BeginAndWait") for one in (channel, second)]
        for call in calls:
            await call.read()
        async with grpc.aio.insecure_channel(server.address, options=[("grpc.x", 2)]) as other:
            error = await error_of(unary(other, "Echo"))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "server" in error.details()
        calls[0].cancel()
        await until(lambda: server.methods.running == 1)
        assert await unary(channel, "Echo", b"free") == b"free"


async def test_one_connection_leaves_half_of_the_calls_to_others():
    async with (
        serving(max_concurrent_calls=5) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        calls = [stream(channel, "BeginAndWait") for _ in range(3)]
        for call in calls:
            await call.read()
        error = await error_of(unary(channel, "Echo"))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "connection" in error.details()
        async with grpc.aio.insecure_channel(server.address, options=[("grpc.x", 1)]) as other:
            assert await unary(other, "Echo", b"room") == b"room"
        calls[0].cancel()
        await until(lambda: server.methods.running == 2)
        assert await unary(channel, "Echo", b"free") == b"free"


async def test_a_busy_server_is_not_dead():
    """Health checks have their own connections, and always an answer there."""
    async with (
        serving(max_concurrent_calls=1, always_admitted=[f"/{SERVICE}/Echo"]) as server,
        grpc.aio.insecure_channel(server.address) as channel,
        grpc.aio.insecure_channel(server.address, options=[("grpc.x", 1)]) as prober,
    ):
        call = stream(channel, "BeginAndWait")
        await call.read()
        assert await unary(prober, "Echo", b"alive") == b"alive"
        for one, method in ((channel, "Echo"), (prober, "Running")):
            error = await error_of(unary(one, method))
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_stopping_lets_calls_end_within_the_grace_period(server, channel):
    call = stream(channel, "BeginAndWait")
    assert await call.read() == b"begun"
    stopping = asyncio.create_task(server.server.stop(TIMEOUT_S))
    await asyncio.sleep(0.05)
    assert not stopping.done()
    server.methods.release.set()
    assert await call.read() == b"ended"
    assert await call.read() is grpc.aio.EOF
    await stopping
    assert await server.server.wait_for_termination(0) is False


async def test_stopping_cuts_calls_that_outlast_the_grace_period(server, channel):
    call = stream(channel, "BeginAndWait")
    assert await call.read() == b"begun"
    await server.server.stop(0.05)
    assert (await error_of(call.read())).code() is grpc.StatusCode.UNAVAILABLE
    assert server.methods.ended == ["cancelled"]
    assert server.server._tasks == set()


async def test_a_taken_port_is_an_error(server):
    async with serving() as other:
        with pytest.raises(OSError, match="in use"):
            other.server.add_insecure_port(server.address)


async def test_ipv6_and_all_addresses():
    async with serving() as server:
        try:
            port = server.server.add_insecure_port("[::]:0")
        except OSError:
            pytest.skip("no IPv6 here")
        await server.server.start()
        for host in ("127.0.0.1", "[::1]"):
            async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
                assert await unary(channel, "Echo", b"hi") == b"hi"


class Gate(grpc.aio.ServerInterceptor):
    """Notes its name, and lets those pass that name it."""

    def __init__(self, name, seen):
        self.name, self.seen = name, seen

    async def intercept_service(self, continuation, handler_call_details):
        self.seen.append(self.name)
        if dict(handler_call_details.invocation_metadata).get("x-stop") == self.name:
            return None
        return await continuation(handler_call_details)


async def test_interceptors_are_asked_in_order():
    seen = []
    async with (
        serving(interceptors=[Gate("first", seen), Gate("second", seen)]) as server,
        grpc.aio.insecure_channel(server.address) as channel,
    ):
        await unary(channel, "Echo")
        assert seen == ["first", "second"]
        error = await error_of(unary(channel, "Echo", metadata=[("x-stop", "first")]))
        assert error.code() is grpc.StatusCode.UNIMPLEMENTED
        assert seen == ["first", "second", "first"]


async def test_a_client_that_speaks_something_else(server):
    def ask():
        with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_S) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            while client.recv(4096):
                pass

    await asyncio.to_thread(ask)
    async with grpc.aio.insecure_channel(server.address) as channel:
        assert await unary(channel, "Echo", b"others go on") == b"others go on"
