"""The transport and HTTP/2's windows: small and shared ones, room that comes back, what goes into a frame."""

import resource

from h2.events import DataReceived, RemoteSettingsChanged, ResponseReceived, SettingsAcknowledged
from h2.settings import SettingCodes

from service.transport.faults import Code
from service.transport.framing import framed
from tests.integration.transport import MIB, many, raw_client, until


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


async def test_a_window_that_is_too_small_for_one_goes_round(server):
    async with raw_client(server.port, INITIAL_WINDOW_SIZE=10 * MIB) as client:
        calls = [client.request("Many", many(count=2000, size=1000)) for _ in range(3)]
        received = 65_535
        await client.receive(lambda: sum(len(client.body(call)) for call in calls) == received)
        before = [len(client.body(call)) for call in calls]
        for _ in range(9):
            received += 100
            client.http2.increment_flow_control_window(100)
            client.send()
            await client.receive(lambda: sum(len(client.body(call)) for call in calls) == received)  # noqa: B023
        assert [len(client.body(call)) - sent for call, sent in zip(calls, before, strict=True)] == [300] * 3


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
