"""A client of a service that shows reasoning, and of one that hides it."""

from collections.abc import Iterator

import openai
import pytest

from tests.integration.prompts.conversations import serving


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with serving(tmp_path_factory.mktemp("script")) as client:
        yield client


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with serving(tmp_path_factory.mktemp("script"), "--no-show-reasoning") as client:
        yield client
