"""Shadow prices of cost over budgets (the dual of OCCAM's Equation 4).

They route single queries one at a time.
"""

from collections.abc import Callable
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
"""Number of budgets with a stored price."""
ERROR_POINTS = 33
"""Number of prices at which costs are measured."""
ROUNDING = 1e-12
"""Relative tolerance of the cheapest cost."""

TIE = 1e-9
"""Values minus priced costs within this share are ties: a price is often exactly that of a tie."""


ErrorFunction = Callable[[Floats], Floats]
"""Standard errors of mean costs, (b,), of budgets per query, (b,)."""


def ignore_error(budgets: Floats) -> Floats:
    """Return standard errors of 0."""
    return np.zeros(len(budgets))


@dataclass(frozen=True, slots=True, eq=False)
class ShadowPrices:
    """Shadow price of cost as a function of the budget, linear between ``budgets``.

    Attributes:
        budgets: (b,), budgets per query, rising.
        prices: (b,), falling to 0.
        shares: (b,), share of tied queries that get the more expensive classifier; (0,) if none do.
    """

    budgets: Floats
    prices: Floats
    shares: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def from_values(cls, values: Floats, costs: Floats) -> "ShadowPrices":
        """Solve the dual on a sample of items.

        Budgets range from the cheapest assignment to the one where every item gets its best classifier.

        Args:
            values: (n, m).
            costs: (m,) or (n, m).

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
    def with_confidence(
        cls,
        values: Floats,
        means: Floats,
        costs: Floats,
        confidence: float,
        refit_error: ErrorFunction = ignore_error,
    ) -> "ShadowPrices":
        """Solve the dual so that the mean cost of future items is within the budget with some confidence.

        The mean cost is as close to the budget as this confidence allows: in ties, a share of the items gets the more
        expensive classifier. If measured costs differ from planned ones, the budget applies to measured costs.

        Args:
            values: (n, m).
            means: (m,) or (n, m), planned costs.
            costs: (n, m), measured costs.
            confidence: probability, from 0.5 to 1.
            refit_error: returns the additional standard error of the mean cost at budgets, (b,).
        Complexity: O(n m h + n m log(n m)), as ``knapsack.compute_shadow_prices``.
        """
        n, z, planned = len(values), NormalDist().inv_cdf(confidence), np.broadcast_to(means, values.shape)
        least = float(planned.min(axis=1).mean())
        best = choose_best(values, means, 0.0)
        spread = float(costs.std(axis=0).max()) + float(np.ptp(planned.mean(axis=0)))
        most = max(float(each[np.arange(n), best].mean()) for each in (planned, costs))
        ceiling = most + z * float(np.hypot(spread / sqrt(n), refit_error(np.array([most]))[0]))
        budgets = np.unique(np.linspace(least, max(ceiling, least), MAX_POINTS))
        spending = np.linspace(least, max(float(planned[np.arange(n), best].mean()), least), MAX_POINTS)
        problem = KnapsackProblem.from_input(values, planned, n * least * (1 + ROUNDING))
        steps, start = compute_steps(problem), n * least
        plain = np.minimum.accumulate(steps.find_prices(spending * n - start))
        overruns, errors = _measure_overruns(values, means, costs, plain)
        measured = np.maximum.accumulate(spending + overruns)
        reserves = z * np.hypot(np.interp(budgets, measured, errors), refit_error(budgets))
        targets = np.interp(np.maximum.accumulate(budgets - reserves), measured, spending)
        prices = np.minimum.accumulate(steps.find_prices(targets * n - start))
        prices[-1] = 0.0
        low, high = (least + np.append(0.0, steps.spent)[count] / n for count in _count_steps(steps.slopes, prices))
        return cls(budgets, prices, np.clip((targets - low) / np.where(high > low, high - low, np.inf), 0.0, 1.0))

    def price_at(self, budget: float) -> float:
        """Return the shadow price at a budget per query."""
        return float(np.interp(budget, self.budgets, self.prices))

    def share_at(self, budget: float) -> float:
        """Return the share of ties that get the more expensive classifier at a budget per query."""
        return float(np.interp(budget, self.budgets, self.shares)) if len(self.shares) else 0.0

    def choose(
        self, values: Floats, costs: Floats, budget: float, max_cost: float = np.inf, tie_break: float = 1.0
    ) -> int:
        """Return the classifier with the highest value minus cost times shadow price, for one item.

        If the budget affords only the cheapest classifier, it is chosen. Ties go to the cheapest classifier, or to the
        most expensive if ``tie_break`` is below the share at the budget. Further ties go to the first.

        Args:
            values, costs: (m,).
            budget: budget per query.
            max_cost: maximum cost of the item.
            tie_break: in [0, 1).
        """
        able = self._affordable(costs, budget) & (costs <= max_cost)
        prefers_expensive = np.array([tie_break < self.share_at(budget)])
        return int(
            choose_best(np.where(able, values, -np.inf)[None], costs, self.price_at(budget), prefers_expensive)[0]
        )

    def choose_each(self, values: Floats, costs: Floats, budget: float, tie_breaks: Floats | None = None) -> Int64s:
        """Return the choice of each item: (n,).

        Args:
            values: (n, m).
            costs: (m,) or (n, m).
            budget: budget per query.
            tie_breaks: (n,), in [0, 1).
        """
        able = np.where(self._affordable(costs, budget), values, -np.inf)
        return choose_best(
            able, costs, self.price_at(budget), None if tie_breaks is None else tie_breaks < self.share_at(budget)
        )

    @staticmethod
    def _affordable(costs: Floats, budget: float) -> Bools:
        cheapest = costs.min(axis=-1, keepdims=True)
        return np.where(budget <= cheapest * (1 + ROUNDING), costs == cheapest, True)


def _measure_overruns(values: Floats, means: Floats, costs: Floats, prices: Floats) -> tuple[Floats, Floats]:
    """Return the mean of measured minus planned costs at each price, and its standard error: (b,) each.

    The standard error is that of the mean cost. Both are interpolated between some of the prices.
    """
    some = np.unique(np.linspace(0, len(prices) - 1, ERROR_POINTS).astype(np.int64))
    rows, planned = np.arange(len(values)), np.broadcast_to(means, values.shape)
    overruns, errors = np.empty(len(some)), np.empty(len(some))
    for at, place in enumerate(some.tolist()):
        choice = choose_best(values, means, prices[place])
        paid = costs[rows, choice]
        overruns[at], errors[at] = (paid - planned[rows, choice]).mean(), paid.std() / sqrt(len(values))
    every = np.arange(len(prices))
    return np.interp(every, some, overruns), np.interp(every, some, errors)


def _count_steps(slopes: Floats, prices: Floats) -> tuple[Int64s, Int64s]:
    """Return how many of the falling slopes are above each price, and how many are at least the price."""
    rising = -slopes
    slack = TIE * (1 + prices)
    return np.searchsorted(rising, -(prices + slack)), np.searchsorted(rising, -(prices - slack), side="right")


def choose_best(values: Floats, costs: Floats, price: float, prefers_expensive: Bools | None = None) -> Int64s:
    """Return for each item the classifier with the highest value minus priced cost: (n,).

    Ties go to the cheapest classifier, or to the most expensive if ``prefers_expensive``, (n,). Further ties go to the
    first.

    Args:
        values: (n, m).
        costs: (m,) or (n, m).
    """
    savings = values - price * costs
    highest = savings.max(axis=1, keepdims=True)
    equal = savings >= highest - TIE * (np.abs(highest) + price * float(costs.max()) + 1.0)
    cheapest = np.where(equal, costs, np.inf).argmin(axis=1)
    if prefers_expensive is None or not prefers_expensive.any():
        return np.asarray(cheapest)
    return np.asarray(np.where(prefers_expensive, np.where(equal, costs, -np.inf).argmax(axis=1), cheapest))


def draw_tie_breaks(queries: ArrayLike) -> Floats:
    """Return deterministic tie-breaks in [0, 1), (n,), from the embeddings of queries, (n, d)."""
    rows = np.ascontiguousarray(queries, dtype=np.float32)
    return np.array([int.from_bytes(sha256(row.tobytes()).digest()[:6]) / 2**48 for row in rows])
