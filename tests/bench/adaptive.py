"""`--stream-interval auto` under light and heavy load, beside fixed intervals: `python -m tests.bench.adaptive`.

The engine gives every stream 4 tokens each 20 ms. A few streams are no load: auto then streams as finely as the
smallest interval. With hundreds, the smallest interval keeps the loop busy all the time and every event comes
late; auto makes its flushes larger and stays on time.
"""

import statistics

from tests.bench.cpu import cpu_seconds
from tests.bench.workload import PACE_MS, TOKENS, load, processes

CHUNK = 4
LOADS = (8, 400)


def measure(flags: list[str], streams: int) -> str:
    """One row: CPU of the server, how long responses took over what they should, events a response."""
    with processes(CHUNK, "--max-waiting-tokens", "8192", *flags) as (service, _, _):
        before = cpu_seconds(service.process.pid)
        found = load("grpc", service.address, "paced", streams)
        spent = cpu_seconds(service.process.pid) - before
    planned_s = TOKENS / CHUNK * PACE_MS / 1000
    ends = [times[-1] - times[0] - planned_s for times in found["times_s"]]
    return (
        f"{spent / found['seconds'] * 100:5.0f} % {statistics.median(ends) * 1000:9.0f} ms "
        f"{found['events'] / streams:8.0f}"
    )


def main() -> None:
    """Print the table."""
    print("streams  interval      CPU       late   events a response")
    for streams in LOADS:
        for interval in ("4", "64", "auto"):
            row = measure(["--stream-interval", interval, "--auto-min-interval", "4"], streams)
            print(f"{streams:7}  {interval:8} {row}", flush=True)


if __name__ == "__main__":
    main()
