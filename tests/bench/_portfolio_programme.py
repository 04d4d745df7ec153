"""How fast assignments within a budget are: against HiGHS on the whole programme, and for many queries or classifiers.

CPU seconds of this process, all its threads together. ``compare_with_highs`` takes up to half an hour for all of
``SEEDS``, nearly all of it in HiGHS.
"""

import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.table import Table

from models.arrays import Floats
from solvers.portfolio.knapsack import Assignment, assign
from tests.bench.cascade import shown, table
from tests.oracles.portfolio import estimates, highs

T = TypeVar("T")

SEEDS = (0, 1, 2, 3, 4)
QUERIES = 10_000
BUDGETS = (0.5, 0.6, 0.8, 0.9)
"""Budgets as shares of what the dearest classifier costs for all queries."""
GAP = 1e-6
KINDS: dict[str, int | None] = {"means of 40": 40, "continuous": None}
"""Values by how many answers they are means of; both less 5 deviations, as OCCAM has them."""
SIZES = ((10, 7), (100, 7), (1_000, 7), (10_000, 7), (10_000, 101), (1_000_000, 7))
MB = 2**20


@dataclass(frozen=True, slots=True)
class Compared:
    """One instance: CPU seconds of both, what HiGHS found more, relative to the value, and the gap proved here."""

    seconds: float
    highs_seconds: float
    behind: float
    gap: float

    @property
    def ratio(self) -> float:
        """How many times less CPU time was taken than by HiGHS."""
        return self.highs_seconds / self.seconds


def cpu(function: Callable[[], T]) -> tuple[float, T]:
    """Measure the CPU seconds of one call."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def compare(values: Floats, costs: Floats, budget: float) -> Compared:
    """Solve one instance both ways."""
    seconds, assignment = cpu(lambda: assign(values, costs, budget, gap=GAP))
    highs_seconds, known = cpu(lambda: highs(values, costs, budget, gap=GAP))
    return Compared(seconds, highs_seconds, (known.value - assignment.value) / abs(known.value), assignment.gap)


def compare_with_highs(seeds: Sequence[int] = SEEDS, queries: int = QUERIES) -> Iterator[Table | str]:
    """Solve the same instances by ``assign`` and by HiGHS on the whole sparse programme."""
    made = table(
        f"{queries:,} queries x 7 classifiers, gap {GAP:g}: CPU time, median of {len(seeds)} instances\n"
        "budget: share of the dearest; behind: HiGHS's value less ours, relative, the most",
        "values", "budget", "HiGHS", "assign", "times less", "at least", "behind",
    )  # fmt: skip
    every: list[Compared] = []
    for kind, samples in KINDS.items():
        for share in BUDGETS:
            instances = []
            for seed in seeds:
                values, costs = estimates(seed, queries, samples=samples)
                instances.append(compare(values, costs, share * queries * float(costs.max())))
            made.add_row(kind, f"{share:g}", *_compared(instances))
            every += instances
    yield made
    yield verdict(every)


def _compared(instances: Sequence[Compared]) -> list[str]:
    ratios = [one.ratio for one in instances]
    return [
        shown(statistics.median(one.highs_seconds for one in instances)),
        shown(statistics.median(one.seconds for one in instances)),
        f"{statistics.median(ratios):,.0f}",
        f"{min(ratios):,.0f}",
        f"{max(one.behind for one in instances):.1e}",
    ]


def verdict(every: Sequence[Compared]) -> str:
    """Say how the instances stand to what is wanted."""
    ratios = [one.ratio for one in every]
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    behind, gap = max(one.behind for one in every), max(one.gap for one in every)
    return (
        f"{len(every)} instances: {mean:,.0f} times less CPU time than HiGHS (geometric mean; wanted 100: "
        f"{_met(mean >= 100)}), {min(ratios):,.0f} at least (wanted 10: {_met(min(ratios) >= 10)}); behind HiGHS by "
        f"{behind:.1e} at most ({_met(behind <= GAP)}), gaps up to {gap:.1e} ({_met(gap <= GAP)}).\n"
    )


def _met(so: bool) -> str:
    return "met" if so else "MISSED"


def measure_sizes(sizes: Sequence[tuple[int, int]] = SIZES, share: float = 0.5) -> Table:
    """Solve programmes of several sizes, both kinds, with gap 1e-6 and with gap 0."""
    made = table(
        f"CPU time by size, budget {share:g} of the dearest; peak: NumPy's memory beside the input\n"
        "with gap 0 the gap left is rounding, or more where the search ends for want of room",
        "queries x classifiers", "values", "gap 1e-6", "gap 0", "gap left", "MB, peak",
    )  # fmt: skip
    for n, m in sizes:
        for kind, samples in KINDS.items():
            values, costs = estimates(0, n, samples=samples, m=m)
            budget = share * n * float(costs.max())
            seconds, _ = cpu(lambda v=values, c=costs, b=budget: assign(v, c, b, gap=GAP))  # type: ignore[misc]
            exact_seconds, exact = cpu(lambda v=values, c=costs, b=budget: assign(v, c, b, gap=0))  # type: ignore[misc]
            megabytes = peak(lambda v=values, c=costs, b=budget: assign(v, c, b, gap=GAP))  # type: ignore[misc]
            row = (shown(seconds), shown(exact_seconds), f"{exact.gap:.0e}", f"{megabytes:,.1f}")
            made.add_row(f"{n:,} x {m}", kind, *row)
    return made


def peak(call: Callable[[], Assignment]) -> float:
    """Measure the most memory that a call has at one time, in MB."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / MB
