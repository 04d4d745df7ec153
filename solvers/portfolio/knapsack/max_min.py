"""The largest value that every query can be given within the budget (OCCAM, Section 6: the least accuracy counts)."""

import math

import numpy as np

from solvers.portfolio.knapsack.problem import KnapsackProblem


def restrict_to_best_least(problem: KnapsackProblem) -> KnapsackProblem:
    """Allow only choices of at least the largest value t for which every row can have a choice worth t or more.

    t is one of the values. More is affordable the lower t is, so bisection over the distinct values finds it exactly:
    O(n m log(n m)) time. The programme must be feasible, and so is what comes of it.
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
