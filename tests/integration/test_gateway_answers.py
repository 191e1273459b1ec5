"""The gateway, a real Envoy, answers with one document or a stream, whatever the client speaks."""

import json

import grpc
import pytest
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from service.wire.stream_rules import check_stream
from tests.integration.gateway import TIMEOUT_S, assert_no_grpc_headers, body, events_of, raw


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
