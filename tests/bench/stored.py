"""What keeping responses costs: the same short responses, not kept, kept, and made in the background.

    python -m tests.bench.stored

On both databases, 32 at a time; every response is checked. Prints server CPU and the ratio to what is not kept.
"""

import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import grpc
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from tests.bench.cpu import cpu_seconds
from tests.postgres import start_postgres
from tests.processes import Running, start_service
from tests.scripts import LONG, write_script

RESPONSES = 1000
AT_ONCE = 32
# Whether it is kept, whether it is made in the background.
WAYS = {"not kept": (False, False), "kept": (True, False), "background": (True, True)}


async def create(address: str, *, store: bool, background: bool) -> float:
    """Create the responses; return how many seconds that took."""
    request = CreateResponseRequest(model="m", input=Input(text="Hi"), store=store, background=background)
    places = asyncio.Semaphore(AT_ONCE)
    async with grpc.aio.insecure_channel(address) as channel:
        stub = ResponsesServiceStub(channel)

        async def one() -> None:
            async with places:
                events = [event async for event in stub.StreamResponse(request)]
                assert events[-1].type == "response.completed"
                assert events[-1].completed.response.store is store

        began_at = time.monotonic()
        await asyncio.gather(*(one() for _ in range(RESPONSES)))
        return time.monotonic() - began_at


def measure(service: Running) -> None:
    """Print a line for each way."""
    floor_s = 0.0
    for way, (store, background) in WAYS.items():
        before_s = cpu_seconds(service.process.pid)
        seconds = asyncio.run(create(service.address, store=store, background=background))
        used_s = cpu_seconds(service.process.pid) - before_s
        floor_s = floor_s or used_s
        print(
            f"  {way:10} {used_s / RESPONSES * 1000:5.2f} ms CPU a response, {used_s / floor_s:.2f} times; "
            f"{RESPONSES / seconds:.0f} responses a second"
        )


def main() -> None:
    """Measure on both databases."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        script = write_script(Path(folder), {"m": {"harmony": LONG, "chunks": 16}})
        urls = {
            "SQLite": f"sqlite:///{folder}/responses.db",
            "PostgreSQL": running.enter_context(start_postgres()),
        }
        for name, url in urls.items():
            flags = ("--engine", "scripted", "--script", script, "--database", url)
            with start_service(*flags, "--slots", "64", "--max-queued-requests", "64") as service:
                print(name)
                measure(service)


if __name__ == "__main__":
    main()
