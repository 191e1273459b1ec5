"""Header fields through the gateway: gRPC's mean nothing, requests have ids, and browsers may call."""

import json

import pytest

from tests.integration.gateway import body, raw


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
