"""The README keeps its word: every client line runs, the settings are the settings, the links lead somewhere."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from service.config import Settings
from service.engine.tensorrt_settings import TensorRTSettings
from tests.processes import ROOT, Running

README = (ROOT / "README.md").read_text()
CLIENT_LINES = re.findall(r"^\| ([\w., ]+) \| `(.+)` \|$", README.partition("## Clients")[2], re.MULTILINE)


def run(line: str, service: Running, gateway: Running) -> str:
    line = line.replace("127.0.0.1:8080", gateway.address).replace("127.0.0.1:50051", service.address)
    done = subprocess.run(
        line, shell=True, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("line", [pytest.param(line, id=client) for client, line in CLIENT_LINES])
def test_client_line(line, service, gateway):
    out = run(line, service, gateway)
    assert "How are you?" in out or "response.completed" in out


def test_there_are_lines():
    assert len(CLIENT_LINES) >= 6


def test_the_transcripts_curl(service, gateway):
    command = re.search(r"\$ (curl -N .*\n.*)\n", README)
    assert command is not None
    out = run(command[1], service, gateway)
    for event in re.findall(r"^    event: (\S+)$", README, re.MULTILINE):
        assert f"event: {event}\n" in out


def test_settings():
    fields = {
        **{name: field for name, field in Settings.model_fields.items() if name != "trt"},
        **{f"trt.{name}": field for name, field in TensorRTSettings.model_fields.items()},
    }
    rows = re.findall(r"^\| `--([\w.-]+)` \| (?:`(.+?)`)? ?\| (.+) \|$", README, re.MULTILINE)
    assert [name for name, _, _ in rows] == [name.replace("_", "-") for name in fields]
    for (_, default, meaning), field in zip(rows, fields.values(), strict=True):
        shown = (
            ""
            if field.default is None
            else f"{field.default:g}"
            if isinstance(field.default, float)
            else field.default
        )
        assert default == str(shown)
        assert field.description is not None
        assert meaning.startswith(field.description.rstrip(".")[:40])


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]+)\)", README))))
def test_links(link):
    assert Path(ROOT / link).exists()
