"""A client that reads nothing is cut off; one that reads slowly is not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from service.errors import ReaderStalled
from service.rpc.delivery import deliver
from service.transport.outgoing import HELD_BYTES, Outgoing

MAX_STALL_S = 0.4
LARGE = bytes(20 * HELD_BYTES)


class Call:
    """As much of a call as delivery knows."""

    def __init__(self) -> None:
        self.outgoing = Outgoing()

    async def write(self, message: bytes) -> None:
        if self.outgoing.waiting_bytes > HELD_BYTES:
            await self.outgoing.room()
        self.outgoing.add(message)


async def batches() -> AsyncIterator[list[bytes]]:
    yield [LARGE, b"the next"]


async def test_a_client_that_reads_nothing_is_cut_off():
    with pytest.raises(ReaderStalled):
        await deliver(Call(), batches(), max_stall_s=MAX_STALL_S)


async def test_a_client_that_reads_a_large_message_slowly_is_not():
    call = Call()
    delivery = asyncio.create_task(deliver(call, batches(), max_stall_s=MAX_STALL_S))
    while not delivery.done():
        await asyncio.sleep(MAX_STALL_S / 8)
        # It takes longer than a stall for one message: twenty times an eighth.
        call.outgoing.take(HELD_BYTES)
    await delivery
