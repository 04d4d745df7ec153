"""The FrugalML traces: the policy and other methods at four budgets, beside FrugalML's own accuracies.

Half of a trace is learned from, the other half tested on, as in FrugalML's own figures. All of a method is chosen on
the first half. The methods beside the policy are in ``_policy_rivals``.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from models import FeatureTable, Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Int64s
from models.policy import PolicyOptions, PolicyTarget
from solvers import Run
from solvers.policy import PolicyPlan, fit
from tests.bench._policy_rivals import RIVALS, Reached
from tests.bench.cascade import shown, table, timed

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
BASELINES = ("FrugalML", "single")
"""Methods that are not ours."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What was reached on one trace. methods: by name (seeds, budgets, 2), accuracy and spend as a share of the budget;
    seconds: of a build of the policy, mean; rows: learned from."""

    name: str
    methods: dict[str, Floats]
    seconds: float
    rows: int


def load(name: str, rows: Int64s | slice = slice(None)) -> Trace:
    """Read some rows of a trace."""
    held = np.load(_path(name), allow_pickle=False)
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
    trace = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    assert isinstance(trace, Trace)
    return trace


def _path(name: str) -> Path:
    path = SHARED / f"frugalml_{name}.npz"
    if not path.exists():
        raise SystemExit(f"{path.name} is not in shared/data beside the repository; this part needs it")
    return path


def halves(name: str, seed: int) -> tuple[Trace, Trace]:
    """Cut a trace at random: one half to learn from, one to test on."""
    n = len(np.load(_path(name), allow_pickle=False)["true_label"])
    order = np.random.RandomState(seed).permutation(n)  # what FrugalML's figures are of
    return load(name, order[: n // 2]), load(name, order[n // 2 :])


def built(dataset: Trace | FeatureTable, seed: int, **options: Any) -> tuple[float, PolicyPlan]:
    """Build on all processors: seconds, and the plan."""
    with joblib.parallel_config(backend="loky", n_jobs=-1, max_nbytes=None):
        return timed(lambda: fit(dataset, PolicyOptions(**options), np.random.default_rng(seed), Run()).plan)


def test_on(plan: PolicyPlan, test: Trace | FeatureTable, budgets: Sequence[float]) -> list[Reached]:
    """Run the test half under each budget, every item with an id of its own."""
    cells, items = plan.cells_of(test), [str(row) for row in range(test.rows)]
    truth, reached = np.array(test.classes)[test.labels], []
    for budget in budgets:
        ran = plan.run(cells, items, PolicyTarget(budget=budget))
        right = np.array(plan.classes)[ran.labels] == truth
        reached.append((float(right.mean()), float(ran.costs.mean())))
    return reached


def compare(name: str, seeds: Sequence[int]) -> Compared:
    """Let every method learn one half and answer the other, for each seed."""
    by_method: dict[str, list[list[Reached]]] = {}
    times = []
    for seed in seeds:
        train, test = halves(name, seed)
        budgets = [share * float(train.costs.mean(axis=0).max()) for share in SHARES]
        seconds, plan = built(train, seed)
        times.append(seconds)
        reached = {"policy": test_on(plan, test, budgets)}
        reached |= {rival: method(train, test, budgets, seed) for rival, method in RIVALS.items()}
        for method, pairs in reached.items():
            shares = [(accuracy, spent / budget) for (accuracy, spent), budget in zip(pairs, budgets, strict=True)]
            by_method.setdefault(method, []).append(shares)
    methods = {method: np.array(each) for method, each in by_method.items()}
    return Compared(name, methods, float(np.mean(times)), train.rows)


def report(traces: Sequence[Compared]) -> Iterator[Table | str]:
    """Print the policy beside FrugalML, then all methods."""
    seeds = len(traces[0].methods["policy"])
    made = table(
        f"Policy: test accuracy at shares of the dearest price, mean of {seeds} seeds (points above FrugalML; spent)",
        "trace", *(f"{share:.0%}" for share in SHARES), "build",
    )  # fmt: skip
    above: list[float] = []
    for one in traces:
        accuracies, spends = one.methods["policy"].mean(axis=0).T
        gains = 100 * (accuracies - FRUGALML[one.name])
        above += gains.tolist()
        cells = [f"{a:.4f}\n{g:+.2f}; {s:.3f}" for a, g, s in zip(accuracies, gains, spends, strict=True)]
        made.add_row(one.name, *cells, shown(one.seconds))
    yield made
    yield f"At least FrugalML in {sum(g >= 0 for g in above)} of {len(above)} cells; {np.mean(above):+.2f} on average\n"
    yield from _report_methods(traces)


def _report_methods(traces: Sequence[Compared]) -> Iterator[Table | str]:
    made = table(
        "Methods side by side: test accuracy in %, and what was spent, as a share of the budget; * the best of ours "
        "that spent at most its budget",
        "trace", "method", *(f"{share:.0%}" for share in SHARES),
    )  # fmt: skip
    made.columns[1].justify = "left"
    for one in traces:
        made.add_section()
        made.add_row(one.name, "FrugalML", *(f"{100 * a:.2f}      " for a in FRUGALML[one.name]))
        means = {method: values.mean(axis=0) for method, values in one.methods.items()}
        best = [_best(means, at) for at in range(len(SHARES))]
        for method, values in means.items():
            cells = [f"{100 * a:.2f}{'*' if best[at] == method else ' '} {s:.2f}" for at, (a, s) in enumerate(values)]
            made.add_row("", method, *cells)
    yield made
    yield (
        "single: the classifier most accurate on the learning half that the budget affords. cascade: IDK cascades "
        "(joint) of every target precision and last classifier, the most accurate on the learning half within the "
        "budget. portfolio: a batch; its embeddings are the answers of the cheapest classifier, which it pays for.\n"
    )


def _best(means: dict[str, Floats], at: int) -> str:
    """Name the most accurate of our methods within the budget, but for a thousandth of it."""
    ours = {method: values[at] for method, values in means.items() if method not in BASELINES}
    within = {method: accuracy for method, (accuracy, spent) in ours.items() if spent <= 1.001}
    return max(within, key=within.__getitem__)
