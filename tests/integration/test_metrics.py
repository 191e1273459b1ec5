"""`--metrics HOST:PORT`: what Prometheus reads."""

import re
import time

import grpc
import httpx
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


def test_responses_tokens_and_flushes_are_counted(tmp_path):
    script = write_script(tmp_path, {"m": {"harmony": REASONING_AND_TEXT, "chunks": 5}})
    flags = ("--engine", "scripted", "--script", script, "--metrics", "127.0.0.1:0")
    with start_service(*flags) as running, grpc.insecure_channel(running.address) as channel:
        request = CreateResponseRequest(model="m", input=Input(text="Hi"))
        for _ in range(3):
            list(ResponsesServiceStub(channel).StreamResponse(request, timeout=TIMEOUT_S))
        text = httpx.get(metrics_url(running), timeout=TIMEOUT_S).text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["openresponses_responses_total"]) == 3
    assert float(values["openresponses_output_tokens_total"]) == 3 * token_count(REASONING_AND_TEXT)
    assert float(values["openresponses_flushes_total"]) >= 3
    assert float(values["openresponses_waiting_tokens_peak_count"]) == 3
