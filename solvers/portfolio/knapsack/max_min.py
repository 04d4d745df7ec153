"""Max-min objective: maximize the least value over queries within the budget (OCCAM, Section 6)."""

import math

import numpy as np

from solvers.portfolio.knapsack.problem import KnapsackProblem


def restrict_to_max_min(problem: KnapsackProblem) -> KnapsackProblem:
    """Exclude choices with a value below the optimal least value.

    The optimal least value t is the largest value that every row can reach within the budget. t is one of the values,
    and any lower value is affordable, too. So bisection over the distinct values finds t exactly. The problem must be
    feasible. The result is then feasible, too.

    Complexity: O(n m log(n m)) time.
    """
    values = problem.values
    levels = np.unique(values[values <= values.max(axis=1).min()])
    low, high = 0, len(levels)  # the first level allows everything
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _affordable(problem, float(levels[middle])) else (low, middle)
    allowed = np.where(values >= levels[low], values, -np.inf)
    return KnapsackProblem(allowed, problem.costs, problem.budget)


def _affordable(problem: KnapsackProblem, level: float) -> bool:
    least = np.where(problem.values >= level, problem.costs, np.inf).min(axis=1)
    return math.fsum(least.tolist()) <= problem.budget
