"""The Codex CLI, not interactive, against a scripted turn that edits a file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.agent_scripts import SIZES

CODEX = Path(sys.executable).parent / "codex"


@pytest.mark.parametrize("size", SIZES)
def test_it_edits_a_file(base_url, service, tmp_path, size):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / "config.toml").write_text(
        f'model = "coder-{size}"\n'
        'model_provider = "openresponses"\n'
        "[model_providers.openresponses]\n"
        'name = "openresponses"\n'
        f'base_url = "{base_url}"\n'
        'wire_api = "responses"\n'
    )
    done = subprocess.run(
        # The sandbox wants more of the system than a container gives; the command is ours.
        [
            *(CODEX, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            *("-C", work, "Write note.txt"),
        ],
        env={**os.environ, "CODEX_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (work / "note.txt").read_text() == "hello from codex\n"
    assert "I wrote note.txt." in done.stdout
    # It sends a tool that only OpenAI hosts, whoever serves it.
    assert "tools left out, not offered here: web_search" in service.stderr()
