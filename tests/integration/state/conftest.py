"""A service that keeps its state in a database, of either kind."""

from collections.abc import Iterator

import pytest

from tests.processes import Running, start_service
from tests.scripts import write_script


@pytest.fixture(scope="module")
def service(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    script = write_script(tmp_path_factory.mktemp("script"))
    with start_service("--engine", "scripted", "--script", script, "--database", database) as running:
        yield running
