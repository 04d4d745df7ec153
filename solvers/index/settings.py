"""What an index does with items it never saw, over budgets, each item at its own size."""

import numpy as np

from models import FeatureTable
from models.arrays import Floats
from models.index import IndexQuery
from solvers.index.plan import IndexPlan
from solvers.savings import Replay, SettingReplay

POINTS = 24
"""Budgets that are tried."""


def replay_settings(plan: IndexPlan, dataset: FeatureTable) -> list[SettingReplay]:
    """Decide for each row within budgets that the skylines of the smallest and the largest item span; classify it."""
    sizes = _sizes(plan, dataset)
    outer = {min(sizes, key=_extent), max(sizes, key=_extent)}
    spanned = np.unique([item.cost for size in outer for item in plan.skyline(size)])
    places = np.unique(np.linspace(0, len(spanned) - 1, POINTS).round().astype(int))
    points = []
    for budget in spanned[places].tolist():
        decisions = [plan.decide(IndexQuery(size=size, budget=budget)) for size in sizes]
        right = _right(plan, dataset, [decision.features for decision in decisions])
        costs = np.array([decision.cost for decision in decisions])
        points.append(SettingReplay({"budget": budget}, Replay(right, costs)))
    return points


def _sizes(plan: IndexPlan, dataset: FeatureTable) -> list[float | tuple[float, ...] | None]:
    """Give each row's size as a query has it."""
    match plan.powers.shape[1]:
        case 0:
            return [None] * dataset.rows
        case 1:
            return [own[0] for own in dataset.sizes.tolist()]
        case _:
            return [tuple(own) for own in dataset.sizes.tolist()]


def _extent(size: float | tuple[float, ...] | None) -> float:
    """Order sizes: by their product."""
    return float(np.prod(size)) if size is not None else 0.0


def _right(plan: IndexPlan, dataset: FeatureTable, chosen: list[tuple[str, ...]]) -> Floats:
    """Classify each row by its own features: 1 where the answer is right, (n,)."""
    right, values = np.zeros(dataset.rows), plan.values_of(dataset)
    for features in set(chosen):
        rows = np.array([row for row, own in enumerate(chosen) if own == features])
        right[rows] = np.equal(plan.classify(features, values[rows]), dataset.labels[rows])
    return right
