"""Traffic whose world changes half-way: ``parsimony bench adapt``.

Real classifiers of handwritten digits answer over HTTP. From the middle of the traffic on, the pixels that the cheap
classifiers see are hidden. One server has recording, rebuild on drift, and a rollout with promotion;
the other one has none of them, and gets the same items. The picture shows accuracy and cost of both.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from tests.support.adaptation import NAME, Traffic, prepare, send_traffic
from tests.support.model_process import ModelServer, running_models
from tests.support.servers import Server, running_server

WINDOW, PARTS = 500, 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench adapt", description=__doc__)
    parser.add_argument("--items", type=int, default=20_000, help="number of items; the world changes half-way")
    parser.add_argument("--picture", type=Path, default=Path("adapt.png"), help="file of the picture")
    asked = parser.parse_args()
    sent = {}
    with running_models() as models:
        for name, adapts in (("everything on", True), ("everything off", False)):
            with tempfile.TemporaryDirectory(prefix="parsimony-bench-") as folder:
                settings: dict[str, Any] = {"endpoint_hosts": "127.0.0.1", "log_level": "warning"}
                with running_server(Path(folder), **settings) as server:
                    sent[name] = _send(server, models, asked.items, adapts=adapts)
    _print(sent)
    _draw(sent, asked.picture)


def _send(server: Server, models: ModelServer, items: int, *, adapts: bool) -> Traffic:
    prepare(server, models, adapts=adapts)
    traffic = Traffic.draw(items, items // 2, seed=0)
    asyncio.run(send_traffic(server, traffic))
    report = server.client.get(f"/v1/feedback/cascade/{NAME}?version=1").json()
    alarms = [one["detected"] - traffic.change_at for one in report["alarms"]]
    console = Console()
    console.print(f"alarms after the change, in outcomes: {alarms}")
    for rollout in server.client.get("/v1/rollouts").json()["items"]:
        for event in rollout["events"]:
            console.print(f"{event['at']} {event['event']}: {event['reason']}", soft_wrap=True)
    return traffic


def _print(sent: dict[str, Traffic]) -> None:
    first = next(iter(sent.values()))
    table = Table(title=f"{len(first.items):,} items, the world changes at {first.change_at:,}", title_justify="left")
    for title in ("items", *(f"{name}: {what}" for name in sent for what in ("accuracy", "cost"))):
        table.add_column(title, justify="right")
    for part in np.array_split(np.arange(len(first.items)), PARTS):
        figures = [
            text
            for one in sent.values()
            for text in (f"{one.correct[part].mean():.1%}", f"{one.cost[part].mean():.2f}")
        ]
        table.add_row(f"{part[0]:,}", *figures)
    console = Console()
    console.print(table)
    start = len(first.items) - len(first.items) // PARTS
    rules = "; ".join(f"{accuracy:.1%} at {cost:g}" for accuracy, cost in first.attainable(start))
    console.print(f"single classifiers on the last part: {rules}")


def _draw(sent: dict[str, Traffic], path: Path) -> None:
    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for name, traffic in sent.items():
        ends = np.arange(WINDOW, len(traffic.items) + 1, WINDOW // 5)
        for axes, values in ((above, traffic.correct), (below, traffic.cost)):
            axes.plot(ends, [values[end - WINDOW : end].mean() for end in ends], label=name)
    for axes, title in ((above, "accuracy"), (below, "cost per item (ms)")):
        axes.axvline(next(iter(sent.values())).change_at, color="0.6", linestyle="--")
        axes.set_ylabel(f"{title}, last {WINDOW}")
    above.legend(frameon=False)
    below.set_xlabel("items; the world changes at the dashed line")
    figure.savefig(path, dpi=150)
    Console().print(f"picture: {path}")


if __name__ == "__main__":
    main()
