"""One service with the tests' script for a whole module, a gateway in front of it, and channels to it."""

from collections.abc import Iterator

import grpc
import pytest

from tests.processes import Running, start_gateway, start_service
from tests.scripts import write_script


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    script = write_script(tmp_path_factory.mktemp("script"))
    with start_service("--engine", "scripted", "--script", script, "--stream-interval", "4") as running:
        yield running


@pytest.fixture(scope="module")
def gateway(service: Running) -> Iterator[Running]:
    """In front of the module's service, whichever that is."""
    with start_gateway(service.address) as running:
        yield running


@pytest.fixture
def channel(service: Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(service.address) as channel:
        yield channel
