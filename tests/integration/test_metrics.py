"""`--metrics HOST:PORT`: what Prometheus reads."""

import re
import time
from collections.abc import Iterator

import grpc
import httpx
import pytest
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from tests.processes import Running, start_service
from tests.scripts import REASONING_AND_TEXT, token_count, write_script

TIMEOUT_S = 20


def metrics_url(running: Running) -> str:
    """Where it says that they are."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while not (found := re.search(r"metrics on port (\d+)", running.stderr())):
        assert time.monotonic() < give_up_at
    return f"http://127.0.0.1:{found[1]}/metrics"


def values_of(text: str) -> dict[str, float]:
    """What each line says, by its name and labels."""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def until_counted(url: str, name: str, count: float) -> dict[str, float]:
    """Ask until a value is there: what ends a call is counted just behind its last byte."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while (values := values_of(httpx.get(url, timeout=TIMEOUT_S).text)).get(name) != count:
        assert time.monotonic() < give_up_at, values
    return values


def test_calls_responses_tokens_and_flushes_are_counted(tmp_path):
    turns = {
        "m": {"harmony": REASONING_AND_TEXT, "chunks": 5},
        "fails": {"harmony": REASONING_AND_TEXT, "fail_after": 5},
        "hangs": {"harmony": REASONING_AND_TEXT, "hang_after": 5},
    }
    flags = ("--engine", "scripted", "--script", write_script(tmp_path, turns), "--metrics", "127.0.0.1:0")
    with start_service(*flags) as running, grpc.insecure_channel(running.address) as channel:
        stub = ResponsesServiceStub(channel)

        def stream(model: str) -> Iterator[ResponseStreamEvent]:
            return stub.StreamResponse(
                CreateResponseRequest(model=model, input=Input(text="Hi")), timeout=TIMEOUT_S
            )

        for model in ("m", "m", "m", "fails"):
            events = list(stream(model))
        usage = events[-1].failed.response.usage
        hanging = stream("hangs")
        # Created, in progress, and the first item, which comes with its third token.
        assert [next(hanging) for _ in range(3)][2].HasField("output_item_added")
        url = metrics_url(running)
        assert until_counted(url, "openresponses_responses_running", 1)
        hanging.cancel()
        with pytest.raises(grpc.RpcError):
            list(stream("nobody"))
        with pytest.raises(grpc.RpcError):
            channel.unary_unary("/no.Service/Method")(b"", timeout=TIMEOUT_S)
        values = until_counted(url, 'openresponses_responses_total{status="cancelled"}', 1)
        until_counted(url, "openresponses_responses_running", 0)
    method = "/openresponses.v1.ResponsesService/StreamResponse"
    calls = {
        (re.search(r'code="(\w+)"', name)[1], re.search(r'method="(.*?)"', name)[1]): value
        for name, value in values.items()
        if name.startswith("openresponses_calls_total")
    }
    assert calls == {
        ("OK", method): 4,
        ("NOT_FOUND", method): 1,
        ("UNIMPLEMENTED", ""): 1,
        ("CANCELLED", method): 1,
    }
    assert values['openresponses_responses_total{status="completed"}'] == 3
    assert values['openresponses_responses_total{status="failed"}'] == 1
    assert values['openresponses_responses_total{status="incomplete"}'] == 0
    # Three whole, one that failed behind its fifth token, and one that was left somewhere before that.
    whole = 3 * token_count(REASONING_AND_TEXT)
    assert whole + 5 + 3 <= values["openresponses_output_tokens_total"] <= whole + 5 + 5
    assert values["openresponses_input_tokens_total"] == 4 * usage.input_tokens > 0
    for name in ("first_token_seconds", "generation_seconds", "waiting_tokens_peak"):
        assert values[f"openresponses_{name}_count"] == 5
    assert (
        0 < values["openresponses_first_token_seconds_sum"] <= values["openresponses_generation_seconds_sum"]
    )
    assert values["openresponses_flushes_total"] >= 5
