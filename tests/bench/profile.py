"""A flame graph of the server under load: `make profile`. N=4, 64 streams, typed gRPC."""

import subprocess
import sys
from pathlib import Path

from tests.bench.workload import FOLDER, load, processes

SECONDS = 10


def main() -> None:
    """Record while loads run one after another."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    graph = FOLDER / "profile.svg"
    py_spy = Path(sys.executable).with_name("py-spy")
    with processes(4) as (service, _, _):
        pid = str(service.process.pid)
        command = [py_spy, "record", "-d", str(SECONDS), "-r", "200", "-o", graph, "-p", pid]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as recorder:
            while recorder.poll() is None:
                load("grpc", service.address, "bench", 64)
    print(graph)


if __name__ == "__main__":
    main()
