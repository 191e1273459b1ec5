"""The database: one SQLite file, or PostgreSQL where replicas share state. One code path for both.

Transactions are short and never span an await on anything else. Those that write say so when they begin:
SQLite then waits for its one write lock instead of failing halfway.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sqlite3
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.errors import StartupError, Unavailable
from service.store.address import WRITES, create_engine, parse_address
from service.store.tables import SECRETS

_log = logging.getLogger(__name__)

_MAX_WRITERS: Final = 10
_MAX_LOGGED_CHARACTERS: Final = 500
"""Of a statement that fails, and of what the database says to it."""
_MIGRATION_LOCK: Final = 0x6F70656E
"""Any number: replicas that start together bring the database up to date one after another."""


class Database:
    """Connections to the database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        # A transaction that reads sees one state of the database throughout; in SQLite each does.
        self._snapshots = (
            engine.execution_options(isolation_level="REPEATABLE READ")
            if engine.dialect.name == "postgresql"
            else engine
        )
        # SQLite has one writer at a time: those of this process queue here instead of at the file's lock.
        self._writers = asyncio.Semaphore(1 if engine.dialect.name == "sqlite" else _MAX_WRITERS)

    @classmethod
    async def open(cls, url: str) -> Database:
        """Connect, and bring the tables up to date.

        `url`: `sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/NAME`.

        Raises:
            StartupError: the URL is wrong, or the database cannot be reached or written.

        """
        address = parse_address(url)
        shown = address.difference_update_query(["password", "sslpassword"]).render_as_string()
        try:
            database = cls(create_engine(address))
            try:
                async with database._begin_writing() as connection:
                    await connection.run_sync(_upgrade)
            except BaseException:
                await database.close()
                raise
        except CommandError as error:
            raise StartupError(
                f"The database {shown} was made by a newer version of this service: {error}. See --database."
            ) from error
        except (OSError, ValueError, sqlite3.Error, SQLAlchemyError) as error:
            cause = str(getattr(error, "orig", None) or error).partition("\n")[0] or type(error).__name__
            raise StartupError(f"The database {shown} cannot be used: {cause}. See --database.") from error
        return database

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection, None]:
        """Begin a transaction that only reads, and sees one state of the database throughout.

        Raises:
            Unavailable: the database cannot be reached, or fails.

        """
        with _failures():
            async with self._snapshots.begin() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncGenerator[AsyncConnection, None]:
        """Begin a transaction that writes. Raises as `reading`."""
        with _failures():
            async with self._writers, self._begin_writing() as connection:
                yield connection

    def _begin_writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        return self._engine.execution_options(**WRITES).begin()

    async def secret(self, name: str) -> str:
        """Return the key of that name that all replicas share; the first to ask makes it, 32 random bytes."""
        query = select(SECRETS.c.value).where(SECRETS.c.name == name)
        try:
            async with self.writing() as connection:
                if found := await connection.scalar(query):
                    return str(found)
                value = secrets.token_urlsafe(32)
                await connection.execute(SECRETS.insert().values(name=name, value=value))
                return value
        except IntegrityError:
            # Another replica was quicker.
            async with self.reading() as connection:
                return str(await connection.scalar(query))

    async def close(self) -> None:
        """Close all connections."""
        await self._engine.dispose()


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        # Not a failure of the database: another writer was quicker.
        raise
    except (OSError, SQLAlchemyError) as error:
        if isinstance(error, StatementError) and error.statement:
            # Tracebacks show it, and it may name thousands of parameters.
            error.statement = error.statement[:_MAX_LOGGED_CHARACTERS]
        _log.error(f"the database fails: %.{_MAX_LOGGED_CHARACTERS}r", error)
        raise Unavailable("The store cannot be reached: try again later.") from error


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
