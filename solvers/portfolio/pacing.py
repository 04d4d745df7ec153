"""Pacing: a stream of single queries that share a budget (an addition to OCCAM, which routes batches).

A query is priced by what is left of the budget for each query that is left, times exp(lean). The lean is a controller's
memory: it rises by ``GAIN`` times the share of that amount which a query did not take, and falls by what it took too
much. So queries that are cheaper or dearer than those that the prices were learned from come to cost the right amount
on average after some 1 / ``GAIN`` of them. No query may take so much that the cheapest answer to all after it is not
left, so the total is kept whatever comes.
"""

from dataclasses import dataclass
from math import exp

from models.errors import Infeasible

ROUNDING = 1e-9
"""Sums of a million costs are off by less than this share."""
GAIN = 0.005
MOST_LEAN = 4.0
"""The lean stays between this and its negative."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What a stream has spent so far, on how many queries, and the lean."""

    spent: float = 0.0
    queries: int = 0
    lean: float = 0.0


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of so many queries with one budget for all, of which each costs at least ``cheapest``."""

    total: float
    queries: int
    cheapest: float

    def refuse_if_hopeless(self, unit: str) -> None:
        """Raise Infeasible, with the numbers, if not even the cheapest answers fit."""
        least = self.queries * self.cheapest
        if least > self.total * (1 + ROUNDING):
            raise Infeasible(
                f"the cheapest way to answer {self.queries} queries costs {least:g} {unit}, the total is {self.total:g}"
            )

    def share(self, so_far: Spending) -> float:
        """Give what is left for each query that is left.

        >>> Stream(10.0, 5, 1.0).share(Spending(6.0, 3))
        2.0
        """
        return max(self.total - so_far.spent, 0.0) / max(self.queries - so_far.queries, 1)

    def budget_now(self, so_far: Spending) -> float:
        """Give the budget whose price the next query is routed by."""
        return self.share(so_far) * exp(so_far.lean)

    def most(self, so_far: Spending) -> float:
        """Give what the next query may cost at most, so that the cheapest answers to all after it still fit.

        >>> round(Stream(10.0, 5, 1.0).most(Spending(6.0, 2)), 6)
        2.0
        """
        after = max(self.queries - so_far.queries - 1, 0) * self.cheapest
        return self.total - so_far.spent - after + ROUNDING * self.total

    def leaning(self, so_far: Spending, cost: float) -> float:
        """Give by how much the lean rises when the next query costs so much.

        >>> Stream(10.0, 5, 1.0).leaning(Spending(), 1.0)
        0.0025
        """
        share = self.share(so_far)
        return 0.0 if share <= 0 else max(GAIN * (share - cost) / share, -1.0)

    def after(self, so_far: Spending, cost: float) -> Spending:
        """Count a query: what was spent with it."""
        lean = min(max(so_far.lean + self.leaning(so_far, cost), -MOST_LEAN), MOST_LEAN)
        return Spending(so_far.spent + cost, so_far.queries + 1, lean)
