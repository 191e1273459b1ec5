"""`buf curl` by reflection: no .proto, no generated code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BUF = Path(sys.executable).parent / "buf"
METHOD = "openresponses.v1.ResponsesService/StreamResponse"


@pytest.mark.parametrize("through_the_gateway", [False, True])
def test_stream_by_reflection(service, gateway, through_the_gateway, tmp_path):
    address = gateway.address if through_the_gateway else service.address
    done = subprocess.run(
        [BUF, "curl", "--protocol", "grpc", "--http2-prior-knowledge", "--reflect", f"http://{address}/{METHOD}",
         "-d", '{"model": "hello", "input": {"text": "Hi"}}'],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    decoder, events, rest = json.JSONDecoder(), [], done.stdout.strip()
    while rest:
        event, end = decoder.raw_decode(rest)
        events.append(event)
        rest = rest[end:].lstrip()
    assert events[0]["type"] == "response.created"
    assert events[-1]["completed"]["response"]["status"] == "RESPONSE_STATUS_COMPLETED"
