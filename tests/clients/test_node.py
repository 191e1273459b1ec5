"""Node clients: openai-node, the strictest of OpenAI's SDKs, and a gRPC client that only has the .proto files."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from service.wire.stream_rules import check_stream
from tests.processes import ROOT

FOLDER = Path(__file__).parent / "node"


def run_node(script: str, *arguments: str) -> Any:
    node = shutil.which("node")
    assert node, "Node.js is needed for the JavaScript clients: install it"
    assert (FOLDER / "node_modules").exists(), "run `make setup-node`"
    done = subprocess.run(
        [node, FOLDER / script, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("model", ["hello", "hello-all", "calls"])
def test_openai_node_stream(base_url, model):
    seen = run_node("stream.mjs", base_url, json.dumps({"model": model, "input": "Hi"}))
    assert seen["events"][-1]["type"] == "response.completed"
    assert seen["final"]["status"] == "completed"
    if model != "calls":
        assert seen["output_text"] == "Hello, wörld! 👋 How are you?"


@pytest.mark.parametrize("through_the_gateway", [False, True])
def test_grpc_js_with_nothing_but_the_proto(service, gateway, through_the_gateway):
    address = gateway.address if through_the_gateway else service.address
    request = json.dumps({"model": "hello", "input": {"text": "Hi"}})
    events = run_node("grpc_stream.mjs", address, str(ROOT / "proto"), request)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert all(event[event["event"]] for event in events)
    assert events[-1]["type"] == "response.completed"
    text = "".join(
        event["output_text_delta"]["delta"] for event in events if event["event"] == "output_text_delta"
    )
    assert text == "Hello, wörld! 👋 How are you?"


def test_the_rules_hold_in_what_node_sees(base_url):
    seen = run_node("stream.mjs", base_url, json.dumps({"model": "hello", "input": "Hi"}))
    # openai-node adds its own running snapshot to text deltas.
    events = [{key: value for key, value in event.items() if key != "snapshot"} for event in seen["events"]]
    assert check_stream(events) == []
