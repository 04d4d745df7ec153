"""What a portfolio does with queries it never saw, each routed on its own, over budgets."""

import numpy as np

from models import Trace
from solvers.portfolio.plan import PortfolioPlan
from solvers.savings import Replay, SettingReplay

POINTS = 24


def replay_settings(plan: PortfolioPlan, dataset: Trace) -> list[SettingReplay]:
    """Route rows at budgets from the cheapest classifier's cost to where every query gets its best."""
    names = [classifier.name for classifier in dataset.spec.classifiers]
    columns, rows = np.array([names.index(name) for name in plan.classifiers]), np.arange(dataset.rows)
    right, costs = dataset.quality[:, columns], dataset.costs[:, columns]
    route = plan.route_each(plan.estimate(dataset.embeddings), dataset.embeddings)
    budgets = np.linspace(plan.cheapest, plan.embedding_cost + float(plan.price_budgets[-1]), POINTS)
    points = []
    for budget in np.unique(budgets).tolist():
        choice = route((budget - plan.embedding_cost) * dataset.rows)
        replayed = Replay(right[rows, choice], costs[rows, choice] + plan.embedding_cost)
        points.append(SettingReplay({"budget": budget}, replayed))
    return points
