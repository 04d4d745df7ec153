"""Assignments against HiGHS on the whole programme: ``parsimony bench portfolio``.

CPU seconds of this process. Without options: batches within one budget. ``--constraints``: batches within a budget,
three capacities, a commitment, two resources and five tenants with budgets; a million queries; and what batches save on
outcomes of language models. HiGHS takes nearly all of the time: minutes without options, ten or more with.
``--estimates``: estimates of a batch by the paper's samples, against a search per sample, and its assignment.
"""

import argparse
import math
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from models import Trace, TraceSpec
from models.arrays import Floats, Singles
from models.portfolio import PortfolioOptions, RouteQuery
from models.portfolio_constraints import ConstrainedRequest
from solvers import BuildContext
from solvers.portfolio import fit
from solvers.portfolio.constrained import ConstrainedChoice, Constraint, assign_constrained
from solvers.portfolio.knapsack import assign
from solvers.portfolio.neighbors.samples import draw_samples
from solvers.portfolio.success_estimator import EmbeddingScaling, NeighborEstimator
from tests.bench._outcomes import PRICES
from tests.bench.cascade import shown, table
from tests.bench.policy import SHARED
from tests.oracles.constrained import Instance, best_by_highs, large
from tests.oracles.portfolio import estimates, highs

T = TypeVar("T")

QUERIES = 10_000
KINDS: dict[str, int | None] = {"means of 40": 40, "continuous": None}
"""Values by how many answers they are means of."""
BUDGETS = (0.5, 0.6, 0.8, 0.9)
"""Budgets as shares of what the most expensive classifier costs for all queries."""
GAP, CONSTRAINED_GAP = 1e-6, 1e-4
GOALS = ("accuracy", "cost")
ITEMS, SAMPLES = 2800, 40
"""Labeled items, and samples of them, of ``--estimates``."""
FLOOR = 0.8
"""The mean estimate that the least cost has to keep."""
LIMIT_S = 900.0
"""Seconds that HiGHS gets for an instance."""
KEPT = 0.95
"""The share of the strong model's accuracy that is to be kept."""
REPLY = 200
"""Tokens of a reply, which the traces do not have."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One instance: CPU seconds of both, what HiGHS found more, relative to the value, and the gap proved here."""

    seconds: float
    highs_seconds: float
    behind: float
    gap: float

    @property
    def ratio(self) -> float:
        return self.highs_seconds / self.seconds


def cpu(function: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def compare_budget(seed: int, samples: int | None, share: float) -> Compared:
    values, costs = estimates(seed, QUERIES, samples=samples)
    budget = share * QUERIES * float(costs.max())
    seconds, mine = cpu(lambda: assign(values, costs, budget, gap=GAP))
    highs_seconds, known = cpu(lambda: highs(values, costs, budget, gap=GAP))
    return Compared(seconds, highs_seconds, (known.value - mine.value) / abs(known.value), mine.gap)


def draw_constrained(seed: int, queries: int, samples: int | None, goal: str) -> Instance:
    """Draw an instance: the highest accuracy, or the least cost above a floor of accuracy."""
    instance = large(seed, queries, samples=samples)
    if goal == "accuracy":
        return instance
    floor = Constraint(("accuracy", "at_least"), 3, FLOOR * len(instance.worths), is_upper=False)
    return replace(instance, worths=-instance.uses[0], constraints=(*instance.constraints, floor))


def solve(instance: Instance) -> ConstrainedChoice:
    return assign_constrained(
        instance.worths, instance.constraints, uses=instance.uses, groups=instance.groups, gap=CONSTRAINED_GAP
    )


def compare_constrained(seed: int, samples: int | None, goal: str) -> Compared:
    instance = draw_constrained(seed, QUERIES, samples, goal)
    seconds, mine = cpu(lambda: solve(instance))
    highs_seconds, known = cpu(lambda: best_by_highs(instance, gap=CONSTRAINED_GAP, time_limit_s=LIMIT_S))
    assert known is not None
    return Compared(seconds, highs_seconds, (known[0] - mine.value) / abs(mine.value), mine.gap)


def report_ratios(title: str, rows: Mapping[str, Callable[[int], Compared]], seeds: int) -> Iterator[Table | str]:
    made = table(
        f"{title}: {QUERIES:,} queries x 7 classifiers, median CPU time of {seeds} instances\n"
        "behind: HiGHS's value less ours, relative, the most",
        "instances", "HiGHS", "ours", "times less", "at least", "behind",
    )  # fmt: skip
    every: list[Compared] = []
    for name, compare in rows.items():
        found = [compare(seed) for seed in range(seeds)]
        ratios = [one.ratio for one in found]
        seconds = [[one.highs_seconds for one in found], [one.seconds for one in found]]
        figures = (*(shown(statistics.median(each)) for each in seconds), f"{statistics.median(ratios):,.0f}")
        made.add_row(name, *figures, f"{min(ratios):,.0f}", f"{max(one.behind for one in found):.1e}")
        every += found
    yield made
    mean = math.exp(statistics.fmean(math.log(one.ratio) for one in every))
    yield (
        f"{len(every)} instances: {mean:,.0f} times less CPU time than HiGHS (geometric mean), "
        f"{min(one.ratio for one in every):,.0f} at least; gaps up to {max(one.gap for one in every):.1e}.\n"
    )


def measure_sizes() -> Table:
    """Solve constrained programmes of several sizes, up to a million queries."""
    made = table(
        f"CPU time by size, gap {CONSTRAINED_GAP:g}; peak: of the whole process, so far",
        "queries", "goal", "CPU", "gap proved", "GB, peak",
    )  # fmt: skip
    for n in (1_000, 10_000, 100_000, 1_000_000):
        for goal in GOALS:
            instance = draw_constrained(0, n, None, goal)
            seconds, solution = cpu(partial(solve, instance))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            made.add_row(f"{n:,}", goal, shown(seconds), f"{solution.gap:.0e}", f"{peak:.2f}")
    return made


def measure_savings(name: str) -> Table:
    """Keep 95 % of the strong model's accuracy on prompts that the build has not seen, and show the actual outcome."""
    arrays = np.load(SHARED / f"{name}.npz", allow_pickle=False)
    vectors, right = arrays["embedding"].astype(np.float32), arrays["correct"].astype(np.float64)
    tokens = arrays["prompt_tokens"].astype(np.float64)
    names = ("mixtral", "gpt-4")
    by_token = [{"polynomial": [REPLY * price / 1000, price / 1000]} for price in PRICES]
    classifiers = [{"name": n, "quality": n, "cost": cost} for n, cost in zip(names, by_token, strict=True)]
    spec = {"kind": "trace", "unit": "USD/1000", "size": "tokens", "classifiers": classifiers}
    order = np.random.default_rng(0).permutation(len(right))
    learned, fresh = order[: len(order) // 2], order[len(order) // 2 :]
    columns = {**dict(zip(names, right[learned].T, strict=True)), "tokens": tokens[learned]}
    trace = Trace.from_columns(TraceSpec.model_validate(spec), columns, vectors[learned])
    plan = fit(trace, PortfolioOptions(), np.random.default_rng(0), BuildContext()).plan
    wanted = KEPT * float(plan.curve_accuracies[plan.methods.index("single_best"), -1])
    sizes: list[float] = tokens[fresh].tolist()
    singles = [
        plan.decide(RouteQuery(query=tuple(vector), size=size, min_accuracy=wanted)).classifier
        for vector, size in zip(vectors[fresh].astype(np.float64).tolist(), sizes, strict=True)
    ]
    given = {"queries": [[0.0]] * len(fresh), "sizes": sizes, "goal": "cost", "accuracy": {"at_least": wanted}}
    batch = plan.assign(plan.estimate(vectors[fresh]), ConstrainedRequest.model_validate(given)).assignments
    made = table(
        f"{name}: {len(fresh):,} fresh prompts, costs by token with replies of {REPLY}; {KEPT:.0%} of the strong "
        "model's accuracy is requested",
        "method", "of its accuracy", "cost saved", "strong calls",
    )  # fmt: skip
    costs, rows = plan.compute_costs(sizes), np.arange(len(fresh))
    for method, chosen in {
        "the strong model": ["gpt-4"] * len(fresh),
        "single queries": singles,
        "a batch": batch,
    }.items():
        at = np.array([names.index(each) for each in chosen])
        kept = right[fresh][rows, at].mean() / right[fresh][:, 1].mean()
        saved = 1 - float(costs[rows, at].sum() / costs[:, 1].sum())
        made.add_row(method, f"{kept:.1%}", f"{saved:.1%}", f"{at.mean():.1%}")
    return made


def draw_embeddings(dimensions: int, count: int, rng: np.random.Generator) -> Singles:
    """Draw probabilities of ``dimensions`` classes, (count, dimensions), as a classifier returns them."""
    logits = 3 * rng.standard_normal((count, dimensions), np.float32)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def search_each(estimator: NeighborEstimator, queries: Singles) -> Floats:
    """Estimate with one search per sample, as if no item were in two samples."""
    found = []
    for sample in estimator.samples:
        alone = NeighborEstimator.from_items(estimator.scaling, estimator.items, estimator.success, sample[None])
        found.append(alone.find_nearest(queries)[:, 0])
    return estimator.average_success(np.stack(found, axis=1))


def measure_estimates(queries: int) -> Table:
    """Estimate and assign a batch with 40 samples of 2,800 items: CPU and wall time on all cores."""
    made = table(
        f"{queries:,} queries, 7 classifiers, {SAMPLES} samples of {ITEMS:,} items\n"
        f"per sample: one search per sample, for {QUERIES:,} queries, scaled up",
        "dimensions", "size", "per sample, CPU", "estimates, CPU", "wall", "assignment, CPU",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for dimensions, size in ((10, 100), (10, 500), (64, 500)):
        items = draw_embeddings(dimensions, ITEMS, rng)
        success = (rng.random((ITEMS, 7)) < np.linspace(0.5, 0.95, 7)).astype(np.float32)
        scaling, samples = EmbeddingScaling.from_vectors(items), draw_samples(rng, ITEMS, SAMPLES, size)
        estimator = NeighborEstimator.from_items(scaling, scaling.apply(items), success, samples)
        batch = draw_embeddings(dimensions, queries, rng)
        estimator.neighbors.warm_up(estimator.success)
        separate, expected = cpu(partial(search_each, estimator, batch[:QUERIES]))
        started = time.perf_counter()
        seconds, found = cpu(partial(estimator.estimate, batch))
        wall = time.perf_counter() - started
        assert np.array_equal(found[:QUERIES], expected)
        costs = np.geomspace(1, 100, 7)
        assigning = cpu(partial(assign, found, costs, 30.0 * queries, gap=GAP))[0]
        figures = (separate * queries / len(expected), seconds, wall, assigning)
        made.add_row(str(dimensions), str(size), *map(shown, figures))
    return made


def report(constrained: bool, seeds: int) -> Iterator[Table | str]:
    if not constrained:
        rows = {
            f"{kind}, budget {share:g}": partial(compare_budget, samples=samples, share=share)
            for kind, samples in KINDS.items()
            for share in BUDGETS
        }
        yield from report_ratios("One budget", rows, seeds)
        return
    if (SHARED / "routellm_mmlu.npz").exists():
        yield measure_savings("routellm_mmlu")
    yield measure_sizes()
    rows = {
        f"{kind}, {goal}": partial(compare_constrained, samples=samples, goal=goal)
        for kind, samples in KINDS.items()
        for goal in GOALS
    }
    yield from report_ratios("Several constraints", rows, seeds)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench portfolio", description=__doc__)
    parser.add_argument("--constraints", action="store_true", help="batches within several constraints")
    parser.add_argument("--seeds", type=int, default=3, help="instances of each kind")
    parser.add_argument("--estimates", type=int, metavar="QUERIES", help="estimates of a batch of so many queries")
    chosen = parser.parse_args(arguments)
    console = Console()
    if chosen.estimates is not None:
        console.print(measure_estimates(chosen.estimates), highlight=False)
        return
    for part in report(chosen.constraints, chosen.seeds):
        console.print(part, highlight=False)


if __name__ == "__main__":
    main()
