"""A baseline in the manner of Greedy Miser (Xu, Weinberger, Chapelle 2012): boosted trees that count what they cost.

Ours, and near enough only: trees are scikit-learn's, which know no costs. So each round fits one small tree to the
features that are paid for, and one for each other feature to those and it; the one whose fit gains most, less a price
for what it is the first to use, is added. A feature once used is paid for by every item. The loss is that of softmax,
the trees fit its gradient for all classes at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int32s
from solvers.pipeline.objectives import inverse_cost

ROUNDS = 40
DEPTH = 3
LEAST = 5
"""Rows of a leaf."""
RATE = 1.0
PRICES = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3)
"""What all features together cost, in units of the gain: the share of the squared gradient that a tree explains."""


@dataclass(frozen=True, slots=True, eq=False)
class Achieved:
    """Accuracy of what is accepted, coverage, mean cost, and how many answers are accepted and right."""

    accuracy: float
    coverage: float
    cost: float
    right: int


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Prepared rows and their labels."""

    table: Floats
    labels: Int32s


def miser(
    parts: Sequence[Rows], columns: Sequence[tuple[int, ...]], costs: Floats, classes: int, threshold: float
) -> Achieved:
    """Boost on the first part for each price, choose price and number of trees on the second, report on the third.

    What is chosen has the largest l2 norm of coverage, accuracy and inverse cost, as EMSCO's fitness, among all that
    use any feature.
    """
    steps = [step for price in PRICES for step in _boosted(parts, columns, costs, classes, threshold, price)]
    validated = np.array([(one.coverage, one.accuracy, one.cost) for one, _ in steps])
    norms = validated[:, 0] ** 2 + validated[:, 1] ** 2 + inverse_cost(validated[:, 2]) ** 2
    return steps[int(np.argmax(norms))][1]


def _boosted(
    parts: Sequence[Rows],
    columns: Sequence[tuple[int, ...]],
    costs: Floats,
    classes: int,
    threshold: float,
    price: float,
) -> Iterator[tuple[Achieved, Achieved]]:
    """Add tree by tree; after each, what is achieved on the second and the third part."""
    truth = np.eye(classes)[parts[0].labels]
    scores = [np.tile(np.log(truth.mean(axis=0)), (len(part.labels), 1)) for part in parts]
    paid = np.zeros(len(costs), dtype=bool)
    for _ in range(ROUNDS):
        gradient = truth - _softmax(scores[0])
        best = None
        for extra in (None, *np.flatnonzero(~paid)):
            using = paid.copy() if extra is None else paid | (np.arange(len(costs)) == extra)
            if not using.any():
                continue
            tree, own = _grown(parts[0].table, gradient, columns, using)
            left = ((gradient - _predicted(tree, parts[0].table[:, own])) ** 2).sum() / (gradient**2).sum()
            worth = 1 - left - price * costs[using & ~paid].sum() / costs.sum()
            if best is None or worth > best[0]:
                best = worth, tree, own, using
        if best is None or best[0] <= 0:
            return
        _, tree, own, paid = best
        scores = [old + RATE * _predicted(tree, part.table[:, own]) for old, part in zip(scores, parts, strict=True)]
        cost = float(costs[paid].sum())
        validated, tested = (
            _achieved(_softmax(each), part.labels, threshold, cost)
            for each, part in zip(scores[1:], parts[1:], strict=True)
        )
        yield validated, tested


def _grown(
    table: Floats, gradient: Floats, columns: Sequence[tuple[int, ...]], using: NDArray[np.bool_]
) -> tuple[object, list[int]]:
    from sklearn.tree import DecisionTreeRegressor

    own = [column for feature in np.flatnonzero(using).tolist() for column in columns[feature]]
    return DecisionTreeRegressor(max_depth=DEPTH, min_samples_leaf=LEAST, random_state=0).fit(
        table[:, own], gradient
    ), own


def _predicted(tree: object, table: Floats) -> Floats:
    return np.asarray(tree.predict(table))  # type: ignore[attr-defined]


def _softmax(scores: Floats) -> Floats:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _achieved(shares: Floats, labels: Int32s, threshold: float, cost: float) -> Achieved:
    accepted = shares.max(axis=1) >= threshold
    right = int(np.count_nonzero(accepted & (shares.argmax(axis=1) == labels)))
    covered = int(np.count_nonzero(accepted))
    return Achieved(right / max(covered, 1), covered / len(labels), cost, right)
