"""What a portfolio is compared with (OCCAM, Section 5.1): each routes known items within a budget for all of them.

``single_best`` takes, for all queries, the classifier that is the most accurate on the build half of those that the
budget affords (the paper: the most expensive one; ours can only be stronger). ``random`` draws estimates uniformly and
solves the same programme; ``oracle`` solves it with the truth. ``frugal_mct`` estimates by random forests on the same
embeddings, as the paper has it after Chen, Zaharia and Zou; trees of many items and coordinates are bounded.
"""

from collections.abc import Callable, Sequence

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.portfolio.knapsack import assign
from solvers.portfolio.shadow_prices import ROUNDING

BudgetRouter = Callable[[float], Int64s]
"""Given the budget for all queries, the classifier of each."""
TREES = 100
MAX_ROWS, MAX_COLUMNS = 2000, 32
"""Items that a tree is trained on, and coordinates that a split chooses from: more would take hours where the portfolio
itself takes seconds."""


def route_by_values(values: Floats, costs: Floats, gap: float = 1e-6) -> BudgetRouter:
    """Solve the programme for values, (n, m), and costs, (m,) or (n, m); the least budget is that of the cheapest
    assignment."""
    least = float(np.broadcast_to(costs, values.shape).min(axis=1).sum()) * (1 + ROUNDING)
    return lambda budget: assign(values, costs, max(budget, least), gap=gap).choice


def route_to_single_best(accuracies: Floats, costs: Floats, count: int) -> BudgetRouter:
    """Give every query to the classifier that is best among those that all ``count`` queries can afford.

    >>> route_to_single_best(np.array([0.7, 0.9]), np.array([1.0, 2.0]), 3)(5.9).tolist()
    [0, 0, 0]
    """

    def choose(budget: float) -> Int64s:
        able = costs * count <= max(budget, count * float(costs.min())) * (1 + ROUNDING)
        return np.full(count, np.argmax(np.where(able, accuracies, -1.0)), dtype=np.int64)

    return choose


def draw_uniform_values(rng: np.random.Generator, count: int, classifiers: int) -> Floats:
    """Draw the estimates of ``random``."""
    return rng.random((count, classifiers))


def predict_by_forests(
    items: Singles, success: Floats, vectors: Singles, seed: int, report: Callable[[str], None] = lambda message: None
) -> Floats:
    """Train a regression forest for each classifier on items (r, d), and predict for vectors (n, d): (n, m).

    ``report`` hears how many are trained.
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
        report(f"{len(values)} of {len(jobs)} forests are trained, to compare with")
    return np.stack(values, axis=1)


def find_dominated(names: Sequence[str], accuracies: Floats, costs: Floats) -> dict[str, str]:
    """Name the classifiers that another one costs no more than and is as accurate as, one of both better; and by whom.

    Of several the most accurate of the cheapest is named.

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
