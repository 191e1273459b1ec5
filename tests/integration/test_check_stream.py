"""`python -m service.check_stream URL`, against our own server and against one that is wrong."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.processes import run_to_end


class WrongServer(BaseHTTPRequestHandler):
    """Answers as if this were another API."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'data: {"type": "response.output_text.delta", "delta": "Hi"}\n\ndata: [DONE]\n\n')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def wrong_server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), WrongServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_to_end(sys.executable, "-m", "service.check_stream", *arguments)


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/responses"])
def test_a_right_stream(gateway, path):
    done = check(f"http://{gateway.address}{path}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("events, no problems\n")


@pytest.mark.parametrize("model", ["calls", "fails", "hello-all"])
def test_other_streams(gateway, model):
    assert check(f"http://{gateway.address}/v1", "--model", model).returncode == 0


def test_a_request_of_ones_own(gateway, tmp_path):
    request = tmp_path / "request.json"
    request.write_text('{"model": "slow", "max_output_tokens": 5}')
    done = check(f"http://{gateway.address}/v1", "--request", str(request))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_stream(wrong_server):
    done = check(wrong_server, "--model", "m")
    assert done.returncode == 1
    for problem in ("content type", "[DONE]", "response.created is the first event", "terminal event"):
        assert problem in done.stdout


@pytest.mark.parametrize("arguments", [["http://127.0.0.1:9/v1"], ["nonsense"]])
def test_where_there_is_no_stream(arguments):
    done = check(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("There is no stream to check: ")
    assert "Traceback" not in done.stderr


def test_a_refusal_is_shown(gateway):
    done = check(f"http://{gateway.address}/v1", "--model", "nobody")
    assert done.returncode == 2
    assert "model_not_found" in done.stderr
