"""Two services that make responses in the background, on one database of either kind, a gateway before each."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.integration.background.turns import LEASE_S, TURNS
from tests.processes import Running, client_of, start_gateway, start_service
from tests.scripts import write_script


@pytest.fixture(scope="module")
def flags(database: str, tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    script = write_script(tmp_path_factory.mktemp("script"), TURNS)
    return [
        *("--engine", "scripted", "--script", script, "--database", database),
        *("--lease-s", str(LEASE_S), "--slots", "64", "--grace-s", "0"),
    ]


@pytest.fixture(scope="module")
def service(flags: list[str | Path]) -> Iterator[Running]:
    with start_service(*flags) as running:
        yield running


@pytest.fixture(scope="module")
def replica(flags: list[str | Path], service: Running) -> Iterator[Running]:
    """Another service on the same database, with a gateway of its own."""
    with start_service(*flags) as running, start_gateway(running.address) as gateway:
        yield gateway


@pytest.fixture
def elsewhere(replica: Running) -> Iterator[openai.OpenAI]:
    with client_of(replica) as client:
        yield client
