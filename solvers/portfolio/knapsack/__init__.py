"""Multiple-choice knapsack: assign each query to one classifier within a total budget.

It solves OCCAM's Equation 4 to a proved gap, without an integer programming library:

===============  ==========================================================================
module           purpose
===============  ==========================================================================
``problem``      input validation, exact budget test, and the result
``relaxation``   the linear relaxation for all budgets at once; shadow prices
``core``         moves away from the relaxed solution that a better assignment can contain
``core_search``  dynamic programming over these, with bounds from the relaxation
``solve``        the complete algorithm
``exact_sums``   sums of costs without rounding
``max_min``      the max-min objective: the least value over queries
===============  ==========================================================================

Ties: among choices of a row with equal value, the cheapest is used, then the first. If several assignments have equal
value, the returned one is unspecified but deterministic.
"""

from collections.abc import Callable
from time import monotonic

from numpy.typing import ArrayLike

from models.arrays import Floats
from solvers.portfolio.knapsack.max_min import restrict_to_max_min
from solvers.portfolio.knapsack.problem import KnapsackAssignment, KnapsackProblem, validate_budgets, validate_limit
from solvers.portfolio.knapsack.relaxation import compute_steps
from solvers.portfolio.knapsack.solve import solve

__all__ = ["KnapsackAssignment", "assign", "assign_max_min", "compute_shadow_price", "compute_shadow_prices"]


def assign(
    values: ArrayLike,
    costs: ArrayLike,
    budget: float,
    *,
    gap: float = 1e-6,
    time_limit_s: float | None = None,
    clock: Callable[[], float] = monotonic,
) -> KnapsackAssignment:
    """Maximize the sum of values within the budget.

    Args:
        values: (n, m), finite, of any sign.
        costs: (m,) or (n, m), at least 0.
        budget: for all n queries, in the unit of costs. See ``problem`` for the exact test.
        gap: relative optimality gap. 0 searches for the optimum; a gap from rounding remains, about n · 2e-14 times the
            value change of a relevant choice.
        time_limit_s: seconds by ``clock`` after which the search, but not the relaxation, ends. The search also keeps
            at most a million states per step, and ends after 20 million. The returned gap is always proved.
    Raises:
        InvalidRequest: invalid input.
        Infeasible: the budget is less than the cost of the cheapest assignment; the message has this cost.
    Complexity: O(n m h + n m log(n m)) time for hulls of at most h choices, and about 70 n m bytes, before the search.
        The search is exponential in the worst case and typically takes milliseconds.

    >>> assignment = assign([[0.5, 0.9], [0.5, 0.6], [0.7, 0.9]], [1.0, 3.0], 7.0)
    >>> assignment.choice.tolist(), round(assignment.value, 9), assignment.cost
    ([1, 0, 1], 2.3, 7.0)
    """
    problem = KnapsackProblem.from_input(values, costs, budget)
    return solve(problem, validate_limit("gap", gap), _make_timer(time_limit_s, clock))


def assign_max_min(
    values: ArrayLike,
    costs: ArrayLike,
    budget: float,
    *,
    gap: float = 1e-6,
    time_limit_s: float | None = None,
    clock: Callable[[], float] = monotonic,
) -> KnapsackAssignment:
    """Maximize the least value over queries within the budget, then the sum of values.

    The least value is exactly optimal. ``value``, ``bound``, and ``gap`` refer to the sum, over assignments with that
    least value. Arguments, errors, and complexity are those of ``assign``.

    >>> assign_max_min([[0.5, 0.9], [0.1, 0.6], [0.7, 0.9]], [1.0, 3.0], 5.0).choice.tolist()
    [0, 1, 0]
    """
    problem = restrict_to_max_min(KnapsackProblem.from_input(values, costs, budget))
    return solve(problem, validate_limit("gap", gap), _make_timer(time_limit_s, clock))


def compute_shadow_price(values: ArrayLike, costs: ArrayLike, budget: float) -> float:
    """Return the shadow price of the budget in the linear relaxation: at least 0.

    At this price, maximizing value - price · cost for each query is close to the assignment of ``assign``. If the
    shadow price jumps at this budget, the lower price is returned. Errors are those of ``assign``.

    >>> compute_shadow_price([[0.5, 1.0], [0.5, 0.75], [0.5, 1.5]], [1.0, 3.0], 6.0)
    0.25
    """
    return float(compute_shadow_prices(values, costs, [budget])[0])


def compute_shadow_prices(values: ArrayLike, costs: ArrayLike, budgets: ArrayLike) -> Floats:
    """Return the shadow prices, (b,), of several budgets, (b,), from one sort.

    Complexity: O(n m h + n m log(n m) + b log(n m)).

    >>> compute_shadow_prices([[0.5, 0.9], [0.5, 0.6]], [1.0, 3.0], [2.0, 4.0, 6.0]).round(9).tolist()
    [0.2, 0.05, 0.0]
    """
    grid = validate_budgets(budgets)
    problem = KnapsackProblem.from_input(values, costs, float(grid.min()))
    steps = compute_steps(problem)
    return steps.find_prices(grid - problem.sum_costs(steps.start))


def _make_timer(limit_s: float | None, clock: Callable[[], float]) -> Callable[[], bool]:
    """Return a function that returns whether time remains."""
    if limit_s is None:
        return lambda: True
    end = clock() + validate_limit("time_limit_s", limit_s)
    return lambda: clock() < end
