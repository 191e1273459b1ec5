"""Real processes for tests: the service and the gateway, on free ports, found by their ready lines."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai

ROOT = Path(__file__).parents[1]
GATEWAY = str(ROOT / "gateway" / "run")
STOP_TIMEOUT_S = 20
END_TIMEOUT_S = 60


class Running:
    """A started process.

    Attributes:
        address: HOST:PORT that it listens on.
        process: the process itself.
    """

    def __init__(self, process: subprocess.Popen[str], address: str, errors: Path) -> None:
        self.process = process
        self.address = address
        self._errors = errors

    def stderr(self) -> str:
        """What it has written to standard error so far."""
        return self._errors.read_text()

    def stop(self) -> int:
        """Ask it to stop, and return its exit status."""
        self.process.terminate()
        return self.process.wait(STOP_TIMEOUT_S)


@contextmanager
def start_service(*flags: str | Path) -> Iterator[Running]:
    """Run the service on a free port, with a database of its own unless the flags name one."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "service", "--listen", "127.0.0.1:0"]
        command += ["--database", f"sqlite:///{folder}/responses.db", *map(str, flags)]
        with _started(command, "ready grpc=") as running:
            yield running


def run_service(*flags: str) -> subprocess.CompletedProcess[str]:
    """Run the service with flags that it cannot start with, to its end."""
    return run_to_end(sys.executable, "-m", "service", *flags)


def run_gateway(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the gateway with arguments that it cannot start with, to its end."""
    return run_to_end(GATEWAY, *arguments)


def run_to_end(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return its exit status and what it printed."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False, cwd=ROOT
    )


@contextmanager
def start_gateway(*grpc_addresses: str) -> Iterator[Running]:
    """Run the gateway on a free port, in front of a service, or of several."""
    with _started([GATEWAY, "0", *grpc_addresses], "ready http=") as running:
        yield running


def client_of(gateway: Running, key: str = "alice") -> openai.OpenAI:
    """An OpenAI client that tries everything once."""
    return openai.OpenAI(base_url=f"http://{gateway.address}/v1", api_key=key, max_retries=0, timeout=30)


@contextmanager
def _started(command: list[str], ready: str) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "stderr"
        with (
            errors.open("w") as stderr,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=ROOT, env=os.environ
            ) as process,
        ):
            try:
                line = process.stdout.readline() if process.stdout else ""
                assert line.startswith(ready), (
                    f"{command} printed {line!r}, and on stderr:\n{errors.read_text()}"
                )
                yield Running(process, line.removeprefix(ready).strip(), errors)
            except BaseException:
                sys.stderr.write(errors.read_text())
                raise
            finally:
                process.terminate()
                try:
                    process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
