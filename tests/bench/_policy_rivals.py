"""What other methods make of a trace at the same budgets: a single classifier, cascades, the portfolio.

Each learns from one half of the trace and answers the other: accuracy and mean cost of an item at each budget.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models import Trace
from models.cascade import CascadeOptions, CascadeQuery, CascadeRunDecision
from models.portfolio import AssignmentOptions, Budget, PortfolioOptions
from solvers import Run, cascade, portfolio
from solvers.cascade.replay import Rows, replay

Reached = tuple[float, float]
"""Accuracy from 0 to 1, and what an item cost on average."""
Rival = Callable[[Trace, Trace, Sequence[float], int], list[Reached]]
"""From the half to learn from, the half to test on, budgets of an item and a seed to what was reached."""

PRECISIONS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99)
"""Target precisions that cascades are built for."""


def single(train: Trace, test: Trace, budgets: Sequence[float], seed: int) -> list[Reached]:
    """Always call one classifier."""
    accuracies, costs = train.quality.mean(axis=0), train.costs.mean(axis=0)
    chosen = [int(np.where(costs <= budget, accuracies, -1.0).argmax()) for budget in budgets]
    return [(float(test.quality[:, j].mean()), float(test.costs[:, j].mean())) for j in chosen]


def cascades(train: Trace, test: Trace, budgets: Sequence[float], seed: int) -> list[Reached]:
    """Build cascades of all target precisions, ended by each classifier; take the most accurate within the budget."""
    decisions = [
        _built(train, CascadeOptions(target_precision=precision, deterministic=classifier.name), seed)
        for precision in PRECISIONS
        for classifier in train.spec.classifiers
    ]
    learned = [_replayed(train, each) for each in decisions]
    chosen = [max(range(len(decisions)), key=lambda i: _worth(learned[i], budget)) for budget in budgets]
    return [_replayed(test, decisions[i]) for i in chosen]


def _worth(reached: Reached, budget: float) -> tuple[bool, float, float]:
    accuracy, cost = reached
    return (True, accuracy, -cost) if cost <= budget else (False, -cost, accuracy)


def _built(train: Trace, options: CascadeOptions, seed: int) -> CascadeRunDecision:
    return cascade.fit(train, options, np.random.default_rng(seed), Run()).plan.decide(CascadeQuery())


def _replayed(trace: Trace, decision: CascadeRunDecision) -> Reached:
    """Walk a half through a cascade."""
    names = [each.name for each in trace.spec.classifiers]
    columns = [names.index(name) for name in decision.cascade]
    least = np.full(len(names), -np.inf)
    for j, step in zip(columns, decision.steps, strict=True):
        least[j] = -np.inf if step.confidence_threshold is None else step.confidence_threshold
    rows = Rows(np.nan_to_num(trace.confidences) >= least, trace.quality, trace.costs)
    replayed = replay(rows, columns, names)
    return replayed["accuracy"], replayed["mean_duration"]


def assigned(train: Trace, test: Trace, budgets: Sequence[float], seed: int) -> list[Reached]:
    """Assign the test half as one batch, by embeddings that are the answers of the cheapest classifier."""
    cheapest = int(train.costs.mean(axis=0).argmin())
    name = train.spec.classifiers[cheapest].name
    labels = 1 + max(int(label) for label in (*train.classes, *test.classes))
    learned, asked = (replace(half, embeddings=answers_of(half, cheapest, labels)) for half in (train, test))
    options = PortfolioOptions(feature_classifier=name)
    plan = portfolio.fit(learned, options, np.random.default_rng(seed), Run()).plan
    estimates = plan.estimate(asked.embeddings)
    names = [each.name for each in test.spec.classifiers]
    reached = []
    for budget in budgets:
        assignment = plan.assign(estimates, AssignmentOptions(budget=Budget(per_query=budget)))
        choice = np.array([names.index(each) for each in assignment.assignments])
        rows = np.arange(test.rows)
        paid = test.costs[:, cheapest] + np.where(choice == cheapest, 0.0, test.costs[rows, choice])
        reached.append((float(test.quality[rows, choice].mean()), float(paid.mean())))
    return reached


def answers_of(trace: Trace, classifier: int, labels: int) -> NDArray[np.float32]:
    """Turn a classifier's answers into embeddings, (n, labels): one-hot labels times confidences."""
    vectors = np.zeros((trace.rows, labels), dtype=np.float32)
    codes = np.array([int(label) for label in trace.classes])[trace.predictions[:, classifier]]
    vectors[np.arange(trace.rows), codes] = np.nan_to_num(trace.confidences[:, classifier], nan=1.0)
    return vectors


RIVALS: dict[str, Rival] = {"single": single, "cascade": cascades, "portfolio": assigned}
