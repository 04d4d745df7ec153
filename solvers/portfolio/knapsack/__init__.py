"""Assign each query to one classifier within a budget for all of them: OCCAM, Equation 4, to a proved gap.

The programme is a multiple-choice knapsack. It is solved by its own structure, without an integer programming library:

===============  ==========================================================================
module           what it does
===============  ==========================================================================
``programme``    checks the input; what "within the budget" means; the answer
``relaxation``   the linear relaxation for all budgets at once; prices of the budget
``core``         which moves away from the relaxed solution a better assignment can contain
``core_search``  a dynamic programme over these, with bounds from the relaxation
``solve``        puts these together
``exact_sums``   sums of costs that do not round
``max_min``      the other objective: the least value over queries
===============  ==========================================================================

Ties: among choices of a row with one cost and value the first is taken, of one value the cheapest. Which of several
assignments of one value is returned is not specified otherwise, but is the same for the same input.
"""

from collections.abc import Callable
from time import monotonic

from numpy.typing import ArrayLike

from models.arrays import Floats
from solvers.portfolio.knapsack.max_min import restrict_to_best_least
from solvers.portfolio.knapsack.problem import KnapsackAssignment, KnapsackProblem, validate_budgets, validate_limit
from solvers.portfolio.knapsack.relaxation import compute_steps
from solvers.portfolio.knapsack.solve import solve

__all__ = ["KnapsackAssignment", "assign", "assign_min", "compute_shadow_price", "compute_shadow_prices"]


def assign(
    values: ArrayLike,
    costs: ArrayLike,
    budget: float,
    *,
    gap: float = 1e-6,
    time_limit_s: float | None = None,
    clock: Callable[[], float] = monotonic,
) -> KnapsackAssignment:
    """Maximise the sum of values within the budget.

    values: (n, m) finite, of any sign; costs: (m,) or (n, m), at least 0; budget: for all n queries, in the unit of
    costs. gap: how far the value may be from the best there is, relative to it; 0 goes on to the optimum, and what is
    left as ``gap`` then is rounding: about n · 2e-14 times what a choice that matters can change. time_limit_s: the
    search (not the relaxation before it) ends after that many seconds by ``clock``, which is not read otherwise. Its
    memory is limited too: where it would need more than a million states at a time, as in subset sums of real numbers,
    it goes on with a part of them, and ends after 20 million. Then the best assignment found is returned: ``gap`` says
    what was proved, always. See ``programme`` for what is within the budget: to the last bit.

    O(n m h + n m log(n m)) time for hulls of at most h choices, and some 70 n m bytes, before the search; the search is
    exponential in the worst case and takes milliseconds in common ones. Raises InvalidRequest, and Infeasible, with the
    cost of the cheapest assignment.

    >>> assignment = assign([[0.5, 0.9], [0.5, 0.6], [0.7, 0.9]], [1.0, 3.0], 7.0)
    >>> assignment.choice.tolist(), round(assignment.value, 9), assignment.cost
    ([1, 0, 1], 2.3, 7.0)
    """
    problem = KnapsackProblem.from_input(values, costs, budget)
    return solve(problem, validate_limit("gap", gap), _timer(time_limit_s, clock))


def assign_min(
    values: ArrayLike,
    costs: ArrayLike,
    budget: float,
    *,
    gap: float = 1e-6,
    time_limit_s: float | None = None,
    clock: Callable[[], float] = monotonic,
) -> KnapsackAssignment:
    """Maximise the least value over queries within the budget, and among the best by that the sum of values.

    The least value is the largest possible, exactly; ``value``, ``bound`` and ``gap`` are about the sum, over
    assignments with that least value. Arguments, errors and cost as of ``assign``.

    >>> assign_min([[0.5, 0.9], [0.1, 0.6], [0.7, 0.9]], [1.0, 3.0], 5.0).choice.tolist()
    [0, 1, 0]
    """
    problem = restrict_to_best_least(KnapsackProblem.from_input(values, costs, budget))
    return solve(problem, validate_limit("gap", gap), _timer(time_limit_s, clock))


def compute_shadow_price(values: ArrayLike, costs: ArrayLike, budget: float) -> float:
    """Give the price of one more unit of budget in the linear relaxation: at least 0, and 0 if more is of no use.

    At this price, argmax of value - price · cost chooses for a query on its own much as ``assign`` does for all of
    them. Where the price changes at this very budget, it is the lower one. Errors as of ``assign``.

    >>> compute_shadow_price([[0.5, 1.0], [0.5, 0.75], [0.5, 1.5]], [1.0, 3.0], 6.0)
    0.25
    """
    return float(compute_shadow_prices(values, costs, [budget])[0])


def compute_shadow_prices(values: ArrayLike, costs: ArrayLike, budgets: ArrayLike) -> Floats:
    """Give the shadow prices (b,) for many budgets (b,), from one sort: O(n m h + n m log(n m) + b log(n m)) time.

    >>> compute_shadow_prices([[0.5, 0.9], [0.5, 0.6]], [1.0, 3.0], [2.0, 4.0, 6.0]).round(9).tolist()
    [0.2, 0.05, 0.0]
    """
    grid = validate_budgets(budgets)
    problem = KnapsackProblem.from_input(values, costs, float(grid.min()))
    steps = compute_steps(problem)
    return steps.find_prices(grid - problem.sum_costs(steps.start))


def _timer(limit_s: float | None, clock: Callable[[], float]) -> Callable[[], bool]:
    """Make the test whether there is time left."""
    if limit_s is None:
        return lambda: True
    end = clock() + validate_limit("time_limit_s", limit_s)
    return lambda: clock() < end
