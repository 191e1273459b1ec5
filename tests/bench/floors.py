"""What the parts cost alone, in the same units, to hold the service's figures against."""

import asyncio
import copy
import subprocess
import sys
import time

import grpc
import openai_harmony
import uvloop
from openresponses.v1.event_pb2 import ResponseStreamEvent, ResponseTextDeltaEvent
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony import vocabulary
from service.dialect.harmony.splitter import HarmonySplitter
from service.engine.base import ModelInfo
from service.run.builder import ResponseBuilder
from service.run.opening import opened_response
from tests.bench.cpu import cpu_seconds

MESSAGES = 1000
STREAMS = 64


async def _serve() -> None:
    """A server of grpc.aio that sends ready-made messages and does nothing else: what the transport replaces."""
    event = ResponseStreamEvent(
        type="response.output_text.delta",
        sequence_number=7,
        output_text_delta=ResponseTextDeltaEvent(item_id="msg_" + "a" * 36, output_index=1, delta=" hello"),
    )

    async def send(_: bytes, context: grpc.aio.ServicerContext) -> None:
        for _ in range(MESSAGES):
            await context.write(event)

    handler = grpc.unary_stream_rpc_method_handler(send, response_serializer=lambda m: m.SerializeToString())
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Floor", {"Send": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


async def _read(port: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_stream("/bench.Floor/Send")

        async def read() -> None:
            async for _ in call(b""):
                pass

        await asyncio.gather(*(read() for _ in range(STREAMS)))


def grpc_message_us() -> float:
    """Server CPU of one ready-made message through grpc.aio's own server, in microseconds."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.bench.floors"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        before = cpu_seconds(server.pid)
        uvloop.run(_read(port))
        spent = cpu_seconds(server.pid) - before
        server.kill()
    return spent / (MESSAGES * STREAMS) * 1e6


def parser_us(tokens: list[int]) -> float:
    """openai-harmony's parser alone, in microseconds a token."""
    encoding = vocabulary.load_encoding()
    began = time.process_time()
    for _ in range(10):
        parser = openai_harmony.StreamableParser(encoding, openai_harmony.Role.ASSISTANT)
        for token in tokens:
            parser.process(token)
            _ = parser.last_content_delta
    return (time.process_time() - began) / (10 * len(tokens)) * 1e6


def core_us(tokens: list[int], interval: int) -> float:
    """Splitter and builder alone, in microseconds a token, at `interval` tokens to a flush."""
    model = ModelInfo(id="m", context_window_tokens=1, max_output_tokens=1)
    response = opened_response(CreateResponseRequest(model="m"), model, response_id="resp_1", created_at=1)
    vocabulary.load()
    began = time.process_time()
    for _ in range(20):
        splitter, builder = HarmonySplitter(), ResponseBuilder(copy.deepcopy(response))
        builder.start()
        for at in range(0, len(tokens), interval):
            builder.apply(splitter.feed(tokens[at : at + interval]))
            builder.take()
    return (time.process_time() - began) / (20 * len(tokens)) * 1e6


if __name__ == "__main__":
    uvloop.run(_serve())
