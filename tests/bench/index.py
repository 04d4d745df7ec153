"""Build and look-up time of the index against Naive-Lookup: ``parsimony bench index``.

100, 1,000 and 5,000 candidates, none of which dominates another. Naive-Lookup answers the same queries on the same
plan, as a loop in Python; the answers must be the same.

``--synthetic``: the paper's synthetic study of 10 features: feature sets that are trained, sizes of indexes, and
accuracy by budget. The paper's ranges are lost; those used are constants of this module.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from models.arrays import Floats, Int64s
from models.index import IndexOptions, IndexQuery, Method
from solvers.index.assemble import PlanSchema, SearchResult, TrainedModels, assemble_plan, choose_cost_weights
from solvers.index.baselines import measure_full_size, measure_index_size
from solvers.index.costs import SetCosts
from solvers.index.crossings import SkylineIndex, build_index
from solvers.index.greedy import build_sequences
from solvers.index.lattice import ExpandedSets
from solvers.index.plan import IndexPlan
from tests.bench.cascade import mean_with_margin, table, timed
from tests.solvers.index.known_accuracies import plan_without_models

FEATURES = 20
COEFFICIENTS = (1000.0, 10.0, 0.1)
"""Limits of the drawn costs' coefficients, by degree."""
CANDIDATES = (100, 1_000, 5_000)
REPEATS = 5
SPREAD, CROWDED = "spread", "crowded"
KINDS = {
    SPREAD: "accuracy by mean log cost over sizes",
    CROWDED: "accuracy by cost at size 100, where none is dominated",
}
"""How candidates are made, see ``Family.draw``."""
SIZES = (1.0, 1e4)
"""Sizes that are asked for, log-uniform."""


SYNTHETIC_FEATURES, MEDIAN = 10, 100.0
"""Features of the synthetic study, and the size at which greedy weighs cost."""
HELPFUL = 0.2
"""Probability that a synthetic feature is helpful."""
HELPFUL_ACCURACY, OTHER_ACCURACY = (0.7, 1.0), (0.5, 0.6)
"""Ranges of the accuracy of helpful features and of others."""
ALPHAS = (0.0, 0.1)
BUDGET_SHARES = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Budgets as shares of the cost of all features."""
SYNTHETIC_METHODS: tuple[Method, ...] = ("poly-dom", "greedy", "greedy-acc", "greedy-cost")


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Candidates none of which dominates another: costs of features, sets and accuracies by falling accuracy."""

    costs: SetCosts
    masks: Int64s
    curves: Floats
    accuracies: Floats

    @classmethod
    def draw(cls, seed: int, count: int, kind: str) -> "Family":
        """Draw subsets of 20 features with random costs of degree 2; what costs more is more accurate.

        kind says at which size costs are ranked: "crowded": at 100, so that at this size all
        candidates are on the skyline; "spread": by the mean of log cost over sizes from 1 to 10^4. What costs no more
        at any size is never the more accurate, either way: no candidate dominates another.
        """
        rng = np.random.default_rng([seed, count, 1])
        powers = np.arange(3)[:, None]
        costs = SetCosts(powers, rng.random((FEATURES, 3)) * np.array(COEFFICIENTS))
        masks = np.append(0, rng.choice(np.arange(1, 1 << FEATURES), size=count - 1, replace=False))
        curves = costs.sum_features(masks)
        sizes = np.full((1, 1), 100.0) if kind == CROWDED else np.logspace(0, 4, 9)[:, None]
        values = curves[1:] @ np.prod(sizes[:, None, :] ** powers, axis=2).T
        ranks = np.append(0, 1 + np.argsort(np.argsort(np.log(values).mean(axis=1))))
        order = np.argsort(-ranks)
        return cls(costs, masks[order], curves[order], 0.5 + 0.45 * ranks[order] / count)

    def index(self) -> SkylineIndex:
        return build_index(self.curves, self.accuracies)

    def plan(self, index: SkylineIndex) -> IndexPlan:
        """Make a plan that holds these sets only, no models and no greedy sequences worth the name."""
        names = tuple(f"f{i:02}" for i in range(FEATURES))
        known = dict(zip(self.masks.tolist(), self.accuracies.tolist(), strict=True))
        expanded = ExpandedSets(FEATURES, self.masks, self.accuracies, self.accuracies)
        median = (100.0,)
        searched = SearchResult(expanded, 0.0, known, np.array([0.0, inf]), np.zeros((2, 0), dtype=np.int32), median)
        what = PlanSchema(names, tuple((name,) for name in names), ("no", "yes"), np.array([0.5, 0.5]), "ms")
        indexed = (np.arange(len(self.masks)), index)
        return assemble_plan(what, IndexOptions(), self.costs, searched, indexed, TrainedModels("none", {}))


def measure_builds() -> Iterator[Table]:
    """Time the sweep."""
    Family.draw(99, 500, SPREAD).index()  # compiled once in a process
    for kind, label in KINDS.items():
        made = table(f"Building the index, {label}", "candidates", "ms, median", "crossings", "skylines", "entries")
        for count in CANDIDATES:
            runs = [timed(Family.draw(seed, count, kind).index) for seed in range(REPEATS)]
            size, every = measure_index_size(runs[0][1]), measure_full_size(runs[0][1])
            counts = (every.points - 1, size.points, size.entries)
            median = statistics.median(1e3 * seconds for seconds, _ in runs)
            made.add_row(f"{count:,}", f"{median:,.3g}", *(f"{each:,}" for each in counts))
        yield made


def ask(seed: int, plan: IndexPlan, count: int, sizes: tuple[float, float] = SIZES) -> list[IndexQuery]:
    """Draw queries: size log-uniform in a range, budget uniform up to what all features cost there."""
    rng = np.random.default_rng([seed, 1])
    drawn = np.exp(rng.uniform(log(sizes[0]), log(sizes[1]), (count, 1)))
    queries = []
    for size, share in zip(drawn, rng.random(count).tolist(), strict=True):
        whole = float(np.sum(plan.coefficients @ np.prod(size**plan.powers, axis=1)))
        queries.append(IndexQuery(size=float(size[0]), budget=share * whole))
    return queries


def measure_look_ups(batches: int = 11) -> Iterator[Table]:
    """Ask the index and Naive-Lookup the same questions, which must have the same answers.

    They take turns, batch by batch, so that what slows the machine down for a while slows down both.
    """
    for kind, label in KINDS.items():
        made = table(f"Microseconds for one look-up, {label}", "candidates", "Poly-Dom", "Naive-Lookup", "times faster")
        for count in CANDIDATES:
            family = Family.draw(0, count, kind)
            plan = family.plan(family.index())
            queries = ask(0, plan, 300, SIZES)
            for query in queries:
                one, two = plan.decide(query), plan.decide(query.model_copy(update={"method": "naive"}))
                assert (one.features, one.accuracy, one.cost) == (two.features, two.accuracy, two.cost), query
            calls = [(query.size, query.budget) for query in queries] * max(1_500_000 // count // 300, 1)
            times = np.array(
                [
                    [per_call(way, calls) for way in (plan._look_up.find_choice, plan._look_up.scan_naively)]
                    for _ in range(batches)
                ]
            )
            medians = np.median(1e6 * times, axis=0)
            faster = float(np.median(times[:, 1] / times[:, 0]))
            made.add_row(f"{count:,}", *(f"{each:,.3g}" for each in medians), f"{faster:,.0f}")
        yield made


def per_call(look_up: Callable[..., object], calls: Sequence[tuple[Any, ...]]) -> float:
    """Measure seconds for one call."""
    start = time.perf_counter()
    for arguments in calls:
        look_up(*arguments)
    return (time.perf_counter() - start) / len(calls)


def draw_accuracies(rng: np.random.Generator, interaction: float) -> Floats:
    """Draw the accuracy of each of the 2^F sets; interaction: from 0 (the best feature) to 1 (every feature adds)."""
    helpful = rng.random(SYNTHETIC_FEATURES) < HELPFUL
    single = np.where(helpful, *(rng.uniform(*ends, SYNTHETIC_FEATURES) for ends in (HELPFUL_ACCURACY, OTHER_ACCURACY)))
    members = np.arange(1 << SYNTHETIC_FEATURES)[:, None] >> np.arange(SYNTHETIC_FEATURES) & 1
    best = np.where(members, single, 0.5).max(axis=1)
    together = 1 - 0.5 * np.prod(np.where(members, 2 * (1 - single), 1.0), axis=1)
    return np.asarray((1 - interaction) * best + interaction * together)


@dataclass(frozen=True, slots=True, eq=False)
class Studied:
    """One synthetic instance.

    counts: trained sets of Poly-Dom by alpha and of greedy; candidates and index entries with alpha 0, and with every
    crossing stored. accuracies: (methods, budgets), in per cent.
    """

    counts: list[int]
    accuracies: Floats

    @classmethod
    def draw(cls, seed: int, interaction: float) -> "Studied":
        rng = np.random.default_rng([seed, round(10 * interaction)])
        known = draw_accuracies(rng, interaction)
        costs = SetCosts(np.arange(3)[:, None], rng.random((SYNTHETIC_FEATURES, 3)) * np.array(COEFFICIENTS))
        trained = set[int]()

        def learn(sets: Sequence[int]) -> list[float]:
            trained.update(sets)
            return [float(known[each]) for each in sets]

        built = [plan_without_models(learn, costs, IndexOptions(alpha=alpha), (MEDIAN,)) for alpha in ALPHAS]
        trained.clear()
        prices = costs.evaluate(costs.coefficients, (MEDIAN,))
        build_sequences(
            learn, prices, choose_cost_weights(IndexOptions().lambdas, prices).tolist(), built[0].plan.features
        )
        plan, index = built[0].plan, built[0].index
        counts = [*(len(each.expanded.masks) for each in built), len(trained), len(plan.candidates)]
        counts += [measure_index_size(index).entries, measure_full_size(index).entries]
        size = float(np.exp(rng.uniform(log(SIZES[0]), log(SIZES[1]))))
        whole = float(costs.evaluate(costs.coefficients, (size,)).sum())
        queries = [IndexQuery(size=size, budget=share * whole) for share in BUDGET_SHARES]
        found = [
            [plan.decide(query.model_copy(update={"method": method})).accuracy for query in queries]
            for method in SYNTHETIC_METHODS
        ]
        return cls(counts, 100 * np.array(found))


def study_synthetic(instances: int) -> Iterator[Table | str]:
    """Report means over drawn instances, for both extremes of the interaction of features."""
    for interaction, label in ((0.0, "the best feature alone counts"), (1.0, "every feature adds")):
        drawn = [Studied.draw(seed, interaction) for seed in range(instances)]
        counts = np.array([one.counts for one in drawn], dtype=np.float64)
        made = table(
            f"{label}: {SYNTHETIC_FEATURES} features, {2**SYNTHETIC_FEATURES} sets; mean of {instances} ±95 % margin",
            *(f"trained, alpha {alpha:g}" for alpha in ALPHAS), "trained, greedy", "candidates", "index", "all",
        )  # fmt: skip
        made.add_row(*map(mean_with_margin, counts.T))
        yield made
        accuracies = np.array([one.accuracies for one in drawn])
        made = table(
            "Accuracy in % by budget, of the cost of all features", "method", *map("{:.0%}".format, BUDGET_SHARES)
        )
        for place, method in enumerate(SYNTHETIC_METHODS):
            made.add_row(method, *map(mean_with_margin, accuracies[:, place].T))
        yield made
        ahead = accuracies[:, 0] - accuracies[:, 1]
        means = ", ".join(map(mean_with_margin, ahead.T))
        yield f"Poly-Dom is ahead of greedy by {ahead.min():.1f} to {ahead.max():.1f} points; means {means}.\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench index", description=__doc__)
    parser.add_argument("--synthetic", action="store_true", help="the paper's synthetic study")
    parser.add_argument("--instances", type=int, default=50, help="of the synthetic study")
    chosen = parser.parse_args(arguments)
    console = Console()
    for part in study_synthetic(chosen.instances) if chosen.synthetic else (*measure_builds(), *measure_look_ups()):
        console.print(part, highlight=False)


if __name__ == "__main__":
    main()
