"""Routing baselines within a total budget (OCCAM, Section 5.1).

==============  ============================================================================================
baseline        how it chooses
==============  ============================================================================================
single_best     for all queries, the affordable classifier that is the most accurate on build rows (the paper:
                the most expensive one; this can only be stronger)
random          the assignment problem with uniformly random estimates
oracle          the assignment problem with the true outcomes
frugal_mct      estimates by random forests on the same embeddings, after Chen, Zaharia, Zou; size is bounded
==============  ============================================================================================
"""

from collections.abc import Callable, Sequence

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.portfolio.knapsack import assign
from solvers.portfolio.shadow_prices import ROUNDING

BudgetRouter = Callable[[float], Int64s]
"""Returns the classifier of each query, given the total budget."""
TREES = 100
MAX_ROWS, MAX_COLUMNS = 2000, 32
"""Items of a tree and candidate coordinates of a split: more would take hours where the portfolio takes seconds."""


def make_assignment_router(values: Floats, costs: Floats, gap: float = 1e-6) -> BudgetRouter:
    """Return a router that solves the assignment problem.

    A budget below the cost of the cheapest assignment is raised to this cost.

    Args:
        values: (n, m).
        costs: (m,) or (n, m).
    """
    least = float(np.broadcast_to(costs, values.shape).min(axis=1).sum()) * (1 + ROUNDING)
    return lambda budget: assign(values, costs, max(budget, least), gap=gap).choice


def make_single_best_router(accuracies: Floats, costs: Floats, count: int) -> BudgetRouter:
    """Return a router that sends all queries to one classifier.

    It is the most accurate classifier whose total cost is within the budget.

    >>> make_single_best_router(np.array([0.7, 0.9]), np.array([1.0, 2.0]), 3)(5.9).tolist()
    [0, 0, 0]
    """

    def choose(budget: float) -> Int64s:
        able = costs * count <= max(budget, count * float(costs.min())) * (1 + ROUNDING)
        return np.full(count, np.argmax(np.where(able, accuracies, -1.0)), dtype=np.int64)

    return choose


def draw_uniform_values(rng: np.random.Generator, count: int, classifiers: int) -> Floats:
    """Draw the estimates of the baseline ``random``: (count, classifiers)."""
    return rng.random((count, classifiers))


def predict_by_forests(
    items: Singles, success: Floats, vectors: Singles, seed: int, report: Callable[[str], None] = lambda message: None
) -> Floats:
    """Fit a regression forest for each classifier, and predict for vectors (n, d): (n, m).

    Forests are fitted to items (r, d). ``report`` receives the progress.
    """
    import joblib
    from sklearn.ensemble import RandomForestRegressor

    rows, columns = min(MAX_ROWS, len(items)), min(MAX_COLUMNS, items.shape[1])

    def predict(column: Floats) -> Floats:
        forest = RandomForestRegressor(TREES, random_state=seed, max_samples=rows, max_features=columns)
        return np.asarray(forest.fit(items, column).predict(vectors))

    jobs, values = [joblib.delayed(predict)(column) for column in success.T], list[Floats]()
    for done in joblib.Parallel(return_as="generator")(jobs):
        values.append(done)
        report(f"training baseline forests: {len(values)} of {len(jobs)}")
    return np.stack(values, axis=1)


def find_dominated(names: Sequence[str], accuracies: Floats, costs: Floats) -> dict[str, str]:
    """Return for each dominated classifier the name of a classifier that dominates it.

    Classifier a dominates b if a costs at most as much, is at least as accurate, and is better in cost or accuracy. If
    several classifiers dominate b, the cheapest is returned; ties go to the most accurate.

    >>> find_dominated(["a", "b", "c"], np.array([0.8, 0.7, 0.9]), np.array([1.0, 2.0, 3.0]))
    {'b': 'a'}
    """
    import moocore

    points = np.column_stack((costs, accuracies))
    efficient = moocore.is_nondominated(points, maximise=[False, True], keep_weakly=True)
    winners: dict[str, str] = {}
    for loser in np.flatnonzero(~efficient).tolist():
        better = (costs <= costs[loser]) & (accuracies >= accuracies[loser]) & efficient
        winner = min(np.flatnonzero(better).tolist(), key=lambda i: (costs[i], -accuracies[i]))
        winners[names[loser]] = names[winner]
    return winners
