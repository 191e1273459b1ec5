"""A client that reads nothing is found out; one that reads slowly is not."""

import asyncio

import pytest

from service.transport.outgoing import HELD_BYTES, Outgoing

MAX_STALL_S = 0.4
LARGE = bytes(20 * HELD_BYTES)

waits = pytest.mark.parametrize("wait", [Outgoing.room, Outgoing.completion])


@waits
async def test_a_client_that_reads_nothing_is_found_out(wait):
    outgoing = Outgoing()
    outgoing.add(LARGE)
    assert not await wait(outgoing, MAX_STALL_S)


@waits
async def test_a_client_that_reads_a_large_message_slowly_is_not(wait):
    outgoing = Outgoing()
    outgoing.add(LARGE)
    waiting = asyncio.create_task(wait(outgoing, MAX_STALL_S))
    while not waiting.done():
        await asyncio.sleep(MAX_STALL_S / 8)
        # It takes longer than a stall for one message: twenty times an eighth.
        if not outgoing.take(HELD_BYTES):
            outgoing.complete()
    assert await waiting


async def test_a_response_that_is_dropped_has_room():
    outgoing = Outgoing()
    outgoing.add(LARGE)
    waiting = asyncio.create_task(outgoing.room(60))
    await asyncio.sleep(0)
    outgoing.complete()
    assert await waiting
