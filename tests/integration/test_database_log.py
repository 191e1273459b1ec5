"""What the log says where the database fails."""

import asyncio
import logging

import pytest
from sqlalchemy import column, select

import service.store.database as database_module
from service.errors import Unavailable
from tests.integration.databases import DATABASES, empty_database
from tests.stores import stores


@pytest.mark.parametrize("kind", DATABASES)
def test_what_fails_is_logged_in_brief(tmp_path, kind, caplog):
    """However long the statement is, and the traceback of who asked for it."""

    async def run(url: str) -> None:
        async with stores(url) as at:
            with pytest.raises(Unavailable) as caught:
                async with at.database.reading() as connection:
                    # A table that there is not, and more parameters than either database takes.
                    await connection.execute(select(column("id")).where(column("id").in_(range(70_000))))
            logging.getLogger("test").error("it fails", exc_info=caught.value)

    with empty_database(kind, tmp_path) as url:
        asyncio.run(run(url))
    assert "the database fails" in caplog.text
    assert len(caplog.text) < 20_000
    assert all(len(line) < 2 * database_module._MAX_LOGGED_CHARACTERS for line in caplog.text.splitlines())
