"""Look-ups compared with those of an idle service, while another caller does what costs the server most.

``python -m tests.bench.isolation [NAME ...]``: 200 look-ups a second, each at its appointed time, whether or not those
before it were answered; what counts is the time from then to the reply. The load comes from this machine too.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import uvloop
from rich.table import Table

from tests.bench._applications import running_application
from tests.bench._load import latencies
from tests.bench.beside import KEY, TARGET, show
from tests.conftest import upload
from tests.support.servers import Server, running_server

RATE, SECONDS = 200.0, 4.0
ITEMS, CONNECTIONS = 1000, 8
UPLOAD_BYTES = 200_000_000
COLUMNS = 12
Work = Callable[[Path, str, Event], None]
"""Does something at an address again and again, until it is over."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"what to measure: {', '.join(WORKS)}")
    names = parser.parse_args().names or list(WORKS)
    table = Table(title=f"{RATE:.0f} look-ups a second", title_justify="left")
    for title in ("meanwhile", "median ms", "p99 ms", "max ms", "p99, times idle", "peak MB of the server"):
        table.add_column(title, justify="left" if title == "meanwhile" else "right")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        _, model = stack.enter_context(running_application("tests.bench._run_apps:model", folder))
        server = stack.enter_context(
            running_server(folder / "service", api_keys=f"{KEY}:build", endpoint_hosts="127.0.0.1", log_level="warning")
        )
        server.client.headers["authorization"] = f"Bearer {KEY}"
        upload(server)
        for name in ("fast", "middle", "strong"):
            endpoint = {"protocol": "openai-chat", "url": f"http://127.0.0.1:{model}/v1", "model": name}
            assert server.client.put(f"/v1/endpoints/{name}", json=endpoint).status_code == 201
        idle = 0.0
        for name in ("idle", *names):
            with _watching(server) as peak, _working(folder, server.url, WORKS.get(name, [])):
                delays = uvloop.run(latencies(server.port, TARGET, KEY, RATE, SECONDS))
            median, p99, most = (float(np.quantile(delays, q)) * 1e3 for q in (0.5, 0.99, 1.0))
            idle = idle or p99
            table.add_row(name, f"{median:.2f}", f"{p99:.2f}", f"{most:.1f}", f"{p99 / idle:.1f}", f"{peak[0]:.0f}")
    show(table)


class _watching:
    """Watch the memory of the server's process, in MB, until the block ends."""

    def __init__(self, server: Server) -> None:
        self._process, self._is_over = psutil.Process(server.process.pid), threading.Event()
        self._peak = [0.0]
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> list[float]:
        self._thread.start()
        return self._peak

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            self._peak[0] = max(self._peak[0], self._process.memory_info().rss / 1e6)


@contextmanager
def _working(folder: Path, url: str, works: list[Work]) -> Iterator[None]:
    """Have each work done in a process of its own, again and again, until the block ends."""
    context = get_context("spawn")
    is_over = context.Event()
    processes = [context.Process(target=work, args=(folder, url, is_over)) for work in works]
    for process in processes:
        process.start()
    time.sleep(2.0 if works else 0.0)
    try:
        yield
    finally:
        is_over.set()
        for process in processes:
            process.join()


def _client(url: str) -> httpx.Client:
    os.nice(19)  # callers have machines of their own
    headers = {"authorization": f"Bearer {KEY}"}
    return httpx.Client(base_url=url, headers=headers, timeout=300, trust_env=False)


def _runs(folder: Path, url: str, is_over: Event) -> None:
    """Run a thousand items a request, on one connection."""
    body: dict[str, Any] = {"items": [{"item": f"item {number}"} for number in range(ITEMS)], "timeout_s": 120}
    with _client(url) as client:
        while not is_over.is_set():
            client.post("/v1/cascades/trace/runs", json=body).raise_for_status()


def _pages(path: str, folder: Path, url: str, is_over: Event) -> None:
    with _client(url) as client:
        while not is_over.is_set():
            client.get(path).raise_for_status()


def _uploads(folder: Path, url: str, is_over: Event) -> None:
    """Upload a large table, again and again."""
    path = folder / "large.csv"
    spec = {
        "kind": "trace",
        "label": "y",
        "unit": "ms",
        "classifiers": [{"name": f"c{k}", "prediction": f"p{k}", "cost": {"column": f"m{k}"}} for k in range(COLUMNS)],
    }
    if not path.exists():
        head = ",".join(["y", *(f"p{k},m{k}" for k in range(COLUMNS))]) + "\n"
        row = ",".join(["cat", *(f"cat,{k}.25" for k in range(COLUMNS))]) + "\n"
        path.write_text(head + row * (UPLOAD_BYTES // len(row)))
    with _client(url) as client:
        while not is_over.is_set():
            with path.open("rb") as table:
                files: Any = {"spec": (None, json.dumps(spec)), "table": ("table.csv", table, "text/csv")}
                reply = client.put("/v1/datasets/large", files=files)
            assert reply.status_code in (200, 201), reply.text


WORKS: dict[str, list[Work]] = {
    "runs": [_runs] * CONNECTIONS,
    "openapi": [partial(_pages, "/openapi.json")] * 4,
    "metrics": [partial(_pages, "/metrics")] * 4,
    "upload": [_uploads],
}


if __name__ == "__main__":
    main()
