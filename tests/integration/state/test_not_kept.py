"""What is not kept: without `store`, deleted, too old, or too large."""

import asyncio

import httpx
import openai
import pytest
from sqlalchemy import func, select

from service.store.database import Database
from service.store.tables import METADATA, SECRETS
from tests.processes import client_of, start_gateway, start_service
from tests.scripts import write_script


def rows(url: str) -> int:
    """How many rows all tables hold; the secrets do not count."""

    async def count() -> int:
        database = await Database.open(url)
        async with database.reading() as connection:
            tables = [table for table in METADATA.sorted_tables if table is not SECRETS]
            counts = [await connection.scalar(select(func.count()).select_from(table)) for table in tables]
        await database.close()
        return sum(count or 0 for count in counts)

    return asyncio.run(count())


def test_without_store_nothing_is_left_behind(client, database):
    before = rows(database)
    response = client.responses.create(model="hello", input="Hi", store=False)
    list(client.responses.create(model="hello", input="Hi", store=False, stream=True))
    assert response.store is False
    assert rows(database) == before
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_deleted_is_gone_with_everything(client, database):
    before = rows(database)
    response = client.responses.create(model="slow", input="Hi", background=True)
    list(client.responses.retrieve(response.id, stream=True))
    assert rows(database) > before
    client.responses.delete(response.id)
    assert rows(database) == before


def test_deletion_says_so(gateway, client):
    response = client.responses.create(model="hello", input="Hi")
    url = f"http://{gateway.address}/v1/responses/{response.id}"
    headers = {"authorization": "Bearer alice"}
    assert httpx.delete(url, headers=headers).json() == {
        "id": response.id,
        "object": "response",
        "deleted": True,
    }
    assert httpx.delete(url, headers=headers).status_code == 404


def test_what_is_too_old_is_forgotten(database, tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--database", database)
    before = rows(database)
    with (
        start_service(*flags, "--store-ttl-s", "1") as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        response = client.responses.create(model="hello", input="Hi")
        # Time goes by, and nothing tells of it.
        while found(client, response.id):
            pass
        assert rows(database) == before + 1
    # A service that starts tidies up first.
    with start_service(*flags):
        while rows(database) > before:
            pass


def found(client: openai.OpenAI, response_id: str) -> bool:
    try:
        client.responses.retrieve(response_id)
    except openai.NotFoundError:
        return False
    return True


def test_what_is_too_large_is_answered_but_not_kept(database, tmp_path):
    flags = ("--database", database, "--max-stored-bytes", "1024")
    with (
        start_service("--engine", "scripted", "--script", write_script(tmp_path), *flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        response = client.responses.create(model="hello", input="Hi " * 500)
        assert (response.status, response.store) == ("completed", False)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(response.id)
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="hello", input="Hi " * 500, background=True)
        assert caught.value.param == "input"
