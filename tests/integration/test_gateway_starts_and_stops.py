"""The gateway starts, stops, and goes on while the service behind it goes down and comes up."""

import socket

import httpx
import pytest

from service.wire.stream_rules import check_stream
from tests.integration.gateway import TIMEOUT_S, assert_openai_error, body, events_of, wait_until
from tests.processes import Running, run_gateway, start_gateway, start_service
from tests.scripts import write_script


def test_a_service_that_is_down_and_comes_up(tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path))
    with start_service(*flags) as first:
        address = first.address
        with (
            start_gateway(address) as gateway,
            httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as http,
        ):
            assert http.get("/health").status_code == 200
            first.stop()
            for request in (
                http.build_request("GET", "/health"),
                http.build_request("POST", "/v1/responses", json=body()),
            ):
                response = http.send(request)
                assert_openai_error(response, 503, "server_unavailable")
                assert response.headers["retry-after"]
            with start_service(*flags, "--listen", address):
                wait_until(lambda: http.get("/health").status_code == 200)


def test_a_stopping_service_refuses_with_503_and_finishes_what_runs(tmp_path):
    with (
        start_service("--engine", "scripted", "--script", write_script(tmp_path)) as service,
        start_gateway(service.address) as gateway,
        httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as http,
    ):
        with http.stream("POST", "/v1/responses", json=body("slow", stream=True)) as running:
            chunks = running.iter_text()
            text = next(chunks)
            service.process.terminate()
            wait_until(lambda: http.get("/health").status_code == 503)
            assert_openai_error(http.post("/v1/responses", json=body()), 503, "server_unavailable")
            text += "".join(chunks)
        assert check_stream(events_of(text)) == []


def test_what_it_cannot_start_with(gateway: Running, service: Running):
    taken = gateway.address.rpartition(":")[2]
    for arguments, named in [
        ([], "usage"),
        (["http", service.address], "HTTP_PORT"),
        (["0", "nonsense"], "HOST:PORT"),
        ([taken, service.address], "taken"),
    ]:
        done = run_gateway(*arguments)
        assert done.returncode != 0
        assert named in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("localhost", "HTTP_HOST must be an IP address, not 'localhost'."),
        (
            "192.0.2.1",
            "cannot listen on port 0 of 192.0.2.1: Cannot assign requested address. See HTTP_HOST.",
        ),
    ],
)
def test_an_address_that_is_not_this_machines(monkeypatch, host, said):
    monkeypatch.setenv("HTTP_HOST", host)
    done = run_gateway("0", "127.0.0.1:1")
    assert (done.returncode, done.stderr) == (1, f"gateway/run: {said}\n")


def test_it_listens_on_ipv6(monkeypatch, service: Running):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    monkeypatch.setenv("HTTP_HOST", "::1")
    with start_gateway(service.address) as running:
        assert running.address.startswith("[::1]:")
        assert httpx.get(f"http://{running.address}/health").status_code == 200


def test_it_stops_cleanly(service: Running):
    with start_gateway(service.address) as running:
        assert running.stop() == 0
