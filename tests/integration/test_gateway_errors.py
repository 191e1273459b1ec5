"""Errors through the gateway are OpenAI's: wrong bodies, models, routes, methods and paths."""

import pytest

from service.wire.stream_rules import check_stream
from tests.integration.gateway import assert_openai_error, body, events_of


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


@pytest.mark.parametrize(
    "path", ["/v1/responses/%ff", "/v1/models/%ff", "/v1/responses/resp_1/input_items?after=%ff"]
)
def test_paths_that_are_no_text(http, path):
    response = http.get(path)
    assert_openai_error(response, 400, "invalid_request_error")
