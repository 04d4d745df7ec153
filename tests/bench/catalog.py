"""How a server grows with the number of its artifacts: ``python -m tests.bench.catalog --artifacts 100 1000 10000``.

Small cascades, copies of a real one under other names, are published into an embedded store; then a server starts on
it. What is told: how long until all of them answer, the share of a core that the idle server takes (its worker and
store beside it), the memory of the server for each artifact, the first page of the list, the overview as a browser
opens it (and the requests that it sends, together), how long a publication takes to answer, and, once each artifact has
been asked, the metrics: how long they take, how large they are, and how long the slowest decision took meanwhile.
"""

import argparse
import re
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from app.processes.clock import now
from app.settings import Settings
from app.store import codec
from app.store.repositories import Repositories, open_repositories
from solvers.cascade import CascadePlan
from tests.support import stored
from tests.support.servers import Server, start_server, wait_for

IDLE_S = 20.0
LONGEST_START_S = 300.0
PUBLICATIONS = 5
TIMES = 5
_COLUMNS = {
    "artifacts": "",
    "ready": "ready s",
    "idle": "idle %",
    "beside": "beside %",
    "memory": "KiB each",
    "list": "list ms",
    "requests": "asked ms",
    "overview": "page s",
    "publish": "new s",
    "metrics": "metrics ms",
    "size": "KiB",
    "beside_metrics": "slowest ms",
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", type=int, nargs="+", default=[100, 1000, 10_000], help="how many there are")
    base, rows = _measured(0)["rss"], []
    for count in parser.parse_args().artifacts:
        figures = _measured(count)
        rows.append({**figures, "artifacts": count, "memory": (figures["rss"] - base) / 1024 / count})
    table = Table(title="a server with many small artifacts", title_justify="left")
    for title in _COLUMNS.values():
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*(_shown(row[name]) for name in _COLUMNS))
    console = Console()
    Console(width=None if console.is_terminal else 120).print(table)


def _shown(value: float) -> str:
    """Write a figure with three digits.

    >>> _shown(10_000), _shown(1234.5), _shown(0.12345)
    ('10,000', '1,234', '0.123')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _measured(count: int) -> dict[str, float]:
    """Publish so many, start a server on them, and measure it."""
    with (
        tempfile.TemporaryDirectory(prefix="parsimony-bench-") as folder,
        open_repositories(Settings(data_dir=Path(folder)), client_name="bench") as repos,
    ):
        kept = _a_real_one(repos)
        for number in range(count):
            repos.artifacts.publish(_copy(kept, f"plan-{number:05}"), created_at=now())
        started = time.monotonic()
        server = start_server(Path(folder), port=None)
        try:
            wait_for(lambda: _loaded(server) >= count, LONGEST_START_S, "the server does not become ready")
            return {"ready": time.monotonic() - started, **_figures(server, repos, kept, count)}
        finally:
            server.stop()


def _a_real_one(repos: Repositories) -> tuple[CascadePlan, dict[str, Any]]:
    """Build a cascade from the sample trace: its plan and its manifest."""
    stored.put_trace(repos)
    data = stored.built(repos, stored.request(params={"target_precision": 0.9}))
    manifest = {name: value for name, value in codec.read_manifest(data).items() if name not in ("kind", "format")}
    return codec.decode(data, CascadePlan), manifest


def _copy(kept: tuple[CascadePlan, dict[str, Any]], name: str, seed: int = 0) -> bytes:
    plan, manifest = kept
    return codec.encode(plan, {**manifest, "name": name, "seed": seed})


def _loaded(server: Server) -> int:
    with suppress(httpx.TransportError):
        ready = server.client.get("/health/ready")
        return int(ready.json()["artifacts"]) if ready.status_code == 200 else -1
    return -1


def _figures(
    server: Server, repos: Repositories, kept: tuple[CascadePlan, dict[str, Any]], count: int
) -> dict[str, float]:
    time.sleep(3.0)  # the worker beside it starts, and what starts once is done
    idle, of_others = _share_of_a_core(server, IDLE_S)
    rss = psutil.Process(server.process.pid).memory_info().rss
    overview, asked = _overview(server) if count else (0.0, [])
    return {
        "idle": 100 * idle,
        "beside": 100 * of_others,
        "rss": rss,
        "list": 1e3 * statistics.median(_seconds(server, "/v1/artifacts") for _ in range(TIMES)),
        "requests": 1e3 * statistics.median(sum(_seconds(server, path) for path in asked) for _ in range(TIMES)),
        "overview": overview,
        "publish": max(_until_it_answers(server, repos, kept, seed) for seed in range(PUBLICATIONS)),
        **_metrics(server, count),
    }


def _metrics(server: Server, count: int) -> dict[str, float]:
    """Ask each artifact once, then for the metrics, and for decisions all the while."""
    paths = [f"/v1/cascades/plan-{number:05}/decision" for number in range(count)] or ["/health/live"]
    for path in paths:
        server.client.get(path).raise_for_status()
    slowest = 0.0
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=server.url, timeout=60) as client:
        began = time.perf_counter()
        asked = pool.submit(lambda: (client.get("/metrics").content, time.perf_counter() - began))
        while not asked.done():
            slowest = max(slowest, _seconds(server, paths[0]))
        content, seconds = asked.result()
    return {"metrics": 1e3 * seconds, "size": len(content) / 1024, "beside_metrics": 1e3 * slowest}


def _share_of_a_core(server: Server, seconds: float) -> tuple[float, float]:
    """Tell which share of a core the server takes, and what runs beside it: the worker and the store."""
    store = [process for process in psutil.process_iter(["cmdline"]) if _serves(process, server.data_dir)]
    processes = [*server.tree(), *store]
    before = {process: sum(process.cpu_times()[:2]) for process in processes}
    time.sleep(seconds)
    taken = [sum(process.cpu_times()[:2]) - before[process] for process in processes]
    return taken[0] / seconds, sum(taken[1:]) / seconds


def _serves(process: psutil.Process, data_dir: Path) -> bool:
    """Whether a process is the embedded store of this folder; it may have ended meanwhile."""
    with suppress(psutil.Error):
        return process.cwd().startswith(str(data_dir))
    return False


def _seconds(server: Server, path: str) -> float:
    began = time.perf_counter()
    server.client.get(path).raise_for_status()
    return time.perf_counter() - began


def _overview(server: Server) -> tuple[float, list[str]]:
    """Open the overview in a browser: how long until artifacts are seen, and what it asked the service for."""
    from tests.e2e import visits

    if visits.CHROMIUM is None:
        return float("nan"), ["/", "/health/ready", "/v1/builds", "/v1/datasets", "/v1/artifacts"]
    times, asked = [], list[str]()
    with visits.browser() as running:
        for _ in range(3):
            asked.clear()
            with visits.visit(running, server.url) as visit:
                visit.page.on("request", lambda request: asked.append(request.url.removeprefix(server.url)))
                began = time.perf_counter()
                visit.page.goto("/", wait_until="commit")
                visit.page.locator("#artifacts td a").first.wait_for(timeout=60_000)
                times.append(time.perf_counter() - began)
    return statistics.median(times), [path for path in asked if re.match(r"/($|v1/|health/)", path)]


def _until_it_answers(
    server: Server, repos: Repositories, kept: tuple[CascadePlan, dict[str, Any]], seed: int
) -> float:
    record = repos.artifacts.publish(_copy(kept, "plan-new", seed), created_at=now())
    began, path = time.perf_counter(), "/v1/cascades/plan-new/decision"

    def answers() -> bool:
        reply = server.client.get(path)
        return reply.status_code == 200 and reply.json()["artifact"]["version"] == record.version

    wait_for(answers, 30)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
