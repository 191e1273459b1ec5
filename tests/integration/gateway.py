"""Requests to the gateway, its answers taken apart, and what holds of every error."""

import json
import socket
import time
from typing import Any

import httpx

TIMEOUT_S = 20


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


def wait_until(condition, deadline_s: float = TIMEOUT_S) -> None:
    """Ask again and again until it is so."""
    give_up_at = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < give_up_at, "it never came to be"
