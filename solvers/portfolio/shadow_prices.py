"""Shadow prices over budgets: what single queries are routed by, one at a time (the dual of OCCAM, Equation 4)."""

from dataclasses import dataclass, field
from hashlib import sha256
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Bools, Floats, Int64s
from solvers.portfolio.knapsack import compute_shadow_prices
from solvers.portfolio.knapsack.problem import KnapsackProblem
from solvers.portfolio.knapsack.relaxation import compute_steps

MAX_POINTS = 257
"""Budgets at which prices are kept."""
ERROR_POINTS = 33
"""Prices at which the standard error of costs is reckoned."""
ROUNDING = 1e-12
"""A budget that is below the cheapest cost by less than this share still counts as that cost."""

TIE = 1e-9
"""Values less priced costs that differ by less than this share are equal: a price is often the very one of a tie."""


@dataclass(frozen=True, slots=True, eq=False)
class ShadowPrices:
    """The price of cost, linear between budgets: (b,) budgets of a query, rising, and (b,) prices, falling to 0.

    shares: (b,) of the queries for which two classifiers are equal at the price, how many get the dearer one; (0,):
    none do.
    """

    budgets: Floats
    prices: Floats
    shares: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_values(cls, values: Floats, costs: Floats) -> "ShadowPrices":
        """Solve the dual on items whose values, (n, m), are those of queries to come; costs: (m,), or (n, m) of each.

        From the budget that only the cheapest classifiers fit to the one at which every item gets its best.

        >>> prices = ShadowPrices.from_values(np.array([[0.5, 0.9], [0.5, 0.6]]), np.array([1.0, 3.0]))
        >>> round(prices.price_at(1.5), 9), round(prices.price_at(2.5), 9), prices.price_at(3.0)
        (0.2, 0.05, 0.0)
        """
        n, least = len(values), float(np.atleast_2d(costs).min(axis=1).mean())
        best = np.where(values == values.max(axis=1, keepdims=True), costs, np.inf).min(axis=1)
        budgets = np.unique(np.linspace(least, max(float(best.mean()), least), MAX_POINTS))
        prices = compute_shadow_prices(values, costs, np.maximum(budgets * n, n * least * (1 + ROUNDING)))
        prices[-1] = 0.0
        return cls(budgets, np.minimum.accumulate(prices))

    @classmethod
    def with_confidence(cls, values: Floats, means: Floats, costs: Floats, confidence: float) -> "ShadowPrices":
        """Solve it so that the mean of what items to come cost is within the budget with some confidence, and as near
        to it as that allows: where classifiers are equal at a price, a share of the items gets the dearer one.

        means: (m,), or (n, m) of each item, to plan with; costs: (n, m) as they were for these items.
        O(n m h + n m log(n m)) as of ``knapsack.shadow_prices``.
        """
        n, z, planned = len(values), NormalDist().inv_cdf(confidence), np.broadcast_to(means, values.shape)
        least = float(planned.min(axis=1).mean())
        best = np.where(values == values.max(axis=1, keepdims=True), means, np.inf).min(axis=1)
        spread = float(costs.std(axis=0).max()) + float(np.ptp(planned.mean(axis=0)))
        ceiling = float(best.mean()) + z * spread / sqrt(n)
        budgets = np.unique(np.linspace(least, ceiling, MAX_POINTS))
        programme = KnapsackProblem.from_input(values, planned, n * least * (1 + ROUNDING))
        steps, start = compute_steps(programme), n * least
        plain = np.minimum.accumulate(steps.find_prices(budgets * n - start))
        targets = np.maximum.accumulate(np.maximum(budgets - z * _errors(values, means, costs, plain), least))
        prices = np.minimum.accumulate(steps.find_prices(targets * n - start))
        prices[-1] = 0.0
        low, high = (least + np.append(0.0, steps.spent)[count] / n for count in _counts(steps.slopes, prices))
        return cls(budgets, prices, np.clip((targets - low) / np.where(high > low, high - low, np.inf), 0.0, 1.0))

    def price_at(self, budget: float) -> float:
        """Give the price at a budget of a query."""
        return float(np.interp(budget, self.budgets, self.prices))

    def share_at(self, budget: float) -> float:
        """Tell of how many queries the dearer of equals is taken, at a budget of a query."""
        return float(np.interp(budget, self.budgets, self.shares)) if len(self.shares) else 0.0

    def choose(
        self, values: Floats, costs: Floats, budget: float, max_cost: float = np.inf, tie_break: float = 1.0
    ) -> int:
        """Choose for one item: the classifier whose value, less the price of its cost, is the highest.

        values, costs: (m,) of the item. None dearer than ``most``, and none but the cheapest where the budget affords
        no other for any item. Among equals the cheapest, or, for a lot below the share at the budget, the dearest; then
        the first.
        """
        able = self._affordable(costs, budget) & (costs <= max_cost)
        dearer = np.array([tie_break < self.share_at(budget)])
        return int(choose_best(np.where(able, values, -np.inf)[None], costs, self.price_at(budget), dearer)[0])

    def choose_each(self, values: Floats, costs: Floats, budget: float, tie_breaks: Floats | None = None) -> Int64s:
        """Choose for each of (n, m) items on its own: (n,). costs: (m,), or (n, m) of each; lots: (n,) of the items."""
        able = np.where(self._affordable(costs, budget), values, -np.inf)
        return choose_best(
            able, costs, self.price_at(budget), None if tie_breaks is None else tie_breaks < self.share_at(budget)
        )

    @staticmethod
    def _affordable(costs: Floats, budget: float) -> Bools:
        cheapest = costs.min(axis=-1, keepdims=True)
        return np.where(budget <= cheapest * (1 + ROUNDING), costs == cheapest, True)


def _errors(values: Floats, means: Floats, costs: Floats, prices: Floats) -> Floats:
    """Reckon the standard error of what items cost on average when they are routed at each of (b,) prices, from some of
    these and lines between them: (b,)."""
    some = np.unique(np.linspace(0, len(prices) - 1, ERROR_POINTS).astype(np.int64))
    rows = np.arange(len(values))
    errors = [float(costs[rows, choose_best(values, means, prices[i])].std()) / sqrt(len(values)) for i in some]
    return np.interp(np.arange(len(prices)), some, errors)


def _counts(slopes: Floats, prices: Floats) -> tuple[Int64s, Int64s]:
    """Count the steps, of falling slopes, that are steeper than each price, and those that are no less steep."""
    rising = -slopes
    slack = TIE * (1 + prices)
    return np.searchsorted(rising, -(prices + slack)), np.searchsorted(rising, -(prices - slack), side="right")


def choose_best(values: Floats, costs: Floats, price: float, dearer: Bools | None = None) -> Int64s:
    """Choose for each of (n, m) items the classifier whose value, less the price of its cost, is the highest: (n,).
    Among equals the cheapest, or the dearest for items of which that is told, (n,); then the first. costs: (m,), or
    (n, m) of each item."""
    savings = values - price * costs
    highest = savings.max(axis=1, keepdims=True)
    equal = savings >= highest - TIE * (np.abs(highest) + price * float(costs.max()) + 1.0)
    cheapest = np.where(equal, costs, np.inf).argmin(axis=1)
    if dearer is None or not dearer.any():
        return np.asarray(cheapest)
    return np.asarray(np.where(dearer, np.where(equal, costs, -np.inf).argmax(axis=1), cheapest))


def draw_tie_breaks(queries: ArrayLike) -> Floats:
    """Draw from 0 to below 1 for each of n queries, (n, d), by its numbers alone: (n,)."""
    rows = np.ascontiguousarray(queries, dtype=np.float32)
    return np.array([int.from_bytes(sha256(row.tobytes()).digest()[:6]) / 2**48 for row in rows])
