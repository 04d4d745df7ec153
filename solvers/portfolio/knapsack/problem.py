"""Multiple-choice knapsack problem (OCCAM, Equation 4): validated input and result.

**Budget test.** The cost of an assignment is the sum of its n costs, rounded once (``math.fsum``). It is within the
budget if it is at most the budget. So ten times 0.1 is within 1.0, although naive summation may differ. Three times 0.1
is 0.30000000000000004 and not within 0.3. Values are summed in the same way.
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
"""Bounds of values and of nonzero costs, so that no quotient overflows."""
MIN_VALUE = 1e-9
"""Lower bound of the value that gaps are relative to."""


@dataclass(frozen=True, slots=True, eq=False)
class KnapsackAssignment:
    """An assignment and its quality.

    Attributes:
        choice: (n,) int64, classifier of each query, read-only.
        value, cost: sums of the choices' values and costs, each rounded once.
        bound: upper bound of the value of assignments within the budget.
        gap: (bound - value) / max(abs(value), 1e-9).
        price: shadow price of the budget in the linear relaxation, at least 0.
    """

    choice: Int64s
    value: float
    cost: float
    bound: float
    gap: float
    price: float


@dataclass(frozen=True, slots=True, eq=False)
class KnapsackProblem:
    """A knapsack problem.

    Attributes:
        values: (n, m) float64; -inf for excluded choices.
        costs: (n, m) float64, possibly a view that repeats one row.
        budget: for all n queries.
    """

    values: Floats
    costs: Floats
    budget: float

    @classmethod
    def from_input(cls, values: ArrayLike, costs: ArrayLike, budget: float) -> "KnapsackProblem":
        """Validate shapes, numbers, and feasibility.

        Raises InvalidRequest or Infeasible.
        """
        values = _validate_values(values)
        problem = cls(values, _validate_costs(costs, values.shape), _validate_budget(budget))
        least = problem.sum_costs(problem.choose_cheapest())
        if least > problem.budget:
            raise Infeasible(
                f"budget must be at least {least!r}, the cost of the cheapest assignment, got {problem.budget!r}"
            )
        return problem

    def choose_cheapest(self) -> Int64s:
        """Return each row's cheapest choice; ties go to the highest value, then to the first."""
        allowed = np.where(self.values == -np.inf, np.inf, self.costs)
        least = allowed.min(axis=1, keepdims=True)
        choice: Int64s = np.where(allowed == least, self.values, -np.inf).argmax(axis=1)
        return choice

    def sum_values(self, choice: Int64s) -> float:
        """Return the value of an assignment, rounded once."""
        return math.fsum(self.values[np.arange(len(choice)), choice].tolist())

    def list_costs(self, choice: Int64s) -> list[float]:
        """Return the costs of an assignment."""
        paid: list[float] = self.costs[np.arange(len(choice)), choice].tolist()
        return paid

    def sum_costs(self, choice: Int64s) -> float:
        """Return the cost of an assignment, rounded once."""
        return math.fsum(self.list_costs(choice))

    def make_assignment(self, choice: Int64s, bound: float, price: float) -> KnapsackAssignment:
        """Return the assignment with its gap.

        The gap follows from an upper bound of the value; the shadow price is stored.
        """
        value = self.sum_values(choice)
        bound = max(bound, value)
        choice.flags.writeable = False
        gap = (bound - value) / max(abs(value), MIN_VALUE)
        return KnapsackAssignment(choice, value, self.sum_costs(choice), bound, gap, price)


def _make_error(name: str, message: str) -> InvalidRequest:
    return InvalidRequest.from_faults(Fault((name,), message))


def _to_array(name: str, given: ArrayLike) -> Floats:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _make_error(name, f"must be an array of numbers: {error}") from error


def _validate_values(given: ArrayLike) -> Floats:
    values = _to_array("values", given)
    if values.ndim != 2 or values.size == 0:
        raise _make_error(
            "values", f"must have shape (queries, classifiers) with at least 1 of each, got {values.shape}"
        )
    _reject_entries("values", values, ~(np.abs(values) <= MAX_NUMBER), f"must be finite and within ±{MAX_NUMBER:g}")
    return values


def _validate_costs(given: ArrayLike, shape: tuple[int, ...]) -> Floats:
    costs = _to_array("costs", given)
    if costs.shape not in (shape, shape[1:]):
        raise _make_error("costs", f"must have shape {shape[1:]} or {shape}, got {costs.shape}")
    bad = ~((costs >= MIN_COST) & (costs <= MAX_NUMBER) | (costs == 0))
    _reject_entries("costs", costs, bad, f"must be 0 or from {MIN_COST:g} to {MAX_NUMBER:g}")
    return np.broadcast_to(costs, shape)


def _reject_entries(name: str, array: Floats, bad: Bools, rule: str) -> None:
    """Raise InvalidRequest for the first entry that violates the rule."""
    if bad.any():
        where = tuple(np.argwhere(bad)[0].tolist())
        many = int(bad.sum())
        more = f" (and {many - 1} more)" if many > 1 else ""
        raise InvalidRequest.from_faults(Fault((name, *where), f"{rule}, got {array[where]}{more}"))


def _validate_budget(given: Any) -> float:
    if not isinstance(given, Real) or not math.isfinite(given):
        raise _make_error("budget", f"must be a finite number, got {given!r}")
    return float(given)


def validate_budgets(given: ArrayLike) -> Floats:
    """Return a list of budgets as an array; raises InvalidRequest."""
    budgets = _to_array("budgets", given)
    if budgets.ndim != 1 or budgets.size == 0:
        raise _make_error("budgets", f"must be a nonempty list, got shape {budgets.shape}")
    _reject_entries("budgets", budgets, ~np.isfinite(budgets), "must be finite")
    return budgets


def validate_limit(name: str, given: Any) -> float:
    """Return a number of at least 0, possibly infinite; raises InvalidRequest."""
    if not isinstance(given, Real) or not float(given) >= 0:
        raise _make_error(name, f"must be a number of at least 0, got {given!r}")
    return float(given)
