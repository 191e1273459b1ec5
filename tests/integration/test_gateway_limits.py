"""How much the gateway lets through: large bodies, long headers, and more requests than there are places."""

import json

import httpx
import pytest

from tests.integration.gateway import TIMEOUT_S, assert_openai_error, body, events_of, wait_until
from tests.processes import start_gateway, start_service
from tests.scripts import write_script

MIB = 1024 * 1024


def test_large_bodies(http):
    fits = json.dumps(body()).encode() + b" " * 30 * MIB
    assert http.post("/v1/responses", content=fits).status_code == 200
    assert_openai_error(http.post("/v1/responses", content=fits + b" " * 3 * MIB), 413, "request_too_large")


def test_documents_larger_than_requests_may_be(http):
    """A page of items that came with several requests; an answer that repeats what was large."""
    large = {"role": "user", "content": "x" * (12 * MIB)}
    conversation = http.post("/v1/conversations", json={}).json()["id"]
    for _ in range(3):
        assert (
            http.post(f"/v1/conversations/{conversation}/items", json={"items": [large]}).status_code == 200
        )
    items = http.get(f"/v1/conversations/{conversation}/items")
    assert (items.status_code, len(items.json()["data"])) == (200, 3)

    text = http.post("/v1/responses", json=body(stream=True, store=False, user="x" * (17 * MIB))).text
    assert [len(event["response"]["user"]) for event in events_of(text) if "response" in event] == [
        17 * MIB
    ] * 3


def test_what_the_service_finds_too_large_is_no_overload(tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--max-request-bytes", "3000")
    with start_service(*flags) as service, start_gateway(service.address) as gateway:
        response = httpx.post(f"http://{gateway.address}/v1/responses", json=body(input="x" * 4000))
    assert_openai_error(response, 413, "request_too_large")


@pytest.mark.parametrize("size", [100, 9_000, 15_000, 30_000, 55_000])
def test_long_keys(http, size):
    headers = {"authorization": f"Bearer {'x' * size}"}
    assert http.post("/v1/responses", json=body(), headers=headers).status_code == 200


def test_longer_headers_than_that_are_refused(http):
    response = http.post("/v1/responses", json=body(), headers={"authorization": "x" * 70_000})
    assert_openai_error(response, 431, "bad_request")


def test_a_body_of_just_the_limit(http):
    content = json.dumps(body(model="nope", input="")).encode()
    content = content.replace(b'"input": ""', b'"input": "%b"' % (b"x" * (32 * MIB - len(content))))
    assert len(content) == 32 * MIB
    assert_openai_error(http.post("/v1/responses", content=content), 404, "model_not_found", "model")


def test_overload(tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--slots", "1")
    with (
        start_service(*flags, "--max-queued-requests", "0") as service,
        start_gateway(service.address) as gateway,
        httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as http,
    ):
        with http.stream("POST", "/v1/responses", json=body("hangs", stream=True)) as busy:
            chunks = busy.iter_raw()
            next(chunks)
            for stream in (False, True):
                refused = http.post("/v1/responses", json=body(stream=stream))
                assert_openai_error(refused, 429, "rate_limit_exceeded")
                assert int(refused.headers["retry-after"]) >= 1
        # The client above has gone away: its slot is free again.
        wait_until(lambda: http.post("/v1/responses", json=body()).status_code == 200)
