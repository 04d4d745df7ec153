"""Shadow prices over budgets: what single queries are routed by, one at a time (the dual of OCCAM, Equation 4)."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.portfolio.knapsack import shadow_prices

POINTS = 257
"""Budgets at which prices are kept."""
ROUNDING = 1e-12
"""A budget that is below the cheapest cost by less than this share still counts as that cost."""

TIE = 1e-9
"""Values less priced costs that differ by less than this share are equal: a price is often the very one of a tie."""


@dataclass(frozen=True, slots=True, eq=False)
class ShadowPrices:
    """The price of cost, linear between budgets: (b,) budgets of a query, rising, and (b,) prices, falling to 0."""

    budgets: Floats
    prices: Floats

    @classmethod
    def of(cls, values: Floats, costs: Floats) -> "ShadowPrices":
        """Solve the dual on items whose values, (n, m), are those of queries to come; costs: (m,).

        From the budget that only the cheapest classifiers fit to the one at which every item gets its best.

        >>> prices = ShadowPrices.of(np.array([[0.5, 0.9], [0.5, 0.6]]), np.array([1.0, 3.0]))
        >>> round(prices.at(1.5), 9), round(prices.at(2.5), 9), prices.at(3.0)
        (0.2, 0.05, 0.0)
        """
        n = len(values)
        best = np.where(values == values.max(axis=1, keepdims=True), costs, np.inf).min(axis=1)
        budgets = np.unique(np.linspace(float(costs.min()), float(best.mean()), POINTS))
        prices = shadow_prices(values, costs, np.maximum(budgets * n, n * float(costs.min())))
        prices[-1] = 0.0
        return cls(budgets, np.minimum.accumulate(prices))

    def at(self, budget: float) -> float:
        """Give the price at a budget of a query."""
        return float(np.interp(budget, self.budgets, self.prices))

    def choose(self, values: Floats, costs: Floats, budget: float, most: float = np.inf) -> int:
        """Choose for one item: the classifier whose value, less the price of its cost, is the highest.

        values, costs: (m,). None dearer than ``most``, and none but the cheapest where the budget affords no other for
        any item. Among equals the cheapest, then the first.
        """
        able = costs <= most
        if budget <= float(costs.min()) * (1 + ROUNDING):
            able = costs == costs.min()
        price = self.at(budget)
        worth = np.where(able, values - price * costs, -np.inf)
        highest = float(worth.max())
        best = np.flatnonzero(worth >= highest - TIE * (abs(highest) + price * float(costs.max()) + 1.0))
        return int(best[np.argmin(costs[best])])

    def choose_each(self, values: Floats, costs: Floats, budget: float) -> Int64s:
        """Choose for each of (n, m) items on its own: (n,)."""
        return np.array([self.choose(row, costs, budget) for row in values], dtype=np.int64)
