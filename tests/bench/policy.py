"""How good policies are, and how fast they are built: ``python -m tests.bench.policy``.

1. ``--features``: letter, pima and spambase: features acquired against test error, beside fixed sets, greedy
   information gain, the pipeline and the index.
2. ``--traces``: FrugalML traces at four budgets, beside FrugalML's own accuracies, cascades and the portfolio, with
   what was really spent. ``--names`` and ``--seeds`` say which.
3. ``--consistency``: a made-up problem whose best possible loss is known, learned from more and more rows
   (Acquisition DAG, Theorem 2.2).
4. ``--steps``: the time of a build and of single steps.

Without any of these all four, in some six minutes: few splits, three traces, one seed. ``--all`` takes all traces, five
seeds and more splits: an hour or two. ``--plots DIR`` draws the first two.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from models import FeaturesSpec, FeatureTable, Trace, dataset_from_columns
from models.arrays import Floats
from models.policy import PolicyQuery, PolicyTarget
from solvers.policy import PolicyPlan
from tests.bench import _policy_features as features
from tests.bench import _policy_traces as traces
from tests.bench._policy_traces import built, halves
from tests.bench.cascade import shown, table, timed

Repositories = Iterator[Table | str]

SENSORS, PRICES = 3, (0.02, 0.03, 0.05)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of each part. splits: of each data set; names, seeds: of traces; rows, draws: of the made-up problem;
    timed: the trace whose builds and steps are timed."""

    splits: dict[str, int]
    names: tuple[str, ...]
    seeds: tuple[int, ...]
    rows: tuple[int, ...]
    draws: int
    timed: str


USUAL = Effort(
    {"pima": 2, "spambase": 1, "letter": 1}, ("rafdb", "ferplus", "digit"), traces.SEEDS[:1], (300, 3_000), 2, "ferplus"
)
FULL = Effort(
    {"pima": 10, "spambase": 3, "letter": 3},
    tuple(traces.FRUGALML),
    traces.SEEDS,
    (300, 1_000, 3_000, 10_000),
    4,
    "rafdb",
)


def report_features(effort: Effort, plots: Path | None) -> Repositories:
    """Compare methods on tables of features, and draw them."""
    studies = []
    for name, splits in effort.splits.items():
        studies.append(features.compare(name, splits))
        yield from features.report(studies[-1])
    yield features.NOTES
    if plots is not None:
        from tests.bench._policy_plots import plot_features

        yield f"Plot: {plot_features(studies, plots).name}\n"


def report_traces(effort: Effort, plots: Path | None) -> Repositories:
    """Compare methods on traces, and draw them."""
    compared = [traces.compare(name, effort.seeds) for name in effort.names]
    yield from traces.report(compared)
    if plots is not None:
        from tests.bench._policy_plots import plot_traces

        yield f"Plot: {plot_traces(compared, plots).name}\n"


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
    dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, "y": label.astype(np.int64)})
    assert isinstance(dataset, FeatureTable)
    return dataset, chances


def bayes_loss(chances: Floats) -> float:
    """Find the least errors plus cost, λ = 1, of any rule: by dynamic programming over what can be known."""
    cube = chances.reshape(3, 3, 3)

    def best(known: tuple[int | None, ...]) -> float:
        chance = float(cube[tuple(slice(None) if v is None else slice(v, v + 1) for v in known)].mean())
        least = min(chance, 1 - chance)
        for m in (m for m in range(SENSORS) if known[m] is None):
            after = [best((*known[:m], v, *known[m + 1 :])) for v in range(3)]
            least = min(least, PRICES[m] + float(np.mean(after)))
        return least

    return best((None,) * SENSORS)


def measure_consistency(sizes: Sequence[int], draws: int) -> Iterator[Table | str]:
    """Show the gap to the best possible loss shrink as rows are added (Theorem 2.2)."""
    test, chances = known_problem(200_000, 12_345)
    least = bayes_loss(chances)
    made = table(f"Loss above the best possible ({least:.4f}), in thousandths, mean of {draws} draws", "rows", "gap")
    for rows in sizes:
        gaps = [_loss(known_problem(rows, seed)[0], test) - least for seed in range(draws)]
        made.add_row(f"{rows:,}", f"{1e3 * np.mean(gaps):.1f}")
    yield made


def _loss(train: FeatureTable, test: FeatureTable) -> float:
    _, plan = built(train, 0, tradeoffs=[1.0])
    items = [str(row % 1000) for row in range(test.rows)]
    ran = plan.run(plan.cells_of(test), items, PolicyTarget(tradeoff=1.0))
    truth = np.array(test.classes)[test.labels]
    return float((np.array(plan.classes)[ran.labels] != truth).mean() + ran.costs.mean())


def measure_steps(name: str) -> Iterator[Table | str]:
    """Time a build on a half of a trace, single steps, and rollouts of the other half."""
    train, test = halves(name, 1)
    made = table(
        f"{name}, {train.rows:,} rows, {len(train.spec.classifiers)} sensors, 20 trade-offs",
        "build", "a step", "an item rolled",
    )  # fmt: skip
    seconds, plan = built(train, 1)
    cells, items = plan.cells_of(test), [str(row) for row in range(test.rows)]
    target = PolicyTarget(budget=0.8 * float(plan.costs.max()))
    rolled, _ = timed(lambda: plan.run(cells, items, target))
    made.add_row(shown(seconds), shown(_step(plan, test)), shown(rolled / test.rows))
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


PARTS: dict[str, Callable[[Effort, Path | None], Repositories]] = {
    "features": report_features,
    "traces": report_traces,
    "consistency": lambda effort, plots: measure_consistency(effort.rows, effort.draws),
    "steps": lambda effort, plots: measure_steps(effort.timed),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for, or every part."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.policy", description="Benchmarks of the policy.")
    for name in PARTS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--all", action="store_true", help="all traces, five seeds, more splits: an hour or two")
    parser.add_argument("--seeds", type=int, nargs="+", help="of the traces' halves")
    parser.add_argument("--names", nargs="+", choices=list(traces.FRUGALML), help="of traces")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="where plots go; none without")
    chosen = parser.parse_args(arguments)
    console = Console()
    plots = chosen.plots
    if plots is not None and find_spec("matplotlib") is None:
        console.print("There are no plots: matplotlib is not installed.\n")
        plots = None
    effort = FULL if chosen.all else USUAL
    effort = replace(effort, names=tuple(chosen.names or effort.names), seeds=tuple(chosen.seeds or effort.seeds))
    asked = [name for name in PARTS if getattr(chosen, name)]
    for name in asked or PARTS:
        for part in PARTS[name](effort, plots):
            console.print(part, highlight=False)


if __name__ == "__main__":
    main()
