"""Build and look-up time of the index against Naive-Lookup: ``parsimony bench index``.

100, 1,000 and 5,000 candidates, none of which dominates another. Naive-Lookup answers the same queries on the same
plan, as a loop in Python and as a scan by NumPy; the answers must be the same.
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
from solvers.index.assemble import Models, Names, Searched, assemble
from solvers.index.baselines import size_if_all, size_of
from solvers.index.costs import Costs
from solvers.index.crossings import Index, build_index
from solvers.index.lattice import Expanded
from solvers.index.plan import IndexPlan
from tests.bench.cascade import table, timed

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


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Candidates none of which dominates another: costs of features, sets and accuracies by falling accuracy."""

    costs: Costs
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
        costs = Costs(powers, rng.random((FEATURES, 3)) * np.array(COEFFICIENTS))
        masks = np.append(0, rng.choice(np.arange(1, 1 << FEATURES), size=count - 1, replace=False))
        curves = costs.of_sets(masks)
        sizes = np.full((1, 1), 100.0) if kind == CROWDED else np.logspace(0, 4, 9)[:, None]
        values = curves[1:] @ np.prod(sizes[:, None, :] ** powers, axis=2).T
        ranks = np.append(0, 1 + np.argsort(np.argsort(np.log(values).mean(axis=1))))
        order = np.argsort(-ranks)
        return cls(costs, masks[order], curves[order], 0.5 + 0.45 * ranks[order] / count)

    def index(self) -> Index:
        return build_index(self.curves, self.accuracies)

    def plan(self, index: Index) -> IndexPlan:
        """Make a plan that holds these sets only, no models and no greedy sequences worth the name."""
        names = tuple(f"f{i:02}" for i in range(FEATURES))
        known = dict(zip(self.masks.tolist(), self.accuracies.tolist(), strict=True))
        expanded = Expanded(FEATURES, self.masks, self.accuracies, self.accuracies)
        median = (100.0,)
        searched = Searched(expanded, 0.0, known, np.array([0.0, inf]), np.zeros((2, 0), dtype=np.int32), median)
        what = Names(names, tuple((name,) for name in names), ("no", "yes"), np.array([0.5, 0.5]), "ms")
        indexed = (np.arange(len(self.masks)), index)
        return assemble(what, IndexOptions(), self.costs, searched, indexed, Models("none", {}))


def around(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.3g} ±{statistics.pstdev(values):,.2g}"


def measure_builds() -> Iterator[Table]:
    Family.draw(99, 500, SPREAD).index()  # compiled once in a process
    for kind, label in KINDS.items():
        made = table(
            f"Building the index, {label}\nMedian ±deviation of {REPEATS} instances",
            "candidates", "ms", "crossings", "skylines", "entries", "MB",
        )  # fmt: skip
        for count in CANDIDATES:
            runs = [timed(Family.draw(seed, count, kind).index) for seed in range(REPEATS)]
            index = runs[0][1]
            size, every = size_of(index), size_if_all(index)
            stored = index.sizes.nbytes + index.offsets.nbytes + index.members.nbytes
            counts = (every.points - 1, size.points, size.entries)
            made.add_row(
                f"{count:,}",
                around([1e3 * seconds for seconds, _ in runs]),
                *(f"{each:,}" for each in counts),
                f"{stored / 2**20:.2f}",
            )
        yield made


Way = tuple[Callable[..., object], Sequence[tuple[Any, ...]]]
"""What to call, and the arguments of all calls."""


def per_call(ways: Sequence[Way], batches: int) -> list[list[float]]:
    """Measure seconds for one call, for each way the averages of several batches.

    The ways take turns, batch by batch, so that what slows the machine down for a while slows down all of them.
    """
    averages: list[list[float]] = [[] for _ in ways]
    for batch in range(batches):
        for (function, calls), times in zip(ways, averages, strict=True):
            mine = calls[batch::batches]
            start = time.perf_counter()
            for arguments in mine:
                function(*arguments)
            times.append((time.perf_counter() - start) / len(mine))
    return averages


def ask(seed: int, plan: IndexPlan, count: int, sizes: tuple[float, float] = SIZES) -> list[IndexQuery]:
    """Draw queries: size log-uniform in a range, budget uniform up to what all features cost there."""
    rng = np.random.default_rng([seed, 1])
    drawn = np.exp(rng.uniform(log(sizes[0]), log(sizes[1]), (count, 1)))
    queries = []
    for size, share in zip(drawn, rng.random(count).tolist(), strict=True):
        whole = float(np.sum(plan.coefficients @ np.prod(size**plan.powers, axis=1)))
        queries.append(IndexQuery(size=float(size[0]), budget=share * whole))
    return queries


def by(method: Method, queries: Sequence[IndexQuery]) -> list[IndexQuery]:
    return [IndexQuery(size=query.size, budget=query.budget, method=method) for query in queries]


def measure_look_ups(batches: int = 11) -> Iterator[Table | str]:
    """Ask the index and Naive-Lookup the same questions, which must have the same answers."""
    for kind, label in KINDS.items():
        made = table(
            f"Microseconds for one look-up, {label}\nMedian ±deviation of {batches} batches; sizes 1 to 10^4; bare: "
            "without the reply;\nNaive-Lookup is a loop in Python, NumPy the same scan by arrays",
            "candidates", "Poly-Dom", "Naive-Lookup", "times faster", "than NumPy",
        )  # fmt: skip
        said, met = [], ""
        for count in CANDIDATES:
            family = Family.draw(0, count, kind)
            plan = family.plan(family.index())
            queries = ask(0, plan, 300, SIZES) * (
                batches * max(1_500_000 // count // 300, 1)
            )  # few: those of a server are warm too
            _agree(plan, queries[:300])
            for name, ways in (("reply", _replying(plan, queries)), ("bare", _bare(plan, queries))):
                fast, slow, *arrays = per_call(ways, batches)
                ratios = [a / b for a, b in zip(slow, fast, strict=True)]
                made.add_row(
                    f"{count:,}, {name}",
                    *(around([1e6 * each for each in times]) for times in (fast, slow)),
                    around(ratios),
                    *(around([a / b for a, b in zip(each, fast, strict=True)]) for each in arrays),
                )
                if count == 1_000:
                    middle = statistics.median(ratios)
                    said.append(f"{middle:.0f} times ({name})")
                    met = "met" if middle >= 50 else "MISSED"
        yield made
        yield (
            f"At 1,000 candidates the index is {' and '.join(said)} faster than Naive-Lookup; wanted: 50 for the "
            f"look-up itself, which is the bare one ({met}).\n"
        )


def _replying(plan: IndexPlan, queries: Sequence[IndexQuery]) -> list[Way]:
    return [(plan.decide, [(query,) for query in asked]) for asked in (queries, by("naive", queries))]


def _bare(plan: IndexPlan, queries: Sequence[IndexQuery]) -> list[Way]:
    """The look-ups alone: index, Naive-Lookup, and a scan by arrays."""
    calls = [(query.size, query.budget) for query in queries]
    return [(way, calls) for way in (plan._look_up.find, plan._look_up.naive, plan._look_up.scan)]


def _agree(plan: IndexPlan, queries: Sequence[IndexQuery]) -> None:
    for query, naive in zip(queries, by("naive", queries), strict=True):
        one, two = plan.decide(query), plan.decide(naive)
        if (one.features, one.accuracy, one.cost) != (two.features, two.accuracy, two.cost):
            raise AssertionError(f"{query}: {one} against {two}")


def main(arguments: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(prog="parsimony bench index", description=__doc__).parse_args(arguments)
    console = Console()
    for part in (*measure_builds(), *measure_look_ups()):
        console.print(part, highlight=False)


if __name__ == "__main__":
    main()
