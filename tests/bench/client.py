"""What the Python client costs: runs of one's own functions compared with direct calls, and recorded calls.

Runs and direct calls alternate, in one process; the decision is held. Then calls are recorded, and sent to a server,
while the memory of this process is read. Times are CPU times of this process.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console

from parsimony import Parsimony
from tests.conftest import upload
from tests.support.servers import Server, running_server

ITEMS, ROUNDS = 2_000, 15
NAMES = ("fast", "middle", "strong")


def main() -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench client", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="calls to record")
    rows = parser.parse_args().rows
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="parsimony-bench-") as folder, running_server(Path(folder)) as server:
        upload(server)
        _measure_runs(server, console)
        _measure_recorder(server, Path(folder) / "spool", rows, console)


def _measure_runs(server: Server, console: Console) -> None:
    functions: dict[str, Callable[[object], tuple[str, float]]] = {name: lambda item: ("cat", 0.0) for name in NAMES}
    with Parsimony(server.url, hold_s=3600.0) as client:
        cascade = client.cascade("trace")
        steps = [step["classifier"] for step in cascade.decide()["steps"]]
        added = []
        for _ in range(ROUNDS + 1):
            through = _measure(lambda: cascade.run("x", functions))
            by_hand = _measure(lambda: [functions[name]("x") for name in steps])
            added.append((through - by_hand) / len(steps))
    low, middle, high = min(added[1:]), statistics.median(added[1:]), max(added[1:])
    console.print(f"run, {len(steps)} steps: {middle:.1f} µs per step ({low:.1f} to {high:.1f}) more than direct calls")


def _measure(act: Callable[[], object]) -> float:
    """Return the CPU time of one action, in µs."""
    started = time.process_time()
    for _ in range(ITEMS):
        act()
    return (time.process_time() - started) / ITEMS * 1e6


def _measure_recorder(server: Server, folder: Path, rows: int, console: Console) -> None:
    process = psutil.Process()
    before = peak = process.memory_info().rss
    with Parsimony(server.url) as client:
        classifiers = {"fast": lambda item: ("cat", 0.9)}
        started, cpu = time.perf_counter(), time.process_time()
        with client.record("bench", classifiers, costs={"fast": 1.0}, unit="USD", folder=folder) as recorder:
            for at in range(rows):
                recorder.call("fast", at)
                if at % 1000 == 0:
                    peak = max(peak, process.memory_info().rss)
            called = time.perf_counter() - started
            recorder.flush()
        took = time.perf_counter() - started
        cpu, written = time.process_time() - cpu, client.call("GET", "/v1/recordings/bench")["rows"]
    peak = max(peak, process.memory_info().rss)
    console.print(
        f"recorder: {written:,} of {rows:,} rows in {took:.1f} s, {called / rows * 1e6:.0f} µs a call, "
        f"{cpu / rows * 1e6:.0f} µs of CPU with sending, {(peak - before) / 2**20:.0f} MB more memory"
    )


if __name__ == "__main__":
    main()
