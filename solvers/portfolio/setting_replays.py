"""Replay of a portfolio on holdout rows, over a range of budgets.

Each query is routed separately.
"""

import numpy as np

from models import Trace
from solvers.portfolio.plan import PortfolioPlan
from solvers.savings import Replay, SettingReplay
from solvers.shared_setup import charge_after

MAX_BUDGETS = 24
"""Number of budgets that are replayed."""


def replay_settings(plan: PortfolioPlan, dataset: Trace) -> list[SettingReplay]:
    """Return the outcomes at budgets from the cheapest classifier's cost to the unconstrained choice."""
    dataset = dataset.with_reject()
    names = [classifier.name for classifier in dataset.spec.classifiers]
    columns, rows = np.array([names.index(name) for name in plan.classifiers]), np.arange(dataset.rows)
    embedder = None if plan.feature_classifier is None else names.index(plan.feature_classifier)
    right, costs = dataset.quality[:, columns], charge_after(dataset, embedder)[:, columns]
    route = plan.make_router(plan.estimate(dataset.embeddings), dataset.embeddings)
    budgets = np.linspace(plan.min_cost, plan.embedding_cost + float(plan.price_budgets[-1]), MAX_BUDGETS)
    points = []
    for budget in np.unique(budgets).tolist():
        choice = route((budget - plan.embedding_cost) * dataset.rows)
        replayed = Replay(right[rows, choice], costs[rows, choice] + plan.embedding_cost)
        points.append(SettingReplay({"budget": budget}, replayed))
    return points
