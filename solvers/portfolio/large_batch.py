"""Assignments of batches larger than memory, by one shadow price for all queries.

The price λ is found by bisection. At a given λ, the Lagrangian relaxation of OCCAM's program (Equation 4) assigns each
query separately. So a pass over the batch needs only one part of it in memory. The dual bound proves the gap.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int64s, Singles
from models.errors import Infeasible
from solvers.portfolio.shadow_prices import ROUNDING

ROWS_PER_PART = 500_000
"""Queries of one part."""
MAX_PASSES = 60
"""Bisections, after which prices differ by rounding only."""


@dataclass(frozen=True, slots=True, eq=False)
class LargeBatch:
    """Estimated values and costs of a batch, which may be memory-mapped.

    Attributes:
        estimates: (n, m) float32.
        costs: (n, m), at least 0; (1, m) if all queries cost the same.
        added: (m,), added to the estimates of each classifier.
    """

    estimates: Singles
    costs: Floats
    added: Floats

    def iterate_parts(self) -> Iterator[tuple[slice, Singles, Floats]]:
        """Yield the rows, estimates, and costs of each part in turn."""
        for first in range(0, len(self.estimates), ROWS_PER_PART):
            rows = slice(first, first + ROWS_PER_PART)
            yield rows, self.estimates[rows], self.costs if len(self.costs) == 1 else self.costs[rows]

    def measure_least_cost(self) -> float:
        """Return the cost of the cheapest assignment."""
        if len(self.costs) == 1:
            return float(self.costs.min()) * len(self.estimates)
        return math.fsum(float(costs.min(axis=1).sum()) for _, _, costs in self.iterate_parts())


@dataclass(frozen=True, slots=True, eq=False)
class LargeSolution:
    """An assignment within a budget, and its proved distance from the optimum.

    Attributes:
        choice: (n,) uint8.
        value: sum of the chosen values.
        cost: cost of the assignment, at most the budget.
        price: shadow price: value per unit of cost.
        gap: bound of the optimum minus ``value``, as a share of the bound.
    """

    choice: NDArray[np.uint8]
    value: float
    cost: float
    price: float
    gap: float


def assign_large(batch: LargeBatch, budget: float, report: Callable[[int], None] = lambda done: None) -> LargeSolution:
    """Assign queries so that the sum of values is maximal within a budget.

    The price is bisected until the assignment just below the budget and the one just above it differ in few queries. Of
    these queries, those with the highest value per cost are upgraded, as far as the budget allows. The gap is at most
    the largest value of one query.

    Complexity: O(n m) time for each of at most 2 · 60 passes; memory: one part, and one byte per query.

    Args:
        budget: total cost.
        report: called with the number of passes done.
    Raises:
        Infeasible: the cheapest assignment costs more than the budget.
    """
    least = batch.measure_least_cost()
    if budget < least * (1 - ROUNDING):
        raise Infeasible(f"budget must be at least {least:g} for {len(batch.estimates)} queries, got {budget:g}")
    budget = max(budget, least * (1 + ROUNDING))  # sums in another order differ by rounding
    choice = np.empty(len(batch.estimates), dtype=np.uint8)
    value, cost, _ = _choose(batch, 0.0, choice)
    if cost <= budget:
        return LargeSolution(choice, value, cost, 0.0, 0.0)
    low, high = 0.0, _find_feasible_price(batch, budget, choice)
    bound = math.inf
    for done in range(MAX_PASSES):
        report(done)
        middle = (low + high) / 2
        if not low < middle < high:
            break
        _, cost, dual = _choose(batch, middle, choice)
        bound = min(bound, dual + middle * budget)
        low, high = (low, middle) if cost <= budget else (middle, high)
    return _fill_budget(batch, budget, (low, high), bound, choice)


def _find_feasible_price(batch: LargeBatch, budget: float, choice: NDArray[np.uint8]) -> float:
    """Return a price at which the assignment is within the budget."""
    price = 1.0
    while _choose(batch, price, choice)[1] > budget:
        price *= 4.0
    return price


def _fill_budget(
    batch: LargeBatch, budget: float, prices: tuple[float, float], bound: float, upgraded: NDArray[np.uint8]
) -> LargeSolution:
    """Upgrade queries from the high-price assignment toward the low-price one."""
    low, high = prices
    choice = np.empty_like(upgraded)
    value, cost, dual = _choose(batch, high, choice)
    _choose(batch, low, upgraded)
    bound = min(bound, dual + high * budget)
    differing = np.flatnonzero(choice != upgraded)
    before, after = (_pick(batch, differing, each[differing]) for each in (choice, upgraded))
    gains, extra = after[0] - before[0], after[1] - before[1]
    useful = np.flatnonzero((gains > 0) & (extra > 0))
    order = useful[np.argsort(-gains[useful] / extra[useful], kind="stable")]
    count = int(np.searchsorted(cost + np.cumsum(extra[order]), budget, side="right"))
    taken, room = list(order[:count]), budget - cost - float(extra[order[:count]].sum())
    for place in order[count:][extra[order[count:]] <= room]:
        if extra[place] <= room:
            taken.append(place)
            room -= float(extra[place])
    choice[differing[taken]] = upgraded[differing[taken]]
    value, cost = value + float(gains[taken].sum()), cost + float(extra[taken].sum())
    return LargeSolution(choice, value, cost, high, max(bound - value, 0.0) / max(abs(bound), 1e-300))


def _pick(batch: LargeBatch, rows: Int64s, choice: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """Return the values and costs of some queries with given classifiers, (len(rows),) each."""
    costs = batch.costs[0][choice] if len(batch.costs) == 1 else batch.costs[rows, choice]
    return batch.estimates[rows, choice] + batch.added[choice], np.asarray(costs, dtype=np.float64)


def _choose(batch: LargeBatch, price: float, choice: NDArray[np.uint8]) -> tuple[float, float, float]:
    """Write the classifier of each query at a price into the choice.

    Return the sums of values, of costs, and of values minus priced costs.
    """
    from solvers.portfolio import large_batch_kernel  # lazy import: servers do not load numba for it

    sums = [
        large_batch_kernel.choose_at_price(estimates, batch.added, costs, price, choice[rows])
        for rows, estimates, costs in batch.iterate_parts()
    ]
    value, cost, dual = (math.fsum(column) for column in zip(*sums, strict=True))
    return value, cost, dual
