"""One client process of the benchmark: opens streams at once, and checks every one of them afterwards.

    python -m tests.bench.load FACE ADDRESS MODEL STREAMS IN_TURN FIGURES_FILE <EXPECTED_TEXTS_JSON

FACE is grpc or http. Of STREAMS at once each is followed by another when it ends, until IN_TURN have been.
Writes one JSON object: seconds from start to end, seconds from its request to each message of every stream,
and the number of events. A stream that is not right ends the process with an error.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import uvloop
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest

METHOD = "/openresponses.v1.ResponsesService/StreamResponse"


@dataclass
class Stream:
    """What one stream brought."""

    messages: list[bytes] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    """When each message, or piece of a body, came; since the request."""


async def over_grpc(address: str, model: str, lines: list[list[Stream]]) -> None:
    request = CreateResponseRequest(model=model, input=Input(text="Hi"), store=False).SerializeToString()
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_stream(METHOD)

        async def read(stream: Stream) -> None:
            began_at = time.monotonic()
            async for message in call(request):
                stream.messages.append(message)
                stream.times_s.append(time.monotonic() - began_at)

        await read_all(read, lines)


async def over_http(address: str, model: str, lines: list[list[Stream]]) -> None:
    content = json.dumps({"model": model, "input": "Hi", "stream": True, "store": False}).encode()
    head = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(content)}\r\n\r\n"
    host, _, port = address.rpartition(":")

    async def read(stream: Stream) -> None:
        began_at = time.monotonic()
        reader, writer = await asyncio.open_connection(host, int(port), limit=2**22)
        writer.write(head.encode() + content)
        assert (await reader.readline()).split()[1] == b"200"
        while await reader.readline() != b"\r\n":
            pass
        while size := int(await reader.readline(), 16):
            stream.messages.append((await reader.readexactly(size + 2))[:-2])
            stream.times_s.append(time.monotonic() - began_at)
        writer.close()

    await read_all(read, lines)


async def read_all(read: Callable[[Stream], Awaitable[None]], lines: list[list[Stream]]) -> None:
    """Read all lines at once, the streams of each in turn."""

    async def follow(line: list[Stream]) -> None:
        for stream in line:
            await read(stream)

    await asyncio.gather(*map(follow, lines))


def events_of(face: str, stream: Stream) -> list[tuple[str, str, str]]:
    """A stream's events: type, item id and delta; of the terminal one its response's texts."""
    found = []
    if face == "grpc":
        for message in stream.messages:
            event = ResponseStreamEvent.FromString(message)
            member = getattr(event, event.WhichOneof("event") or "")
            found.append((event.type, getattr(member, "item_id", ""), getattr(member, "delta", "")))
        texts = [
            item.reasoning.content[0].text
            if item.HasField("reasoning")
            else item.message.content[0].output_text.text
            for item in event.completed.response.output
        ]
    else:
        frames = b"".join(stream.messages).removesuffix(b"\n\n").split(b"\n\n")
        for frame in frames:
            document = json.loads(frame.partition(b"\ndata: ")[2])
            found.append((document["type"], document.get("item_id", ""), document.get("delta", "")))
        texts = [item["content"][0]["text"] for item in document["response"]["output"]]
    found.append(("texts", "", json.dumps(texts)))
    return found


def check(face: str, stream: Stream, expected: list[str]) -> int:
    """Fail unless the stream says what the script does; return how many events it had."""
    events = events_of(face, stream)
    assert events[0][0] == "response.created", events[0]
    assert events[-2][0] == "response.completed", events[-2]
    assert json.loads(events[-1][2]) == expected
    joined: dict[str, str] = {}
    for type_, item_id, delta in events:
        if type_.endswith(".delta"):
            joined[item_id] = joined.get(item_id, "") + delta
    assert list(joined.values()) == expected
    return len(events) - 1


def main() -> None:
    """Run one load."""
    face, address, model, count, in_turn, figures = sys.argv[1:]
    expected = json.load(sys.stdin)
    lines = [[Stream() for _ in range(int(in_turn))] for _ in range(int(count))]
    began_at = time.monotonic()
    uvloop.run({"grpc": over_grpc, "http": over_http}[face](address, model, lines))
    seconds = time.monotonic() - began_at
    streams = [stream for line in lines for stream in line]
    events = sum(check(face, stream, expected) for stream in streams)
    times = [stream.times_s for stream in streams]
    Path(figures).write_text(json.dumps({"seconds": seconds, "events": events, "times_s": times}))


if __name__ == "__main__":
    main()
