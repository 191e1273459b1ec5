"""`make run`: service and gateway together, from the printed curl line to Ctrl-C."""

import os
import re
import signal
import subprocess
from pathlib import Path

import httpx

from tests.processes import ROOT, STOP_TIMEOUT_S
from tests.scripts import write_script

START_TIMEOUT_S = 60


def run_all(folder: Path, **settings: str) -> subprocess.Popen[str]:
    kept = {"OPENRESPONSES_DATABASE": f"sqlite:///{folder}/responses.db"}
    return subprocess.Popen(
        [ROOT / "gateway" / "run-all"],
        env={**os.environ, "HTTP_PORT": "0", "GRPC_PORT": "0", **kept, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def printed(process: subprocess.Popen[str]) -> str:
    """What it prints, up to the line that says how to stop it."""
    assert process.stdout is not None
    text = ""
    for line in process.stdout:
        text += line
        if line.startswith("Ctrl-C"):
            return text
    raise AssertionError(process.communicate())


def test_the_printed_line_works_and_ctrl_c_stops_both(tmp_path: Path) -> None:
    process = run_all(tmp_path, ENGINE="scripted", SCRIPT=str(write_script(tmp_path)))
    text = printed(process)
    command = re.search(r"(curl .*\n.*)\n", text)
    assert command is not None
    answer = subprocess.run(command[1], shell=True, capture_output=True, text=True, timeout=START_TIMEOUT_S)
    assert "event: response.completed" in answer.stdout
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=STOP_TIMEOUT_S)
    assert (process.returncode, out, "Traceback" in err) == (130, "", False)
    url = re.search(r"http://\S+?:\d+", text)
    assert url is not None
    try:
        httpx.get(url[0])
    except httpx.ConnectError:
        return
    raise AssertionError("the gateway still listens")


def test_what_cannot_start_says_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process = run_all(tmp_path, ENGINE="scripted", SCRIPT="no-such-file.json")
    _, err = process.communicate(timeout=START_TIMEOUT_S)
    assert process.returncode == 1
    assert "no-such-file.json" in err
    assert "The service did not start" in err
