"""The assignment programme (OCCAM, Equation 4), checked, and what an answer to it says.

**What is within the budget.** The cost of an assignment is the sum of its n costs, rounded once (``math.fsum``), and
it is within the budget if that number is at most the budget. So ten times 0.1 is within 1.0, though added up one by
one it may seem less; three times 0.1 is 0.30000000000000004 and not within 0.3. Values are added up the same way.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats, Int64s
from models.errors import Infeasible

MAX_NUMBER, MIN_COST = 1e75, 1e-75
"""Values and costs are at most this, and costs that are not 0 at least that: no quotient can overflow."""
MIN_VALUE = 1e-9
"""Gaps are relative to the value of the assignment, or to this if it is nearer to 0."""


@dataclass(frozen=True, slots=True, eq=False)
class KnapsackAssignment:
    """Which classifier answers which query, and how good that is.

    choice: (n,) int64 classifiers, read-only. value and cost: their sums, in the units of the input, each rounded once.
    bound: no assignment within the budget is worth more. gap: (bound - value) / max(\\|value\\|, 1e-9). price: of one
    more unit of budget in the linear relaxation, at least 0.
    """

    choice: Int64s
    value: float
    cost: float
    bound: float
    gap: float
    price: float


@dataclass(frozen=True, slots=True, eq=False)
class KnapsackProblem:
    """values and costs: (n, m) float64, costs possibly a view that repeats one row; a choice that is not allowed has
    the value -inf."""

    values: Floats
    costs: Floats
    budget: float

    @classmethod
    def from_input(cls, values: ArrayLike, costs: ArrayLike, budget: float) -> "KnapsackProblem":
        """Check shapes, numbers and that something is affordable; raises InvalidRequest or Infeasible."""
        values = _checked_values(values)
        problem = cls(values, _checked_costs(costs, values.shape), _checked_budget(budget))
        least = problem.sum_costs(problem.choose_cheapest())
        if least > problem.budget:
            raise Infeasible(f"the cheapest assignment costs {least!r}, the budget is {problem.budget!r}")
        return problem

    def choose_cheapest(self) -> Int64s:
        """Give each row its cheapest choice, the most valuable among equals, then the first."""
        allowed = np.where(self.values == -np.inf, np.inf, self.costs)
        least = allowed.min(axis=1, keepdims=True)
        choice: Int64s = np.where(allowed == least, self.values, -np.inf).argmax(axis=1)
        return choice

    def sum_values(self, choice: Int64s) -> float:
        """Add up the values of an assignment, rounded once."""
        return math.fsum(self.values[np.arange(len(choice)), choice].tolist())

    def list_costs(self, choice: Int64s) -> list[float]:
        """List what an assignment pays."""
        paid: list[float] = self.costs[np.arange(len(choice)), choice].tolist()
        return paid

    def sum_costs(self, choice: Int64s) -> float:
        """Add up the costs of an assignment, rounded once."""
        return math.fsum(self.list_costs(choice))

    def make_assignment(self, choice: Int64s, bound: float, price: float) -> KnapsackAssignment:
        """Say how good an assignment is, given a bound on what any can be worth, and the price of the budget."""
        value = self.sum_values(choice)
        bound = max(bound, value)
        choice.flags.writeable = False
        gap = (bound - value) / max(abs(value), MIN_VALUE)
        return KnapsackAssignment(choice, value, self.sum_costs(choice), bound, gap, price)


def _fault(name: str, message: str) -> InvalidRequest:
    return InvalidRequest.at(Fault((name,), message))


def _numbers(name: str, given: ArrayLike) -> Floats:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _fault(name, f"must be an array of numbers: {error}") from error


def _checked_values(given: ArrayLike) -> Floats:
    values = _numbers("values", given)
    if values.ndim != 2 or values.size == 0:
        raise _fault("values", f"must have the shape (queries, classifiers), neither 0, has {values.shape}")
    _refuse("values", values, ~(np.abs(values) <= MAX_NUMBER), f"must be finite and within ±{MAX_NUMBER:g}")
    return values


def _checked_costs(given: ArrayLike, shape: tuple[int, ...]) -> Floats:
    costs = _numbers("costs", given)
    if costs.shape not in (shape, shape[1:]):
        raise _fault("costs", f"must have the shape {shape[1:]} or {shape}, has {costs.shape}")
    bad = ~((costs >= MIN_COST) & (costs <= MAX_NUMBER) | (costs == 0))
    _refuse("costs", costs, bad, f"must be 0 or from {MIN_COST:g} to {MAX_NUMBER:g}")
    return np.broadcast_to(costs, shape)


def _refuse(name: str, array: Floats, bad: Bools, rule: str) -> None:
    """Name the first entry that breaks the rule, and how many do."""
    if bad.any():
        where = tuple(np.argwhere(bad)[0].tolist())
        many = int(bad.sum())
        more = f" (and {many - 1} more)" if many > 1 else ""
        raise InvalidRequest.at(Fault((name, *where), f"is {array[where]}, {rule}{more}"))


def _checked_budget(given: Any) -> float:
    if not isinstance(given, Real) or not math.isfinite(given):
        raise _fault("budget", f"is {given!r}, must be a finite number")
    return float(given)


def validate_budgets(given: ArrayLike) -> Floats:
    """Check a list of budgets."""
    budgets = _numbers("budgets", given)
    if budgets.ndim != 1 or budgets.size == 0:
        raise _fault("budgets", f"must be a list of at least one, has the shape {budgets.shape}")
    _refuse("budgets", budgets, ~np.isfinite(budgets), "must be finite")
    return budgets


def validate_limit(name: str, given: Any) -> float:
    """Check a number that must be at least 0, and may be infinite."""
    if not isinstance(given, Real) or not float(given) >= 0:
        raise _fault(name, f"is {given!r}, must be a number of at least 0")
    return float(given)
