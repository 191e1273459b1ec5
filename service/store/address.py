"""From a database's address to its engine: a file for SQLite, or whatever addresses PostgreSQL has."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from service.errors import StartupError

WRITES: Final = {"sqlite_begin": "IMMEDIATE"}
"""Execution options of a transaction that writes: SQLite waits for its lock when it begins."""

_BUSY_TIMEOUT_S: Final = 30.0
_CONNECT_TIMEOUT_S: Final = 10.0
_ANSWER_TIMEOUT_S: Final = 30.0
"""Seconds after which a PostgreSQL that does not answer a statement counts as out of reach."""
_IDLE_TIMEOUT_S: Final = 30.0
"""Seconds after which PostgreSQL ends the transaction of a process that stands still, and its locks."""
_OWNER_ONLY: Final = 0o600

# Errors quote no parameters: they hold what users say.
_CONNECTIONS: Final = {"pool_size": 10, "max_overflow": 20, "hide_parameters": True}


def parse_address(text: str) -> URL:
    """Return a database's address.

    Raises:
        StartupError: it is not of the form `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`.

    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = URL.create("none")
    if url.drivername not in ("sqlite", "postgresql"):
        raise StartupError(
            "The database must be sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME. See --database."
        )
    if url.drivername == "sqlite":
        if not url.database or url.database == ":memory:":
            raise StartupError(
                "SQLite in memory would keep nothing: name a file, as in sqlite:///FILE. See --database."
            )
        if url.query or url.host or url.database.startswith("file:"):
            raise StartupError(
                "A SQLite database is sqlite:///FILE or sqlite:////PATH/FILE, and takes no options. "
                "See --database."
            )
    return url


def create_engine(url: URL) -> AsyncEngine:
    """Return an engine; nothing is connected yet, but a SQLite file is made.

    Raises:
        OSError, sqlite3.Error: the file cannot be opened.

    """
    if url.drivername == "sqlite":
        _probe(Path(url.database or ""))
        engine = create_async_engine(url.set(drivername="sqlite+aiosqlite"), **_CONNECTIONS)
        _prepare_sqlite(engine)
        return engine
    # The driver reads the address itself: it knows sslmode and what else PostgreSQL's addresses may say.
    arguments = {
        "dsn": url.render_as_string(hide_password=False),
        "timeout": _CONNECT_TIMEOUT_S,
        "command_timeout": _ANSWER_TIMEOUT_S,
    }
    engine = create_async_engine(
        "postgresql+asyncpg://",
        connect_args=arguments,
        # One that was closed meanwhile, as by a restart or a pooler, is replaced before it is used.
        pool_pre_ping=True,
        **_CONNECTIONS,
    )
    _prepare_postgresql(engine)
    return engine


def _probe(file: Path) -> None:
    """Open and read the file once: the driver's threads outlive their loop when they fail to."""
    # It holds what users say, and the key that reasoning is sealed with. What SQLite lays beside it gets the
    # same mode.
    file.touch(mode=_OWNER_ONLY)
    connection = sqlite3.connect(file)
    try:
        connection.execute("PRAGMA schema_version")
    finally:
        connection.close()


def _prepare_postgresql(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, record: object) -> None:
        # Not with the call itself: poolers in front of a PostgreSQL refuse settings there.
        cursor = connection.cursor()
        cursor.execute(f"SET idle_in_transaction_session_timeout = {int(_IDLE_TIMEOUT_S * 1000)}")
        cursor.close()
        connection.commit()


def _prepare_sqlite(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, record: object) -> None:
        # Transactions are begun below, not by the driver.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode = WAL")
        # Safe when the process dies; only a power cut can take the last transactions.
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute(f"PRAGMA busy_timeout = {int(_BUSY_TIMEOUT_S * 1000)}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Connection) -> None:
        (option,) = WRITES
        connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get(option, 'DEFERRED')}")
