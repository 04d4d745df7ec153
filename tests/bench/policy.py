"""How good policies are, and how fast they are built: ``python -m tests.bench.policy``.

1. ``--traces``: the six FrugalML traces at four budgets, five random halves each, beside FrugalML's own accuracies,
   with what was really spent. ``--seeds`` and ``--names`` take a part of them.
2. ``--consistency``: a made-up problem whose best possible loss is known, learned from more and more rows
   (Acquisition DAG, Theorem 2.2).
3. ``--steps``: the time of a build and of single steps.

Without a flag all three.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from models import FeaturesSpec, FeatureTable, Trace, TraceSpec, dataset_from_columns
from models.policy import PolicyOptions, PolicyQuery, PolicyTarget
from solvers import Run
from solvers.policy import PolicyPlan, fit
from tests.bench.cascade import shown, table, timed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SEEDS = (1, 5, 10, 50, 100)
SHARES = (0.3, 0.5, 0.8, 1.0)
"""Budgets, as shares of the dearest service's price."""
FRUGALML = {
    "rafdb": (0.7202, 0.7409, 0.7676, 0.7772),
    "ferplus": (0.8348, 0.8389, 0.8386, 0.8386),
    "yelp": (0.9386, 0.9549, 0.9610, 0.9610),
    "imdb": (0.8260, 0.8591, 0.8724, 0.8724),
    "digit": (0.7877, 0.8274, 0.8340, 0.8352),
    "command": (0.9433, 0.9479, 0.9483, 0.9478),
}
"""Its test accuracies at these budgets, the mean over the seeds."""
ROWS, DRAWS = (300, 1_000, 3_000, 10_000), 4
SENSORS, PRICES = 3, (0.02, 0.03, 0.05)


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """What a plan reached on the test half at each budget: accuracy from 0 to 1, spend as a share of the budget."""

    accuracies: Floats
    spends: Floats
    seconds: float


def load(name: str, rows: Ints | slice = slice(None)) -> Trace:
    """Read some rows of a trace."""
    held = np.load(SHARED / f"frugalml_{name}.npz", allow_pickle=False)
    names = [api["name"] for api in json.loads((SHARED / f"frugalml_{name}.json").read_text())["apis"]]
    columns: dict[str, NDArray[Any]] = {"truth": held["true_label"][rows].astype(np.int64)}
    for j in range(len(names)):
        columns[f"says {j}"] = held["pred"][rows, j].astype(np.int64)
        columns[f"sure {j}"] = held["confidence"][rows, j].astype(np.float64)
    classifiers = [
        {"name": each, "cost": cost, "prediction": f"says {j}", "confidence": f"sure {j}"}
        for j, (each, cost) in enumerate(zip(names, held["cost_per_10k"].tolist(), strict=True))
    ]
    spec = {"kind": "trace", "label": "truth", "unit": "USD for 10,000", "classifiers": classifiers}
    found = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    assert isinstance(found, Trace)
    return found


def halves(name: str, seed: int) -> tuple[Trace, Trace]:
    """Cut a trace at random: one half to learn from, one to test on."""
    n = len(np.load(SHARED / f"frugalml_{name}.npz", allow_pickle=False)["true_label"])
    order = np.random.RandomState(seed).permutation(n)  # what FrugalML's figures are of
    return load(name, order[: n // 2]), load(name, order[n // 2 :])


def built(dataset: Trace | FeatureTable, seed: int, **options: Any) -> tuple[float, PolicyPlan]:
    """Build on all processors: seconds, and the plan."""
    with joblib.parallel_config(backend="loky", n_jobs=-1, max_nbytes=None):
        return timed(lambda: fit(dataset, PolicyOptions(**options), np.random.default_rng(seed), Run()).plan)


def test_on(plan: PolicyPlan, test: Trace, seconds: float) -> Reached:
    """Run the test half under each budget, every item with an id of its own."""
    cells, items = plan.cells_of(test), [str(row) for row in range(test.rows)]
    truth = np.array(test.classes)[test.labels]
    dearest, accuracies, spends = float(plan.costs.max()), [], []
    for share in SHARES:
        ran = plan.run(cells, items, PolicyTarget(budget=share * dearest))
        accuracies.append(float((np.array(plan.classes)[ran.labels] == truth).mean()))
        spends.append(float(ran.costs.mean()) / (share * dearest))
    return Reached(np.array(accuracies), np.array(spends), seconds)


def measure_traces(names: Sequence[str], seeds: Sequence[int]) -> Iterator[Table | str]:
    """Print accuracies, what they are above FrugalML's, and the share of the budget spent."""
    made = table(
        f"Test accuracy at shares of the dearest price, mean of {len(seeds)} seeds (points above FrugalML; spent)",
        "trace", *(f"{share:.0%}" for share in SHARES), "build",
    )  # fmt: skip
    above: list[float] = []
    for name in names:
        found = []
        for seed in seeds:
            train, test = halves(name, seed)
            seconds, plan = built(train, seed)
            found.append(test_on(plan, test, seconds))
        accuracies = np.mean([each.accuracies for each in found], axis=0)
        spends = np.mean([each.spends for each in found], axis=0)
        gains = 100 * (accuracies - FRUGALML[name])
        above += gains.tolist()
        cells = [f"{a:.4f}\n{g:+.2f}; {s:.3f}" for a, g, s in zip(accuracies, gains, spends, strict=True)]
        made.add_row(name, *cells, shown(float(np.mean([each.seconds for each in found]))))
    yield made
    yield f"At least FrugalML in {sum(g >= 0 for g in above)} of {len(above)} cells; {np.mean(above):+.2f} on average"


def known_problem(rows: int, seed: int) -> tuple[FeatureTable, Floats]:
    """Draw a problem of three sensors of three values each whose labels' chances are known: (27,) of class 1, by the
    three values."""
    chances = np.random.default_rng(99).choice([0.03, 0.2, 0.5, 0.8, 0.97], 27)
    rng = np.random.default_rng(seed)
    values = rng.integers(3, size=(rows, SENSORS))
    label = rng.random(rows) < chances[values @ (9, 3, 1)]
    spec = {
        "kind": "features", "label": "y", "unit": "ms",
        "features": [
            {"name": f"s{m}", "columns": [f"s{m} is {v}" for v in (1, 2)], "cost": PRICES[m]} for m in range(SENSORS)
        ],
    }  # fmt: skip
    columns = {f"s{m} is {v}": (values[:, m] == v).astype(np.float64) for m in range(SENSORS) for v in (1, 2)}
    found = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, "y": label.astype(np.int64)})
    assert isinstance(found, FeatureTable)
    return found, chances


def bayes_loss(chances: Floats) -> float:
    """Find the least errors plus cost, λ = 1, of any rule: by dynamic programming over what can be known."""
    cube = chances.reshape(3, 3, 3)

    def best(known: tuple[int | None, ...]) -> float:
        chance = float(cube[tuple(slice(None) if v is None else slice(v, v + 1) for v in known)].mean())
        found = min(chance, 1 - chance)
        for m in (m for m in range(SENSORS) if known[m] is None):
            after = [best((*known[:m], v, *known[m + 1 :])) for v in range(3)]
            found = min(found, PRICES[m] + float(np.mean(after)))
        return found

    return best((None,) * SENSORS)


def measure_consistency() -> Iterator[Table | str]:
    """Show the gap to the best possible loss shrink as rows are added (Theorem 2.2)."""
    test, chances = known_problem(200_000, 12_345)
    least = bayes_loss(chances)
    learners = ("regression", "filter_tree")
    made = table(
        f"Loss above the best possible ({least:.4f}), in thousandths, mean of {DRAWS} draws", "rows", *learners
    )
    for rows in ROWS:
        gaps = [
            [_loss(learner, known_problem(rows, seed)[0], test) - least for seed in range(DRAWS)]
            for learner in learners
        ]
        made.add_row(f"{rows:,}", *(f"{1e3 * np.mean(each):.1f}" for each in gaps))
    yield made


def _loss(learner: str, train: FeatureTable, test: FeatureTable) -> float:
    _, plan = built(train, 0, tradeoffs=[1.0], learner=learner, degree=2)
    items = [str(row % 1000) for row in range(test.rows)]
    ran = plan.run(plan.cells_of(test), items, PolicyTarget(tradeoff=1.0))
    truth = np.array(test.classes)[test.labels]
    return float((np.array(plan.classes)[ran.labels] != truth).mean() + ran.costs.mean())


def measure_steps() -> Iterator[Table | str]:
    """Time a build on a half of RAFDB, single steps by both learners, and rollouts of the other half."""
    train, test = halves("rafdb", 1)
    made = table(
        f"RAFDB, {train.rows:,} rows, 4 sensors, 20 trade-offs", "learner", "build", "a step", "an item rolled"
    )
    for learner in ("auto", "regression", "filter_tree"):
        seconds, plan = built(train, 1, learner=learner)
        cells, items = plan.cells_of(test), [str(row) for row in range(test.rows)]
        target = PolicyTarget(budget=0.8 * float(plan.costs.max()))
        rolled, _ = timed(lambda p=plan, c=cells, i=items, t=target: p.run(c, i, t))  # type: ignore[misc]
        made.add_row(learner, shown(seconds), shown(_step(plan, test)), shown(rolled / test.rows))
    yield made


def _step(plan: PolicyPlan, test: Trace) -> float:
    """Measure the CPU time of a step, the mean over how many sensors are known."""
    queries = []
    for row in range(100):
        for known in range(len(plan.sensors) + 1):
            acquired: dict[str, Any] = {
                plan.sensors[j]: (test.classes[test.predictions[row, j]], float(test.confidences[row, j]))
                for j in range(known)
            }
            queries.append(PolicyQuery(tradeoff=0.0, item=str(row), acquired=acquired))
    start = time.process_time()
    for query in queries:
        plan.decide(query)
    return (time.process_time() - start) / len(queries)


def main() -> None:
    """Run what was asked for, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("traces", "consistency", "steps")
    for name in parts:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--names", nargs="+", default=list(FRUGALML), choices=list(FRUGALML))
    asked = parser.parse_args()
    reports = {
        "traces": lambda: measure_traces(asked.names, asked.seeds),
        "consistency": measure_consistency,
        "steps": measure_steps,
    }
    console = Console()
    for name, report in reports.items():
        if getattr(asked, name) or not any(getattr(asked, each) for each in parts):
            for shown_part in report():
                console.print(shown_part)


if __name__ == "__main__":
    main()
