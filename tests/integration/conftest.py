"""One service with the tests' script for a whole module, a gateway in front of it, and clients of both."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

import grpc
import httpx
import openai
import pytest
import uvloop

from tests.integration.databases import DATABASES, empty_database
from tests.integration.gateway import TIMEOUT_S
from tests.integration.transport import Serving, serving
from tests.processes import Running, client_of, start_gateway, start_service
from tests.scripts import write_script


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What of the service runs in the tests' own process runs on the loop that it is made for."""
    return {"uvloop": uvloop.new_event_loop}


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


@pytest.fixture(scope="module", params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an empty database, of either kind."""
    with empty_database(request.param, tmp_path_factory.mktemp("database")) as url:
        yield url


@pytest.fixture(scope="module")
def http(gateway: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as client:
        yield client


@pytest.fixture
def client(gateway: Running) -> Iterator[openai.OpenAI]:
    with client_of(gateway) as client:
        yield client


@pytest.fixture
def channel(service: Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(service.address) as channel:
        yield channel


@pytest.fixture
async def server() -> AsyncIterator[Serving]:
    """A server of the transport alone, in the test's own process."""
    async with serving() as started:
        yield started
