"""Traffic whose world changes half-way: runs, feedback, and what the service makes of it."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from tests.support.model_process import ModelServer
from tests.support.patience import patient
from tests.support.samples import to_csv
from tests.support.servers import Server, wait_for
from tests.support.trained import COSTS, LEARN, TRACED, trace_table, trained

AT_ONCE, REPORTED = 8, 50
"""Runs at the same time, and outcomes of a report."""
HIDDEN = slice(24, 40)
"""Pixels that are hidden after the change: all that the cheapest classifier sees, and half of those of the next."""
NAME = "digits"


@dataclass
class Traffic:
    """Items in order, and what came of each.

    Attributes:
        items: (n, 64), images that no classifier and no dataset has seen.
        change_at: number of the first item after the change.
        correct, cost, version: (n,), of the answers.
    """

    items: NDArray[np.float64]
    truth: list[str]
    change_at: int
    correct: NDArray[np.bool_] = field(init=False)
    cost: NDArray[np.float64] = field(init=False)
    version: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.items)
        self.correct, self.cost = np.zeros(count, dtype=bool), np.zeros(count)
        self.version = np.zeros(count, dtype=np.int64)

    @classmethod
    def draw(cls, count: int, change_at: int, seed: int) -> "Traffic":
        """Draw images with noise; after the change, the middle rows of all of them are hidden."""
        rng, known = np.random.default_rng(seed), trained()
        rows = rng.integers(LEARN + TRACED, len(known.truth), count)
        items = known.images[rows] + rng.normal(0, 0.5, (count, 64))
        items[change_at:, HIDDEN] = rng.uniform(0, 16, items[change_at:, HIDDEN].shape)
        return cls(items.round(2), [known.truth[row] for row in rows], change_at)

    def attainable(self, start: int) -> list[tuple[float, float]]:
        """Return accuracy and cost from an item on of simple rules: each classifier alone."""
        known, rows = trained(), range(start, len(self.items))
        found = []
        for name, cost in COSTS.items():
            shares = [known.answer(name, self.items[row]) for row in rows]
            best = [max(one, key=lambda label, one=one: one[label]) for one in shares]  # type: ignore[misc]
            found.append((float(np.mean(np.array(best) == self.truth[start:])), cost))
        return found


def build_version(server: Server, dataset: str, *, is_wrong: bool = False) -> None:
    """Build a version that waits; a wrong one from a trace in which the cheapest classifier is always right."""
    spec, columns, _ = trace_table()
    if is_wrong:
        columns["few-pixels says"] = columns["truth"]
    files: dict[str, Any] = {"table": ("t.csv", to_csv(columns), "text/csv"), "spec": (None, json.dumps(spec))}
    server.client.put(f"/v1/datasets/{dataset}", files=files).raise_for_status()
    build = {"kind": "cascade", "name": NAME, "dataset": dataset, "params": {"target_precision": 0.9}}
    path = server.client.post("/v1/builds", json={**build, "activate": False}).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", 60)


def prepare(server: Server, models: ModelServer, *, adapts: bool, explore: float = 0.2) -> None:
    """Build a cascade, register the classifiers, and switch recording and all links of the automation on, if wanted.

    Args:
        explore: share of the items for which all classifiers are called; a rebuild learns from these.
    """
    build_version(server, NAME)
    for name, cost in COSTS.items():
        endpoint = models.json_endpoint(name, prices={"per_call": cost})
        server.client.put(f"/v1/endpoints/{name}", json=endpoint).raise_for_status()
    if not adapts:
        return
    artifact = {"kind": "cascade", "name": NAME}
    recording = {"artifact": artifact, "explore": explore, "explore_budget": 1e9}
    server.client.put("/v1/recordings/traffic", json=recording).raise_for_status()
    rollout = {"mode": "canary", "share": 0.5, "promote": {"max_accuracy_loss": 0.02}}
    automation = {"rebuild_on_drift": True, "recording": "traffic", "rollout": rollout}
    server.client.put(f"/v1/artifacts/cascade/{NAME}/automation", json=automation).raise_for_status()


async def send_traffic(server: Server, traffic: Traffic, first: str = "") -> None:
    """Run all items, and report the truth of each block of them.

    Args:
        first: begins the ids of the items.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    async with httpx.AsyncClient(base_url=server.url, timeout=patient(30), trust_env=False) as client:

        async def run(k: int) -> dict[str, Any]:
            async with turns:
                body = {"item": traffic.items[k].tolist(), "id": f"{first}{k}"}
                reply = await client.post(f"/v1/cascades/{NAME}/runs", json=body)
                reply.raise_for_status()
                return dict(reply.json())

        for block in _blocks(len(traffic.items)):
            replies = await asyncio.gather(*(run(k) for k in block))
            outcomes = []
            for k, reply in zip(block, replies, strict=True):
                traffic.correct[k] = reply["label"] == traffic.truth[k]
                traffic.cost[k], traffic.version[k] = reply["spent"]["cost"], reply["artifact"]["version"]
                outcomes.append(
                    {
                        "decision": reply["decision"],
                        "truth": traffic.truth[k],
                        "answer": reply["label"],
                        "item": f"{first}{k}",
                    }
                )
            reported = await client.post("/v1/feedback", json={"items": outcomes})
            reported.raise_for_status()


def _blocks(count: int) -> Iterator[range]:
    yield from (range(start, min(start + REPORTED, count)) for start in range(0, count, REPORTED))
