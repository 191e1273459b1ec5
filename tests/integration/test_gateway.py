"""The gateway, a real Envoy in front of a real service: what goes over the wire, whatever the client."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from service.wire.stream_rules import check_stream
from tests.processes import Running, start_gateway, start_service
from tests.scripts import write_script

TIMEOUT_S = 20
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def http(gateway: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as client:
        yield client


def body(model: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"model": model, "input": "Hi", **fields}


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a whole SSE body; fails where its framing is off."""
    events = []
    *blocks, rest = text.split("\n\n")
    assert rest == ""
    for block in blocks:
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert data.startswith("data: ")
        events.append(event)
    return events


def assert_openai_error(response: httpx.Response, status: int, code: str, param: str | None = None) -> None:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]
    assert error["type"]
    assert_no_grpc_headers(response)


def assert_no_grpc_headers(response: httpx.Response) -> None:
    inner = ("grpc-", "x-envoy", "openai-error")
    assert [name for name in response.headers if name.startswith(inner)] == []


def raw(address: str, request: bytes) -> bytes:
    """All that the gateway answers until it closes the connection."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


# One document, or a stream.


def test_one_document(http):
    response = http.post("/v1/responses", json=body())
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["status"] == "completed"
    assert_no_grpc_headers(response)


def test_a_stream(http):
    response = http.post("/v1/responses", json=body(stream=True))
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert "\r" not in response.text
    assert check_stream(events_of(response.text)) == []
    assert_no_grpc_headers(response)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json; charset=utf-8"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"accept": "application/json"},
        {"accept": "text/event-stream"},
        {"expect": "100-continue"},
    ],
)
def test_the_body_alone_decides(http, headers):
    for stream in (False, True):
        content = json.dumps(body(stream=stream)).encode()
        response = http.post("/v1/responses", content=content, headers=headers)
        assert response.status_code == 200
        expected = "text/event-stream" if stream else "application/json"
        assert response.headers["content-type"] == expected


def test_chunked_uploads(http):
    text = json.dumps(body())
    response = http.post("/v1/responses", content=(character.encode() for character in text))
    assert response.status_code == 200


def test_http_2_without_tls(gateway):
    # Prior knowledge: what gRPC clients speak; here by the test's own client of the same library.
    with grpc.insecure_channel(gateway.address) as channel:
        request = CreateResponseRequest(model="hello", input=Input(text="Hi"))
        events = list(ResponsesServiceStub(channel).StreamResponse(request, timeout=TIMEOUT_S))
    assert events[-1].HasField("completed")


def test_grpc_errors_reach_grpc_clients_untouched(gateway):
    with grpc.insecure_channel(gateway.address) as channel, pytest.raises(grpc.RpcError) as caught:
        ResponsesServiceStub(channel).CreateResponse(CreateResponseRequest(model="nobody"), timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert "grpc-status-details-bin" in dict(caught.value.trailing_metadata())


def test_query_parameters_break_no_route(http):
    assert http.get("/v1/models?limit=3&include[]=a&include[]=b&x").status_code == 200
    assert http.post("/v1/responses?stream=maybe&beta=true", json=body()).status_code == 200
    assert http.get("/health?probe=1").status_code == 200


def test_models_and_health(http):
    assert "hello" in [model["id"] for model in http.get("/v1/models").json()["data"]]
    assert http.get("/v1/models/hello").json()["id"] == "hello"
    assert http.get("/health").json() == {"status": "ok"}


# Errors.


@pytest.mark.parametrize(
    ("content", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b"{", "invalid_json", None),
        (b"[]", "invalid_type", None),
        (b"\xff\xfe", "invalid_json", None),
        (b'{"model": 3, "input": "Hi"}', "invalid_type", "model"),
        (b'{"model": "hello", "input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}]}', "invalid_type", "input[0].content[0].text"),
        (b'{"model": "hello", "input": "Hi", "temperature": 9}', "invalid_value", "temperature"),
        (b'{"model": "hello"}', "invalid_value", "input"),
        (b'{"input": "Hi"}', "invalid_value", "model"),
    ],
)  # fmt: skip
def test_bad_bodies(http, content, code, param):
    assert_openai_error(http.post("/v1/responses", content=content), 400, code, param)


def test_errors_before_a_stream_are_documents_too(http):
    assert_openai_error(
        http.post("/v1/responses", json=body("nobody", stream=True)), 404, "model_not_found", "model"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"model": "字" * 5000},
        {
            "tools": [{"type": "function", "name": "f"}],
            "tool_choice": {"type": "function", "name": "字" * 5000},
        },
        {"input": [{"type": "字" * 5000}]},
        {"metadata": {"x" * 50_000: 5}},
        {"metadata": {"😀" * 5000: "x"}},
        {"reasoning": {"effort": "😀" * 5000}},
    ],
)
def test_errors_that_quote_long_texts_still_arrive(http, fields):
    response = http.post("/v1/responses", json={**body(), **fields})
    assert response.status_code in (400, 404)
    assert len(response.json()["error"]["message"]) <= 203


def test_unknown_model(http):
    assert_openai_error(http.post("/v1/responses", json=body("nöbody")), 404, "model_not_found", "model")
    assert_openai_error(http.get("/v1/models/no/body"), 404, "model_not_found", "model")


def test_an_engine_failure(http):
    assert_openai_error(http.post("/v1/responses", json=body("fails")), 500, "server_error")
    events = events_of(http.post("/v1/responses", json=body("fails", stream=True)).text)
    assert check_stream(events) == []
    assert events[-1]["type"] == "response.failed"


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/chat/completions", "/v1/responses/", "/openresponses.v1.X/Y"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_unknown_routes(http, method, path):
    assert_openai_error(http.request(method, path), 404, "unknown_url")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/responses", "POST"),
        ("PUT", "/v1/responses", "POST"),
        ("OPTIONS", "/v1/responses", "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/hello", "GET"),
        ("POST", "/health", "GET"),
    ],
)
def test_wrong_methods(http, method, path, allow):
    response = http.request(method, path)
    assert_openai_error(response, 405, "method_not_allowed")
    assert response.headers["allow"] == allow


def test_a_websocket_upgrade_is_refused_at_once(http):
    """With the status at which clients go on over HTTP; on no route does it reach the service."""
    for path in ("/v1/responses", "/v1/models", "/nowhere"):
        response = http.get(path, headers={"connection": "Upgrade", "upgrade": "WebSocket"})
        assert_openai_error(response, 426, "websocket_not_supported")


def test_large_bodies(http):
    fits = json.dumps(body()).encode() + b" " * 30 * MIB
    assert http.post("/v1/responses", content=fits).status_code == 200
    assert_openai_error(http.post("/v1/responses", content=fits + b" " * 3 * MIB), 413, "request_too_large")


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


@pytest.mark.parametrize(
    "path", ["/v1/responses/%ff", "/v1/models/%ff", "/v1/responses/resp_1/input_items?after=%ff"]
)
def test_paths_that_are_no_text(http, path):
    response = http.get(path)
    assert_openai_error(response, 400, "invalid_request_error")


@pytest.mark.parametrize(
    "header",
    [
        b"grpc-timeout: 0S",
        b"grpc-timeout: soon",
        b"grpc-encoding: gzip",
        b"x-foo-bin: !!!",
        b"x-foo: \xc3\xa9",
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_headers_of_grpc_mean_nothing_in_http(gateway, header, stream):
    content = json.dumps(body(stream=stream)).encode()
    head = b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\n%b\r\ncontent-length: %d\r\n\r\n"
    answer = raw(gateway.address, head % (header, len(content)) + content)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b'"status":"completed"' in answer


@pytest.mark.parametrize("stream", [False, True])
def test_http_1_0(gateway, stream):
    content = json.dumps(body(stream=stream)).encode()
    head = f"POST /v1/responses HTTP/1.0\r\ncontent-length: {len(content)}\r\n\r\n"
    head, _, answer = raw(gateway.address, head.encode() + content).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 ")
    if stream:
        assert check_stream(events_of(answer.decode())) == []
    else:
        assert json.loads(answer)["status"] == "completed"


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


# Headers.


def test_request_ids(http):
    assert http.get("/health").headers["x-request-id"]
    ours = http.get("/health", headers={"x-request-id": "from-the-client"})
    assert ours.headers["x-request-id"] == "from-the-client"
    failed = http.post("/v1/responses", content=b"{", headers={"x-request-id": "even-then"})
    assert failed.headers["x-request-id"] == "even-then"


def test_browsers_may_call(http):
    origin = {"origin": "https://app.example"}
    preflight = http.options(
        "/v1/responses",
        headers={
            **origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type,x-stainless-os",
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] in ("*", origin["origin"])
    assert "POST" in preflight.headers["access-control-allow-methods"]
    allowed = preflight.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "content-type", "x-stainless-os"} <= set(allowed)
    answer = http.post("/v1/responses", json=body(), headers=origin)
    assert answer.headers["access-control-allow-origin"] in ("*", origin["origin"])
    assert "x-request-id" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    # A page must be able to read errors, too.
    failed = http.post("/v1/responses", json=body("nobody"), headers=origin)
    assert failed.headers["access-control-allow-origin"] in ("*", origin["origin"])


# Time.


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


def wait_until(condition, deadline_s: float = TIMEOUT_S) -> None:
    """Ask again and again until it is so."""
    give_up_at = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < give_up_at, "it never came to be"


# Starting and stopping.


def test_what_it_cannot_start_with(gateway: Running, service: Running):
    run = str(Path(__file__).parents[2] / "gateway" / "run")
    taken = gateway.address.rpartition(":")[2]
    for arguments, named in [
        ([], "usage"),
        (["http", service.address], "HTTP_PORT"),
        (["0", "nonsense"], "HOST:PORT"),
        ([taken, service.address], "taken"),
    ]:
        done = subprocess.run(
            [run, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode != 0
        assert named in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_it_stops_cleanly(service: Running):
    with start_gateway(service.address) as running:
        assert running.stop() == 0
