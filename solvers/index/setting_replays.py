"""Replay of an index on holdout rows over a range of budgets, with the costs of each row's size."""

import numpy as np

from models import FeatureTable
from models.arrays import Floats
from models.index import IndexQuery, size_from_lengths
from solvers.index.plan import IndexPlan
from solvers.savings import Replay, SettingReplay

MAX_BUDGETS = 24
"""Number of budgets that are replayed."""


def replay_settings(plan: IndexPlan, dataset: FeatureTable) -> list[SettingReplay]:
    """Return the outcome of each budget on the rows.

    Budgets span the skylines of the smallest and the largest item.
    """
    sizes = [size_from_lengths(own) for own in dataset.sizes[:, : plan.powers.shape[1]].tolist()]
    outer = {min(sizes, key=_extent), max(sizes, key=_extent)}
    spanned = np.unique([item.cost for size in outer for item in plan.list_skyline(size)])
    places = np.unique(np.linspace(0, len(spanned) - 1, MAX_BUDGETS).round().astype(int))
    points = []
    for budget in spanned[places].tolist():
        decisions = [plan.decide(IndexQuery(size=size, budget=budget)) for size in sizes]
        right = _right(plan, dataset, [decision.features for decision in decisions])
        costs = np.array([decision.cost for decision in decisions])
        points.append(SettingReplay({"budget": budget}, Replay(right, costs)))
    return points


def _extent(size: float | tuple[float, ...] | None) -> float:
    return float(np.prod(size)) if size is not None else 0.0


def _right(plan: IndexPlan, dataset: FeatureTable, chosen: list[tuple[str, ...]]) -> Floats:
    """Return the quality of each row's answer from its own feature set, (n,): 1 if correct, else 0.

    With losses, it is the quality that the loss matrix defines.
    """
    right, values = np.zeros(dataset.rows), plan.encode_features(dataset)
    for features in set(chosen):
        rows = np.array([row for row, own in enumerate(chosen) if own == features])
        codes, labels = plan.classify(features, values[rows]), dataset.labels[rows]
        right[rows] = np.equal(codes, labels) if plan.losses is None else 1 - plan.losses.measure(labels, codes)
    return right
