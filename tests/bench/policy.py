"""Policies and cascades on FrugalML's traces at four budgets: ``parsimony bench policy``.

Half of a trace is learned from, the other half tested on, as in FrugalML's own figures, which are shown for comparison.
In the same run: always one classifier, chosen on the first half alone. `parsimony bench routing` has the portfolio.

``--area``: the mean error over costs from the cheapest to the most expensive service, learned from ``--rows`` rows, of
cascades, cascades with combined answers (``_stacked_cascades``), and policies.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from models import FeatureTable, Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Int64s
from models.cascade import CascadeOptions, CascadeQuery
from models.policy import PolicyOptions, PolicyTarget
from solvers import BuildContext
from solvers.cascade import CascadePlan
from solvers.cascade import fit as fit_cascade
from solvers.cascade.setting_replays import replay_frontier
from solvers.policy import PolicyPlan, fit
from tests.bench._stacked_cascades import compare_areas, measure_area
from tests.bench.cascade import shown, table, timed

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SEEDS = (1, 5, 10, 50, 100)
SHARES = (0.3, 0.5, 0.8, 1.0)
"""Budgets, as shares of the most expensive service's price."""
FRUGALML = {
    "rafdb": (0.7202, 0.7409, 0.7676, 0.7772),
    "ferplus": (0.8348, 0.8389, 0.8386, 0.8386),
    "yelp": (0.9386, 0.9549, 0.9610, 0.9610),
    "imdb": (0.8260, 0.8591, 0.8724, 0.8724),
    "digit": (0.7877, 0.8274, 0.8340, 0.8352),
    "command": (0.9433, 0.9479, 0.9483, 0.9478),
}
"""FrugalML's test accuracies at these budgets, the mean over the seeds."""
AREAS = ("cascade", "combined", "selected", "policy")
"""``combined``: cascades with combined answers; ``selected``: where cross-validation prefers these, else cascades."""
AREA_BUDGETS = 13
Reached = tuple[float, float]
"""Accuracy from 0 to 1, and the mean cost of an item."""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Results on one trace. methods: by name (seeds, budgets, 2), accuracy and spend as a share of the budget;
    seconds: of a build of the policy, mean."""

    name: str
    methods: dict[str, Floats]
    seconds: float


def load(name: str, rows: Int64s | slice = slice(None)) -> Trace:
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
        raise SystemExit(f"{path.name} not found in shared/data next to the repository; this benchmark needs it")
    return path


def halves(name: str, seed: int, rows: int | None = None) -> tuple[Trace, Trace]:
    """Cut a trace at random: one half to learn from, or some rows of it, and one to test on."""
    n = len(np.load(_path(name), allow_pickle=False)["true_label"])
    order = np.random.RandomState(seed).permutation(n)  # what FrugalML's figures are of
    return load(name, order[: n // 2][:rows]), load(name, order[n // 2 :])


def build_policy(dataset: Trace | FeatureTable, seed: int, **options: Any) -> tuple[float, PolicyPlan]:
    with joblib.parallel_config(backend="loky", n_jobs=-1, max_nbytes=None):
        return timed(lambda: fit(dataset, PolicyOptions(**options), np.random.default_rng(seed), BuildContext()).plan)


def run_policy(plan: PolicyPlan, test: Trace, budgets: Sequence[float]) -> list[Reached]:
    """Run the test half under each budget, every item with an id of its own."""
    cells, items = plan.cells_of(test), [str(row) for row in range(test.rows)]
    truth, reached = np.array(test.classes)[test.labels], []
    for budget in budgets:
        ran = plan.run(cells, items, PolicyTarget(budget=budget))
        right = np.array(plan.classes)[ran.labels] == truth
        reached.append((float(right.mean()), float(ran.costs.mean())))
    return reached


def build_cascade(dataset: Trace, seed: int) -> CascadePlan:
    return fit_cascade(dataset, CascadeOptions(), np.random.default_rng(seed), BuildContext()).plan


def replay_points(plan: CascadePlan, test: Trace) -> dict[int, Reached]:
    """Replay the test half at every point that a budget selects."""
    replays = replay_frontier(plan, test, np.arange(test.rows))
    return {
        point: (float(one.replay.right.mean()), float(one.replay.costs.mean()))
        for (query, point), one in zip(plan.list_reachable_points(), replays, strict=True)
        if query.keys() == {"budget"}
    }


def run_cascade(plan: CascadePlan, test: Trace, budgets: Sequence[float]) -> list[Reached]:
    """Run the test half under each budget, divided between two cascades as by item ids."""
    points, reached = replay_points(plan, test), []
    for budget in budgets:
        chosen = plan.select_points(CascadeQuery(budget=budget, item="any"))
        assert chosen is not None
        first, second = np.array([points[chosen.first], points[chosen.second]])
        accuracy, cost = (first + chosen.share * (second - first)).tolist()
        reached.append((accuracy, cost))
    return reached


def always_one(train: Trace, test: Trace, budgets: Sequence[float]) -> list[Reached]:
    accuracies, costs = train.quality.mean(axis=0), train.costs.mean(axis=0)
    chosen = [int(np.where(costs <= budget, accuracies, -1.0).argmax()) for budget in budgets]
    return [(float(test.quality[:, j].mean()), float(test.costs[:, j].mean())) for j in chosen]


def embed_answers(trace: Trace, classifier: int, labels: int) -> NDArray[np.float32]:
    """Turn a classifier's answers into embeddings, (n, labels): one-hot labels times confidences."""
    vectors = np.zeros((trace.rows, labels), dtype=np.float32)
    codes = np.array([int(label) for label in trace.classes])[trace.predictions[:, classifier]]
    vectors[np.arange(trace.rows), codes] = np.nan_to_num(trace.confidences[:, classifier], nan=1.0)
    return vectors


def compare(name: str, seeds: Sequence[int]) -> Compared:
    """Let every method learn one half and answer the other, for each seed."""
    by_method: dict[str, list[list[Reached]]] = {}
    times = []
    for seed in seeds:
        train, test = halves(name, seed)
        budgets = [share * float(train.costs.mean(axis=0).max()) for share in SHARES]
        seconds, plan = build_policy(train, seed)
        times.append(seconds)
        reached = {"policy": run_policy(plan, test, budgets)}
        reached["cascade"] = run_cascade(build_cascade(train, seed), test, budgets)
        reached["one classifier"] = always_one(train, test, budgets)
        for method, pairs in reached.items():
            shares = [(accuracy, spent / budget) for (accuracy, spent), budget in zip(pairs, budgets, strict=True)]
            by_method.setdefault(method, []).append(shares)
    return Compared(name, {method: np.array(each) for method, each in by_method.items()}, float(np.mean(times)))


def report(traces: Sequence[Compared]) -> Iterator[Table | str]:
    seeds = len(traces[0].methods["policy"])
    made = table(
        f"Test accuracy in %, and spend as a share of the budget, mean of {seeds} seeds",
        "trace", "method", *(f"{share:.0%}" for share in SHARES), "build",
    )  # fmt: skip
    made.columns[1].justify = "left"
    above: dict[str, list[float]] = {"policy": [], "cascade": []}
    for one in traces:
        made.add_section()
        made.add_row(one.name, "FrugalML", *(f"{100 * a:.2f}     " for a in FRUGALML[one.name]), "")
        for method, values in one.methods.items():
            cells = [f"{100 * a:.2f} {s:.2f}" for a, s in values.mean(axis=0)]
            made.add_row("", method, *cells, shown(one.seconds) if method == "policy" else "")
        for method, gains in above.items():
            gains += (100 * (one.methods[method].mean(axis=0)[:, 0] - FRUGALML[one.name])).tolist()
    yield made
    for method, gains in above.items():
        reaching = f"at least FrugalML in {sum(gain >= 0 for gain in gains)} of {len(gains)} cells"
        yield f"{method}: {reaching}; {np.mean(gains):+.2f} on average"


def measure_areas(name: str, seed: int, rows: int) -> tuple[list[float], bool]:
    """Return the area of each of ``AREAS``, in %, and whether cross-validation chose combined answers."""
    train, test = halves(name, seed, rows)
    means = test.costs.mean(axis=0)
    ends, cheapest = (float(means.min()), float(means.max())), float(1 - test.quality[:, means.argmin()].mean())
    last = measure_area(
        [(cost, 1 - right) for right, cost in replay_points(build_cascade(train, seed), test).values()], ends
    )
    stacked, is_better = compare_areas(train, test, ends, seed)
    budgets = np.linspace(*ends, AREA_BUDGETS + 1)[1:].tolist()
    reached = [(cost, 1 - right) for right, cost in run_policy(build_policy(train, seed)[1], test, budgets)]
    policy = measure_area([(ends[0], cheapest), *reached], ends)
    return [100 * area for area in (last, stacked, stacked if is_better else last, policy)], is_better


def report_areas(names: Sequence[str], seeds: Sequence[int], rows: int) -> Iterator[Table | str]:
    made = table(
        f"Area in %, learned from {rows} rows, {len(seeds)} seeds ± standard error", "trace", *AREAS, "combined at"
    )
    every = []
    for name in names:
        measured, chosen = zip(*(measure_areas(name, seed, rows) for seed in seeds), strict=True)
        every.append(np.array(measured))
        made.add_row(name, *map(_with_error, every[-1].T), f"{np.mean(chosen):.0%}")
    means = np.mean(every, axis=0)
    made.add_section()
    made.add_row("mean", *map(_with_error, means.T), "")
    yield made
    for place in (0, 3):
        yield f"selected, below {AREAS[place]}: {_with_error(means[:, place] - means[:, 2])}"


def _with_error(values: Floats) -> str:
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{values.mean():.2f} ± {error:.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench policy", description=__doc__)
    parser.add_argument("--names", nargs="+", choices=list(FRUGALML), default=["rafdb", "ferplus", "digit"])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS[:1], help="of the halves")
    parser.add_argument("--area", action="store_true", help="mean error over costs, and cascades with combined answers")
    parser.add_argument("--rows", type=int, default=2_000, help="rows to learn from, with --area")
    chosen = parser.parse_args(arguments)
    console = Console()
    if chosen.area:
        parts = report_areas(chosen.names, chosen.seeds, chosen.rows)
    else:
        parts = report([compare(name, chosen.seeds) for name in chosen.names])
    for part in parts:
        console.print(part, highlight=False)


if __name__ == "__main__":
    main()
