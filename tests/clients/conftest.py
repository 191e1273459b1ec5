"""A service with the tests' script and a gateway in front of it, for every client of this folder."""

from collections.abc import Iterator

import pytest

from tests.clients.agent_scripts import agent_turns
from tests.processes import Running, start_gateway, start_service
from tests.scripts import TURNS, write_script


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    script = write_script(tmp_path_factory.mktemp("script"), {**TURNS, **agent_turns()})
    with start_service("--engine", "scripted", "--script", script) as running:
        yield running


@pytest.fixture(scope="session")
def gateway(service: Running) -> Iterator[Running]:
    with start_gateway(service.address) as running:
        yield running


@pytest.fixture(scope="session")
def base_url(gateway: Running) -> str:
    return f"http://{gateway.address}/v1"
