"""The gateway and time: nothing is buffered, who goes away stops the engine, and silent streams are kept."""

import json
import socket
import time
from typing import Any

import httpx

from tests.integration.gateway import TIMEOUT_S, body, wait_until
from tests.processes import start_gateway, start_service
from tests.scripts import write_script


def test_nothing_is_buffered(http):
    with http.stream("POST", "/v1/responses", json=body("hangs-at-once", stream=True)) as response:
        assert b"response.created" in next(response.iter_raw())
    options = {"stream_interval": 1000, "stream_interval_ms": 10_000}
    with http.stream(
        "POST", "/v1/responses", json=body("hangs", stream=True, stream_options=options)
    ) as response:
        seen = b""
        for chunk in response.iter_raw():
            seen += chunk
            # The script hangs: what comes now has waited for nothing.
            if b"response.output_text.delta" in seen:
                break


def test_a_client_that_goes_away_stops_the_engine(tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--slots", "1")
    with (
        start_service(*flags, "--max-queued-requests", "0") as service,
        start_gateway(service.address) as gateway,
        httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as http,
    ):
        for stream in (True, False):
            for model in ("endless", "hangs"):
                leave_early(gateway.address, body(model, stream=stream))
                wait_until(lambda: http.post("/v1/responses", json=body()).status_code == 200)


def leave_early(address: str, document: dict[str, Any]) -> None:
    """Send a request on a bare socket, wait until it must be running, and close the connection."""
    host, _, port = address.rpartition(":")
    content = json.dumps(document).encode()
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as client:
        head = f"POST /v1/responses HTTP/1.1\r\nhost: {address}\r\ncontent-length: {len(content)}\r\n\r\n"
        client.sendall(head.encode() + content)
        if document["stream"]:
            assert client.recv(1)
        else:
            with httpx.Client(base_url=f"http://{address}", timeout=TIMEOUT_S) as http:
                wait_until(lambda: http.post("/v1/responses", json=body()).status_code == 429)


def test_a_silent_stream_is_kept_for_more_than_a_minute(http):
    began = time.monotonic()
    comments = 0
    with http.stream("POST", "/v1/responses", json=body("hangs", stream=True), timeout=30) as response:
        for line in response.iter_lines():
            comments += line.startswith(":")
            if comments == 4:
                break
    assert 59 < time.monotonic() - began < 75
