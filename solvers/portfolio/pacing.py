"""Budget pacing of a stream of single queries (an addition to OCCAM, which routes batches).

A query is routed by the shadow price at a budget. This budget is the remaining budget per remaining query, times
exp(credit). The credit is the state of an integral controller. It rises by ``GAIN`` times the relative saving of a
query, and falls by ``GAIN`` times its relative excess. Streams may be cheaper or more expensive than the rows of the
build. They converge to the budget after about 1 / ``GAIN`` queries. The cost of a query is limited so that the cheapest
answers to all later queries still fit. So the total is never exceeded.

A stream may have several accounts: one for the stream, one for its tenant, and one for each further resource. The
smaller budget of stream and tenant sets the shadow price of cost. The build does not know the shadow prices of
resources, so they are learned by online mirror descent. They start at 0. They rise by 1 / √queries after a query that
uses twice its share, and fall after a query that uses less than its share.

Source: Balseiro, Lu, Mirrokni, *Operations Research* 71, 2023.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np

from models.arrays import Bools, Floats
from models.errors import Infeasible

ROUNDING = 1e-9
"""Upper bound of the relative rounding error of a sum of a million costs."""
GAIN = 0.005
MAX_CREDIT = 4.0
"""Maximum magnitude of the credit; a resource's credit is at most 0."""


@dataclass(frozen=True, slots=True)
class StreamSpending:
    """State of a stream: amount spent, queries answered, and credit."""

    spent: float = 0.0
    queries: int = 0
    credit: float = 0.0


@dataclass(frozen=True, slots=True)
class BudgetStream:
    """A stream of queries with a common budget.

    Attributes:
        total: the budget of all queries.
        queries: the number of queries.
        cheapest: the least cost of a query.
        gain: step size of the credit per query.
        max_credit: upper bound of the credit.
    """

    total: float
    queries: int
    cheapest: float
    gain: float = GAIN
    max_credit: float = MAX_CREDIT

    @classmethod
    def from_resource(cls, total: float, queries: int, least: float) -> "BudgetStream":
        """Return the stream of a resource; its shadow price is not known from the build."""
        return cls(total, queries, least, 1 / sqrt(queries), 0.0)

    def check_feasible(self, unit: str) -> None:
        """Raise Infeasible if even the cheapest answers exceed the total budget."""
        least = self.queries * self.cheapest
        if least > self.total * (1 + ROUNDING):
            raise Infeasible(f"total must be at least {least:g} {unit} for {self.queries} queries, got {self.total:g}")

    def remaining_share(self, spending: StreamSpending) -> float:
        """Return the remaining budget per remaining query.

        >>> BudgetStream(10.0, 5, 1.0).remaining_share(StreamSpending(6.0, 3))
        2.0
        """
        return max(self.total - spending.spent, 0.0) / max(self.queries - spending.queries, 1)

    def current_budget(self, spending: StreamSpending) -> float:
        """Return the budget for the next query: the remaining share, scaled by the credit.

        The plan's shadow price at this budget routes the query.
        """
        return self.remaining_share(spending) * exp(spending.credit)

    def current_price(self, spending: StreamSpending) -> float:
        """Return the shadow price of a resource, in accuracy per unit of the resource."""
        share = self.remaining_share(spending)
        return -spending.credit / share if share > 0 else 0.0

    def max_cost(self, spending: StreamSpending) -> float:
        """Return the maximum cost of the next query.

        The cheapest answers to all later queries then still fit.

        >>> round(BudgetStream(10.0, 5, 1.0).max_cost(StreamSpending(6.0, 2)), 6)
        2.0
        """
        after = max(self.queries - spending.queries - 1, 0) * self.cheapest
        return self.total - spending.spent - after + ROUNDING * self.total

    def credit_change(self, spending: StreamSpending, cost: float) -> float:
        """Return the change of the credit if the next query has this cost.

        >>> BudgetStream(10.0, 5, 1.0).credit_change(StreamSpending(), 1.0)
        0.0025
        """
        share = self.remaining_share(spending)
        return 0.0 if share <= 0 else max(self.gain * (share - cost) / share, -1.0)


@dataclass(frozen=True, slots=True, eq=False)
class StreamAccount:
    """A budget or resource shared by the queries of a stream or tenant.

    Attributes:
        name: empty for the account of the stream itself.
        stream: the budget.
        uses: (m,), use by the next query with each classifier.
        is_cost: whether uses are costs.
    """

    name: tuple[str, ...]
    stream: BudgetStream
    uses: Floats
    is_cost: bool


@dataclass(frozen=True, slots=True)
class RateWindow:
    """Rate limit: at most ``max_calls`` calls of a classifier in ``span_s`` seconds.

    ``classifier`` is the index of the classifier.
    """

    name: str
    classifier: int
    max_calls: int
    span_s: float


@dataclass(frozen=True, slots=True, eq=False)
class StreamLimits:
    """Limits of a stream.

    Attributes:
        accounts: the account of the stream itself, then the others.
        windows: rate limits.
        allowed: (m,), available classifiers; None: all.
    """

    accounts: tuple[StreamAccount, ...]
    windows: tuple[RateWindow, ...] = ()
    allowed: Bools | None = None

    def available_mask(self, states: tuple[StreamSpending, ...], remaining_calls: tuple[int, ...]) -> Bools:
        """Return which classifiers the next query may use, (m,).

        Args:
            states: the state of each account.
            remaining_calls: the remaining calls of each window.
        """
        able = np.ones(len(self.accounts[0].uses), dtype=np.bool_) if self.allowed is None else self.allowed.copy()
        for account, state in zip(self.accounts, states, strict=True):
            able &= account.uses <= account.stream.max_cost(state)
        for window, calls in zip(self.windows, remaining_calls, strict=True):
            able[window.classifier] &= calls > 0
        return able

    def current_budget(self, states: tuple[StreamSpending, ...]) -> float:
        """Return the budget for the next query: the smallest one of all cost accounts."""
        paired = zip(self.accounts, states, strict=True)
        return min(account.stream.current_budget(state) for account, state in paired if account.is_cost)

    def price_resources(self, states: tuple[StreamSpending, ...]) -> Floats:
        """Return the next query's resource use times shadow prices, by classifier: (m,).

        The unit is accuracy.
        """
        prices = np.zeros(len(self.accounts[0].uses))
        for account, state in zip(self.accounts, states, strict=True):
            if not account.is_cost:
                prices += account.stream.current_price(state) * account.uses
        return prices


ChooseClassifier = Callable[[tuple[StreamSpending, ...], Bools], int]
"""Returns the chosen classifier, given the states of the accounts and the available classifiers, (m,)."""
