"""Pacing: a stream of single queries that share a budget (an addition to OCCAM, which routes batches).

A query is priced by what is left of the budget for each query that is left, times exp(lean). The lean is a controller's
memory: it rises by ``GAIN`` times the share of that amount which a query did not take, and falls by what it took too
much. So queries that are cheaper or dearer than those that the prices were learned from come to cost the right amount
on average after some 1 / ``GAIN`` of them. No query may take so much that the cheapest answer to all after it is not
left, so the total is kept whatever comes.

A stream may have several accounts: its own, its tenant's, and one of each further resource. The poorer of the first two
tells the price of cost. Of a resource no build knows the price: it begins at 0, and rises by 1 / √queries for a query
that uses its share twice over, and falls for one that uses less (online mirror descent: Balseiro, Lu, Mirrokni,
Operations Research 71, 2023).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from models.arrays import Bools, Floats
from models.errors import Infeasible

ROUNDING = 1e-9
"""Sums of a million costs are off by less than this share."""
GAIN = 0.005
MOST_LEAN = 4.0
"""The lean stays between this and its negative; of a resource between 0 and the negative."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What a stream has spent so far, on how many queries, and the lean."""

    spent: float = 0.0
    queries: int = 0
    lean: float = 0.0


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of so many queries with one budget for all, of which each costs at least ``cheapest``; gain: how fast
    the lean follows; highest: what the lean is at most."""

    total: float
    queries: int
    cheapest: float
    gain: float = GAIN
    highest: float = MOST_LEAN

    @classmethod
    def of_resource(cls, total: float, queries: int, least: float) -> "Stream":
        """Share a resource, of which no build knows the price."""
        return cls(total, queries, least, 1 / sqrt(queries), 0.0)

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

    def price_now(self, so_far: Spending) -> float:
        """Give the price of a resource, in right answers for a unit."""
        share = self.share(so_far)
        return -so_far.lean / share if share > 0 else 0.0

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
        return 0.0 if share <= 0 else max(self.gain * (share - cost) / share, -1.0)

    def after(self, so_far: Spending, cost: float) -> Spending:
        """Count a query: what was spent with it."""
        lean = min(max(so_far.lean + self.leaning(so_far, cost), -MOST_LEAN), self.highest)
        return Spending(so_far.spent + cost, so_far.queries + 1, lean)


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """Something that the queries of a stream, or of a tenant, share. name: empty of the stream's own; uses: (m,) what
    the next query takes of it with each classifier; is_cost: whether that is its cost."""

    name: tuple[str, ...]
    stream: Stream
    uses: Floats
    is_cost: bool


@dataclass(frozen=True, slots=True)
class Window:
    """At most so many calls of a classifier, by its place, in any so many seconds."""

    name: str
    classifier: int
    most: int
    span_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """What a stream is held to: accounts, the stream's own first, and windows. among: (m,) the classifiers that can be
    had; None: all."""

    accounts: tuple[Account, ...]
    windows: tuple[Window, ...] = ()
    among: Bools | None = None

    def able(self, states: tuple[Spending, ...], free: tuple[int, ...]) -> Bools:
        """Tell which classifiers the next query can have, (m,), given how far accounts have come and how many calls
        windows have free."""
        able = np.ones(len(self.accounts[0].uses), dtype=np.bool_) if self.among is None else self.among.copy()
        for account, state in zip(self.accounts, states, strict=True):
            able &= account.uses <= account.stream.most(state)
        for window, calls in zip(self.windows, free, strict=True):
            able[window.classifier] &= calls > 0
        return able

    def budget_now(self, states: tuple[Spending, ...]) -> float:
        """Give the budget whose price the next query is routed by: the poorer one's."""
        paired = zip(self.accounts, states, strict=True)
        return min(account.stream.budget_now(state) for account, state in paired if account.is_cost)

    def priced(self, states: tuple[Spending, ...]) -> Floats:
        """Price what the next query takes of resources with each classifier, in right answers: (m,)."""
        prices = np.zeros(len(self.accounts[0].uses))
        for account, state in zip(self.accounts, states, strict=True):
            if not account.is_cost:
                prices += account.stream.price_now(state) * account.uses
        return prices


Choose = Callable[[tuple[Spending, ...], Bools], int]
"""Given how far accounts have come, and which classifiers can be had, (m,), the one that is taken."""
