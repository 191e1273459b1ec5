"""Clients that cancel, run out of time, vanish, dawdle or stall, at every event: nothing leaks, the next is served.

One slot and no queue: a request that is served shows that the slot of the one before is free.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from service.config import Settings
from service.dialect.harmony import vocabulary
from service.engine.scripted import ScriptedEngine
from service.metrics import Metrics
from service.server import create_server
from service.store.database import Database
from service.wire.openai_json import encode
from service.wire.stream_rules import check_stream
from service.wiring import wire
from tests.processes import Running, start_service
from tests.scripts import CALLS, token_count, write_script

TIMEOUT_S = 20
MAX_STALL_S = 1
LONGEST_TOKEN = max(range(vocabulary.FIRST_SPECIAL), key=lambda token: len(vocabulary.token_bytes()[token]))
TURNS = {
    # Every event has its moment, and the last token never comes.
    "calls": {"harmony": CALLS, "delay_ms": 1, "hang_after": token_count(CALLS) - 1},
    "short": {"harmony": "<|channel|>final<|message|>Hi.<|return|>"},
    "slow": {"harmony": CALLS, "delay_ms": 2},
    # As many megabytes as a context holds, faster than anybody reads.
    "flood": {"tokens": [vocabulary.MESSAGE, *[LONGEST_TOKEN] * 5000], "chunks": 5000, "repeat": 10_000},
}
EVENTS = 39


def request(model: str, **fields: Any) -> CreateResponseRequest:
    return CreateResponseRequest(model=model, input=Input(text="Hi"), **fields)


def as_json(events: list[ResponseStreamEvent]) -> list[dict[str, Any]]:
    return [json.loads(encode(event)) for event in events]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    script = write_script(tmp_path_factory.mktemp("script"), TURNS)
    # Each token is a flush of its own, however busy the machine is, so that events can be counted.
    every_token = ("--stream-interval", "1", "--max-waiting-tokens", "1")
    flags = ("--engine", "scripted", "--script", script, *every_token)
    limits = ("--slots", "1", "--max-queued-requests", "0", "--max-stall-s", str(MAX_STALL_S))
    with start_service(*flags, *limits) as running:
        yield running


@pytest.fixture
def stub(service: Running) -> Iterator[ResponsesServiceStub]:
    with grpc.insecure_channel(service.address) as channel:
        yield ResponsesServiceStub(channel)


def assert_served(stub: ResponsesServiceStub) -> None:
    """The slot falls free: at once, but for the time that news of the client takes to arrive."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while True:
        try:
            events = list(stub.StreamResponse(request("short"), timeout=TIMEOUT_S))
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or time.monotonic() > give_up_at:
                raise
        else:
            assert check_stream(as_json(events)) == []
            return


@pytest.mark.parametrize("seen", range(EVENTS + 1))
def test_cancelled_at_every_event(stub, seen):
    call = stub.StreamResponse(request("calls"), timeout=TIMEOUT_S)
    for _ in range(seen):
        next(call)
    call.cancel()
    assert_served(stub)


@pytest.mark.parametrize("time_s", [0.001, 0.003, 0.01, 0.02, 0.04, 0.08, 0.16])
def test_out_of_time_at_every_moment(stub, time_s):
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.StreamResponse(request("calls"), timeout=time_s))
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert_served(stub)


@pytest.mark.parametrize("seen", range(0, EVENTS + 1, 3))
def test_a_channel_that_closes(service, stub, seen):
    with grpc.insecure_channel(service.address) as channel:
        call = ResponsesServiceStub(channel).StreamResponse(request("calls"), timeout=TIMEOUT_S)
        for _ in range(seen):
            next(call)
    assert_served(stub)


def http_stream(address: str, model: str, **options: int) -> socket.socket:
    host, _, port = address.rpartition(":")
    client = socket.socket()
    # Before connecting, so that it counts: little of what is unread is the kernel's to keep.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(TIMEOUT_S)
    client.connect((host, int(port)))
    content = json.dumps({"model": model, "input": "Hi", "stream": True, **options}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
    client.sendall(head.encode() + content)
    return client


@pytest.mark.parametrize("seen", range(0, EVENTS + 1, 3))
def test_a_connection_that_closes_behind_the_gateway(gateway, stub, seen):
    with http_stream(gateway.address, "calls") as client:
        received = b""
        while received.count(b"\nevent: ") < seen:
            received += client.recv(4096)
    assert_served(stub)


def test_a_stalled_reader_is_cut_off(stub):
    call = stub.StreamResponse(request("flood"), timeout=TIMEOUT_S)
    next(call)
    # It reads no more: the server must find out by itself.
    assert_served(stub)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "read nothing for 1 s" in caught.value.details()


def test_a_stalled_reader_is_cut_off_behind_the_gateway(gateway, stub):
    with http_stream(gateway.address, "flood") as client:
        assert client.recv(1)
        assert_served(stub)


def test_a_silent_engine_is_no_stalled_reader(stub):
    call = stub.StreamResponse(request("calls"), timeout=MAX_STALL_S * 2.5)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("pause_s", [0.005, 0.02])
def test_a_slow_reader_loses_nothing(stub, pause_s):
    events = []
    for event in stub.StreamResponse(request("slow"), timeout=TIMEOUT_S):
        events.append(event)
        time.sleep(pause_s)
    assert check_stream(as_json(events)) == []
    fast = list(stub.StreamResponse(request("slow"), timeout=TIMEOUT_S))
    assert [item.WhichOneof("item") for item in events[-1].completed.response.output] == [
        item.WhichOneof("item") for item in fast[-1].completed.response.output
    ]


def test_memory_does_not_grow_with_cancelled_streams(service, stub):
    def resident_bytes() -> int:
        pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
        return pages * 4096

    def cancel_some(count: int) -> None:
        for _ in range(count):
            call = stub.StreamResponse(request("calls"), timeout=TIMEOUT_S)
            next(call)
            call.cancel()
            assert_served(stub)

    cancel_some(100)
    before = resident_bytes()
    cancel_some(400)
    # A leaked call holds 50 kB and more.
    assert resident_bytes() - before < 8_000_000


async def test_no_task_is_left_behind(tmp_path):
    engine = ScriptedEngine(write_script(tmp_path, TURNS), slots=8, max_queued_requests=0)
    settings = Settings(stream_interval=1, max_waiting_tokens=1)
    database = await Database.open(f"sqlite:///{tmp_path}/responses.db")
    server = create_server(settings, engine, await wire(settings, engine, database, Metrics()))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = ResponsesServiceStub(channel)

        async def cancel_after(seen: int) -> None:
            call = stub.StreamResponse(request("calls"), timeout=TIMEOUT_S)
            for _ in range(seen):
                await call.read()
            call.cancel()

        await cancel_after(3)
        await until(lambda: engine.running == 0)
        baseline = len(asyncio.all_tasks())
        for at in range(0, 80, 8):
            await asyncio.gather(*(cancel_after(seen % EVENTS) for seen in range(at, at + 8)))
            await until(lambda: engine.running == 0)
        await until(lambda: len(asyncio.all_tasks()) <= baseline)
    await server.stop(0)
    await database.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not condition():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0.01)


def test_the_gateway_serves_on(gateway):
    answer = httpx.post(
        f"http://{gateway.address}/v1/responses", json={"model": "short", "input": "Hi"}, timeout=TIMEOUT_S
    )
    assert answer.json()["status"] == "completed"
