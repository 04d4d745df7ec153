"""What recording costs: chats through a cascade with a recording beside chats through the same cascade without one.

Both are in one server process, and rounds alternate. What counts is the CPU time of the process for a chat, with that
of the thread that writes. Then rows are written to a recording in this process, as fast as it takes them, and counted.
"""

import argparse
import asyncio
import os
import resource
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console

from app.observability.metrics import Metrics
from app.recording.report import count_rows
from app.recording.row_lines import make_row_line
from app.recording.segments import compact_recording, measure_bytes
from app.recording.writer import GROUP_COMMIT_S, RecordingWriter
from app.store.recordings import StoredRecording
from models.recording import RecordingSpec
from tests.bench._applications import running_application
from tests.bench.run import Through, send_round
from tests.conftest import upload
from tests.support.servers import Server, running_server

CHATS, ROUNDS, DIMENSIONS, AT_ONCE = 400, 25, 384, 1_000
NAMES = ("recorded", "plain")


def main() -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench record", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="rows to write, with embeddings of 384 numbers")
    rows = parser.parse_args().rows
    _measure_chats()
    _measure_rows(rows)


def _measure_chats() -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        _, model = stack.enter_context(running_application("tests.bench._run_apps:model", folder))
        settings: dict[str, Any] = {"endpoint_hosts": "127.0.0.1", "log_level": "warning"}
        server = stack.enter_context(running_server(folder / "service", **settings))
        for name in NAMES:
            upload(server, name)
        for name in ("fast", "middle", "strong"):
            endpoint = {"protocol": "openai-chat", "url": f"http://127.0.0.1:{model}/v1", "model": name}
            assert server.client.put(f"/v1/endpoints/{name}", json=endpoint).status_code == 201
        recording = {"artifact": {"kind": "cascade", "name": "recorded"}, "keeps_items": True}
        assert server.client.put("/v1/recordings/recorded", json=recording).status_code == 201
        costs: dict[str, list[float]] = {name: [] for name in NAMES}
        for number in range(ROUNDS + 1):
            for name in NAMES if number % 2 else reversed(NAMES):
                cost = _measure_round(server, name)
                if number:  # the first one warms up
                    costs[name].append(cost)
        written = server.client.get("/v1/recordings/recorded").json()["rows"]
    ratios = [mine / other for mine, other in zip(costs["recorded"], costs["plain"], strict=True)]
    console = Console(width=120)
    console.print(
        f"CPU of a chat, {ROUNDS} rounds of {CHATS}: {_median(costs['plain'])} µs, {_median(costs['recorded'])} µs"
    )
    console.print(
        f"recorded / plain: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); {written} rows"
    )


def _measure_round(server: Server, name: str) -> float:
    """Return the CPU time of a chat in µs, with that of its group of rows."""
    process = psutil.Process(server.process.pid)
    through = Through(process, server.port, f"cascade/{name}", CHATS)
    before = process.cpu_times()
    asyncio.run(send_round(through, None))
    time.sleep(2 * GROUP_COMMIT_S)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / CHATS * 1e6


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.0f}"


def _measure_rows(count: int) -> None:
    spec = RecordingSpec.model_validate({"artifact": {"kind": "cascade", "name": "bench"}, "max_bytes": 2**40})
    stored = StoredRecording("bench", "bench", "2026-01-01T00:00:00.000Z", "USD", spec)
    call = {"classifier": "fast", "label": "cat", "confidence": 0.9, "cost": 1e-4, "seconds": 0.2, "propensity": 1.0}
    row = {"version": 1, "size": (), "explore": 0.0, "candidates": ("fast", "strong"), "calls": [call]}
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="parsimony-bench-") as folder:
        writer = RecordingWriter(Path(folder), Metrics())
        written = 0.0
        for start in range(0, count, AT_ONCE):
            about = [{**row, "id": f"item-{number}", "time": time.time()} for number in range(start, start + AT_ONCE)]
            vectors = rng.normal(size=(AT_ONCE, DIMENSIONS)).tolist()
            begun = time.perf_counter()
            lines = [make_row_line(one, spec, vector, None) for one, vector in zip(about, vectors, strict=True)]
            writer.append_lines(stored, "rows", lines).result()
            written += time.perf_counter() - begun
        writer.close()
        begun = time.perf_counter()
        compact_recording(writer.folder_of("bench"), 2**40, 1e9)
        converted = time.perf_counter() - begun
        size = measure_bytes(writer.folder_of("bench")) / count
        begun = time.perf_counter()
        counts = count_rows(writer.folder_of("bench"), None)
        read = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console = Console(width=120)
    console.print(
        f"{count / written:,.0f} rows/s written and synced, {size:.0f} bytes each as segments ({converted:.1f} s)"
    )
    console.print(f"{counts.rows:,} rows counted in {read:.1f} s; {peak:.0f} MiB at most")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
