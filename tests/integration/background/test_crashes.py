"""What becomes of responses in the background when their server stops, sleeps or is killed."""

import asyncio
import random
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import asyncpg
import httpx
import openai

from service.wire.stream_rules import check_stream
from tests.integration.background.turns import FINAL, LEASE_S, TURNS, plain
from tests.processes import Running, client_of, start_gateway, start_service
from tests.scripts import write_script


def wait_for(client: openai.OpenAI, response_id: str, status: str) -> None:
    """Return once a response has that status, which it must get."""
    for _ in range(500):
        found = client.responses.retrieve(response_id).status
        if found == status:
            return
        assert found not in FINAL
        time.sleep(0.05)
    raise AssertionError(f"{response_id} is still {found}")


def stop_between_writes(service: Running, database: str) -> None:
    """Stop a service's process at a moment at which it holds no lock of the database."""
    for _ in range(50):
        service.process.send_signal(signal.SIGSTOP)
        if asyncio.run(can_write(database)):
            return
        service.process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    raise AssertionError("it always writes")


async def can_write(database: str) -> bool:
    """Whether nobody holds a lock of the database."""
    try:
        if database.startswith("sqlite"):
            with closing(sqlite3.connect(database.removeprefix("sqlite:///"), timeout=0.2)) as file:
                file.execute("BEGIN IMMEDIATE")
        else:
            connection = await asyncpg.connect(database)
            try:
                await connection.execute("SELECT * FROM leases FOR UPDATE NOWAIT")
            finally:
                await connection.close()
    except (sqlite3.OperationalError, asyncpg.LockNotAvailableError):
        return False
    return True


def test_a_server_that_stops_fails_what_it_cannot_finish(flags, elsewhere):
    with (
        start_service(*flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        response = client.responses.create(model="endless", input="Hi", background=True)
        assert service.stop() == 0
    events = plain(elsewhere.responses.retrieve(response.id, stream=True))
    assert check_stream(events) == []
    assert events[-1]["type"] == "response.failed"
    assert "stopped" in events[-1]["response"]["error"]["message"]


def test_a_model_that_is_silent_for_long_is_not_taken_for_dead(client):
    response = client.responses.create(model="thinks-endlessly", input="Hi", background=True)
    silent_until = time.monotonic() + 2 * LEASE_S
    while time.monotonic() < silent_until:
        assert client.responses.retrieve(response.id).status in ("queued", "in_progress")
    assert client.responses.cancel(response.id).status == "cancelled"


def test_readers_of_a_server_that_is_killed_are_told(flags, elsewhere):
    with (
        start_service(*flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        response = client.responses.create(model="endless", input="Hi", background=True)
        stream = elsewhere.responses.retrieve(response.id, stream=True)
        seen = [next(stream) for _ in range(8)]
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        seen += stream
    events = plain(seen)
    assert check_stream(events) == []
    assert events[-1]["type"] == "response.failed"
    assert elsewhere.responses.retrieve(response.id).status == "failed"


def test_a_server_that_sleeps_past_its_lease_stops_making_what_another_has_ended(flags, database, elsewhere):
    """Readers of both are told the same, once; a response that nobody has ended goes on."""
    with (
        # As many slots as it makes responses.
        start_service(*flags, "--slots", "3", "--max-queued-requests", "0") as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        made = [
            client.responses.create(model=model, input="Hi", background=True)
            for model in ("endless", "endless", "thinks-endlessly")
        ]
        with ThreadPoolExecutor(6) as pool:
            read = [
                pool.submit(lambda r, i: plain(r.responses.retrieve(i, stream=True)), reader, response.id)
                for response in made
                for reader in (client, elsewhere)
            ]
            for response in made:
                wait_for(elsewhere, response.id, "in_progress")
            stop_between_writes(service, database)
            try:
                for response in made:
                    wait_for(elsewhere, response.id, "failed")
            finally:
                service.process.send_signal(signal.SIGCONT)
            seen = [reader.result(60) for reader in read]
        for first, second in zip(seen[::2], seen[1::2], strict=True):
            assert first == second
            assert check_stream(first) == []
            assert first[-1]["type"] == "response.failed"
        # Its producers have stopped: nothing is added, and their slots are free.
        time.sleep(LEASE_S)
        for response, events in zip(made, seen[::2], strict=True):
            assert plain(elsewhere.responses.retrieve(response.id, stream=True)) == events
        assert client.responses.create(model="short", input="Hi").status == "completed"


def test_a_server_that_sleeps_past_its_lease_alone_goes_on(tmp_path):
    """Nobody has taken its responses from it."""
    script = write_script(tmp_path, TURNS)
    flags = ("--engine", "scripted", "--script", script, "--lease-s", "1")
    with (
        start_service(*flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        response = client.responses.create(model="slow", input="Hi", background=True)
        service.process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        service.process.send_signal(signal.SIGCONT)
        events = plain(client.responses.retrieve(response.id, stream=True))
        assert check_stream(events) == []
        assert events[-1]["type"] == "response.completed"


def test_killed_again_and_again_nothing_is_lost_or_stuck(flags, database):
    """Clients create 200 responses while the server is killed at random moments and started anew."""
    random_ = random.Random(7)
    acknowledged: dict[str, str | None] = {}
    lock = threading.Lock()
    left = iter(range(200))

    def create(client: openai.OpenAI) -> None:
        """Create responses until the server dies, or 200 are there."""
        while True:
            with lock:
                if (i := next(left, None)) is None:
                    return
            try:
                if i % 2:
                    response = client.responses.create(model="short", input="Hi", background=True)
                    ended = None
                else:
                    response = client.responses.create(model="short", input="Hi")
                    ended = response.output_text
            except (openai.APIError, httpx.HTTPError):
                return
            with lock:
                acknowledged[response.id] = ended

    rounds = 0
    while rounds < 5:
        rounds += 1
        with (
            start_service(*flags) as service,
            start_gateway(service.address) as gateway,
            client_of(gateway) as client,
        ):
            killer = threading.Timer(random_.uniform(0.2, 1.0), service.process.kill)
            killer.start()
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(create, [client] * 8))
            killer.join()
            service.process.wait()
    with (
        start_service(*flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(create, [client] * 8))
        assert len(acknowledged) > 100
        for response_id, text in acknowledged.items():
            if text is None:
                # Ends, one way or another, however its server did.
                events = plain(client.responses.retrieve(response_id, stream=True))
                assert check_stream(events) == []
            response = client.responses.retrieve(response_id)
            assert response.status in FINAL
            if text is not None:
                assert response.output_text == text


def test_two_services_behind_one_gateway(flags, database):
    """Whichever of them a request reaches, it finds what the other has made."""
    with (
        start_service(*flags) as one,
        start_service(*flags) as two,
        start_gateway(one.address, two.address) as gateway,
        client_of(gateway) as client,
    ):
        previous: str | None = None
        for _ in range(10):
            stream = client.responses.create(
                model="short", input="Hi", background=True, stream=True, previous_response_id=previous
            )
            first = [next(stream) for _ in range(5)]
            stream.close()
            previous = first[0].response.id
            rest = client.responses.retrieve(previous, stream=True, starting_after=4)
            events = plain([*first, *rest])
            assert check_stream(events) == []
            assert events[-1]["response"]["status"] == "completed"
        # One of them dies: the other serves all.
        one.process.kill()
        one.process.wait()
        served = 0
        while served < 10:
            try:
                served += client.responses.create(model="short", input="Hi").status == "completed"
            except openai.APIError:
                # Until the gateway has noticed.
                served = 0
