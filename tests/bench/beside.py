"""Look-ups beside heavy work: ``python -m tests.bench.beside``.

Look-ups come at half the rate that the server can answer, each at its appointed time, whether or not those before it
were answered; what counts is the time from then to the reply. First alone; then while portfolio batches of 10,000
queries follow each other; then while builds do; then both. With ``--workers`` the most look-ups a second that 1 and 2
server processes answer. The load comes from this machine too, and the cores are shared with it.
"""

import argparse
import io
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

from tests.bench._load import capacity, latencies
from tests.conftest import upload
from tests.support.samples import embedded_upload, to_csv
from tests.support.servers import Server, running_server, wait_for

QUERIES = 10_000
ROUNDS = 5
SECONDS = 4.0
KEY = "bench-key"
SHARE = 0.5
TARGET = "/v1/cascades/trace/decision?deadline=13"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", action="store_true", help="how look-ups scale with server processes")
    if parser.parse_args().workers:
        _print_scaling()
    else:
        _print_beside()


@contextmanager
def _server(workers: int = 1) -> Iterator[Server]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="parsimony-bench-")))
        server = stack.enter_context(running_server(folder, api_keys=f"{KEY}:build", workers=workers))
        server.client.headers["authorization"] = f"Bearer {KEY}"
        upload(server)
        yield server


def _print_beside() -> None:
    with _server() as server:
        _prepare(server)
        time.sleep(8)  # the server compiles the portfolio's kernels when it loads it
        most = uvloop.run(capacity(server.port, TARGET, KEY, SECONDS / 2))
        works: dict[str, list[Callable[[Server, threading.Event], None]]] = {
            "alone": [],
            "beside batches": [_batches],
            "beside builds": [_builds],
            "beside both": [_batches, _builds],
        }
        rounds: dict[str, list[dict[float, float]]] = {name: [] for name in works}
        for _ in range(ROUNDS):
            for name, background in works.items():
                with _working(server, background):
                    delays = uvloop.run(latencies(server.port, TARGET, KEY, SHARE * most, SECONDS))
                rounds[name].append({q: float(np.quantile(delays, q)) * 1e3 for q in (0.5, 0.99, 0.999)})
    table = Table(title=f"look-ups at {SHARE * most:,.0f} a second, {SHARE:.0%} of what it can", title_justify="left")
    for name in ("", "median ms", "p99 ms", "spread", "p99.9 ms", "p99, times alone", "spread"):
        table.add_column(name, justify="left" if not name else "right")
    for name, quantiles in rounds.items():
        p99 = [each[0.99] for each in quantiles]
        times = [mine[0.99] / alone[0.99] for mine, alone in zip(quantiles, rounds["alone"], strict=True)]
        table.add_row(
            name,
            f"{statistics.median(each[0.5] for each in quantiles):.2f}",
            f"{statistics.median(p99):.2f}",
            f"{min(p99):.2f}-{max(p99):.2f}",
            f"{statistics.median(each[0.999] for each in quantiles):.2f}",
            f"{statistics.median(times):.1f}",
            f"{min(times):.1f}-{max(times):.1f}",
        )
    show(table)


def _print_scaling() -> None:
    table = Table(title="look-ups a second, the load from the same two cores", title_justify="left")
    for name in ("server processes", "median", "spread"):
        table.add_column(name, justify="right")
    for workers in (1, 2):
        with _server(workers) as server:
            rates = [uvloop.run(capacity(server.port, TARGET, KEY, SECONDS / 2)) for _ in range(ROUNDS)]
        table.add_row(str(workers), f"{statistics.median(rates):,.0f}", f"{min(rates):,.0f}-{max(rates):,.0f}")
    show(table)


def show(table: Table) -> None:
    console = Console()
    Console(width=None if console.is_terminal else 80).print(table)


def _prepare(server: Server) -> None:
    """Make a portfolio to assign with, and a table to build from."""
    assert server.client.put("/v1/datasets/embedded", files=embedded_upload(4000)).status_code == 201
    _build(server, "portfolio", "embedded", {"curve_points": 3, "samples": {"count": 40, "size": 500}})
    digits = load_digits()
    columns = {f"p{i}": digits.data[:, i].tolist() for i in range(64)} | {"label": digits.target.tolist()}
    features = [{"name": f"f{i}", "columns": [f"p{8 * i + j}" for j in range(8)], "cost": i + 1.0} for i in range(8)]
    spec = {"kind": "features", "label": "label", "unit": "ms", "features": features}
    files: dict[str, Any] = {"spec": (None, json.dumps(spec)), "table": ("table.csv", to_csv(columns), "text/csv")}
    assert server.client.put("/v1/datasets/features", files=files).status_code == 201


def _build(server: Server, solver: str, dataset: str, params: dict[str, object], seed: int = 0) -> str:
    body = {"solver": solver, "name": dataset, "dataset": dataset, "params": params, "seed": seed}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 300)
    status: str = server.client.get(path).json()["status"]
    return status


@contextmanager
def _working(server: Server, works: list[Callable[[Server, threading.Event], None]]) -> Iterator[None]:
    """Have work done beside, over and over, until the block ends."""
    over = threading.Event()
    threads = [threading.Thread(target=work, args=(server, over)) for work in works]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _batches(server: Server, over: threading.Event) -> None:
    rng, out = np.random.default_rng(0), io.BytesIO()
    np.save(out, rng.random((QUERIES, 2), dtype=np.float32))
    headers = {"content-type": "application/x-npy", "authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as client:
        while not over.is_set():
            path = "/v1/portfolios/embedded/assignments?fraction=0.5"
            client.post(path, content=out.getvalue()).raise_for_status()


def _builds(server: Server, over: threading.Event) -> None:
    """Train forests, some seconds a build; each with its own seed, so that nothing is remembered."""
    headers = {"authorization": f"Bearer {KEY}"}
    params = {"learner": "sklearn.ensemble.RandomForestClassifier", "learner_params": {"n_estimators": 300}}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60, trust_env=False) as client:
        seed = time.time_ns() % 10**9
        body = {"solver": "index", "name": "features", "dataset": "features", "params": params, "seed": seed}
        path = client.post("/v1/builds", json=body).headers["location"]
        over.wait()
        client.delete(path)


if __name__ == "__main__":
    main()
