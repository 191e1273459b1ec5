"""What clients leave unread fills the gateway's memory: then requests are refused, and it is dropped."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from service.wire.stream_rules import check_stream
from tests.integration.gateway import TIMEOUT_S, assert_openai_error, body, events_of, wait_until
from tests.processes import start_gateway, start_service
from tests.scripts import write_script

MIB = 1024 * 1024
DOCUMENT_BYTES = 8 * MIB
RECOVERY_S = 60
"""For the shortest time that something unread is held, and more on a busy machine."""


def ask_and_read_nothing(address: str, path: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    client.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return client


def test_what_nobody_reads_goes_and_what_is_not_finished_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("MAX_HEAP_MIB", "200")
    script = write_script(tmp_path)
    with (
        start_service("--engine", "scripted", "--script", script, "--grace-s", "0") as service,
        start_gateway(service.address) as gateway,
        httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as http,
        ThreadPoolExecutor(1) as pool,
        ExitStack() as unread,
    ):
        items = [{"role": "user", "content": "a" * DOCUMENT_BYTES}]
        conversation = http.post("/v1/conversations", json={"items": items}).json()["id"]
        with http.stream("POST", "/v1/responses", json=body("hangs", stream=True)) as silent:
            chunks = silent.iter_text()
            text = next(chunks)
            reading = pool.submit(lambda: "".join(chunks))

            def is_full() -> bool:
                path = f"/v1/conversations/{conversation}/items"
                unread.enter_context(ask_and_read_nothing(gateway.address, path))
                return http.get("/v1/models").status_code == 503

            wait_until(is_full, RECOVERY_S)
            assert_openai_error(http.get("/v1/models"), 503, "server_unavailable")
            wait_until(lambda: http.get("/v1/models").status_code == 200, RECOVERY_S)
            # The silent stream is still there, and is told of its end.
            service.stop()
            text += reading.result(TIMEOUT_S)
        events = events_of(text)
        assert check_stream(events) == []
        assert events[-1]["type"] == "response.failed"


def test_how_much_it_may_hold_must_be_a_number(monkeypatch):
    monkeypatch.setenv("MAX_HEAP_MIB", "much")
    with pytest.raises(AssertionError, match="MAX_HEAP_MIB must be a number"), start_gateway("127.0.0.1:1"):
        pass
