"""What an index is worth beside fixed sets of features, at the median size."""

from math import inf

import numpy as np

from models.index import IndexQuery
from models.savings import Savings
from solvers.index.costs import Costs, members_of
from solvers.index.plan import IndexPlan
from solvers.index.training import Trainer
from solvers.savings import (
    MAX_ACCURACY_LOSS,
    BaselineReplays,
    Replay,
    SettingReplay,
    measure_best_savings,
    set_name,
    split_in_halves,
)

MOST_POINTS = 24
"""Candidates near the best accuracy that a point is chosen from, the cheapest of them."""


def index_savings(plan: IndexPlan, trainer: Trainer, rng: np.random.Generator) -> Savings:
    """Choose a budget by one half of the rows, and report on the other, all cross-validated.

    A fixed set costs the same for every item of the median size; so does what the index chooses there.
    """
    curves = Costs(plan.powers, plan.coefficients)
    sizes = _usual_size(plan)
    points, fixed = _points(plan, curves, sizes), fixed_sets(plan)
    every = list(dict.fromkeys((*points, *fixed.values())))
    costs = dict(zip(every, curves.at(curves.of_sets(np.array(every)), sizes).tolist(), strict=True))
    right, rows = trainer.right(every), trainer.dataset.rows
    replays = {mask: Replay(right[mask], np.full(rows, costs[mask])) for mask in every}
    items = trainer.dataset.item_codes
    today = next(name for name, mask in fixed.items() if mask + 1 == 1 << len(plan.features))
    baselines = {name: replays[mask] for name, mask in fixed.items()}
    alternatives = BaselineReplays.from_replays(baselines, items, today, plan.unit)
    named = {
        f"{' + '.join(_names(plan, mask)) or 'no feature'}, at the median size": SettingReplay(
            {"budget": budget}, replays[mask]
        )
        for mask, budget in points.items()
    }
    return measure_best_savings(named, alternatives, split_in_halves(items, rng), rng)


def _usual_size(plan: IndexPlan) -> tuple[float, ...]:
    """Return the size nearest to the median that the plan answers for."""
    most = inf if plan.largest_size is None else plan.largest_size
    return tuple(min(max(size, 1.0), most) for size in plan.median_size)


def _points(plan: IndexPlan, curves: Costs, sizes: tuple[float, ...]) -> dict[int, float]:
    """Choose masks that the index decides for at a size, each with a budget that it does so within."""
    if plan.fixed_budget is not None:
        budgets = [plan.fixed_budget]
    else:
        levels = plan.accuracies[plan.candidates]
        masks = plan.masks[plan.candidates[levels >= levels.max() - 2 * MAX_ACCURACY_LOSS]]
        budgets = np.sort(curves.at(curves.of_sets(masks), sizes))[:MOST_POINTS].tolist()
    points = {}
    for budget in reversed(budgets):  # the least one stays
        decision = plan.decide(IndexQuery(size=sizes if len(sizes) > 1 else next(iter(sizes), None), budget=budget))
        points[sum(1 << plan.features.index(name) for name in decision.features)] = budget
    return points


def fixed_sets(plan: IndexPlan) -> dict[str, int]:
    """Name masks of features: none, the cheapest ones, those of forward selection (the sequence of λ = 0), all."""
    curves, n = Costs(plan.powers, plan.coefficients), len(plan.features)
    cheapest = np.argsort(curves.at(plan.coefficients, plan.median_size), kind="stable").tolist()
    sets = {(1 << n) - 1: f"all {n} features that were looked at" if plan.left_out else "all features"}
    for k in range(n):
        sets.setdefault(sum(1 << f for f in cheapest[:k]), f"the {k} cheapest features")
        sets.setdefault(sum(1 << f for f in plan.orders[0, :k].tolist()), f"the first {k} of forward selection")
    return {
        called if mask + 1 == 1 << n else set_name(_names(plan, mask), called): mask for mask, called in sets.items()
    }


def _names(plan: IndexPlan, mask: int) -> list[str]:
    return [plan.features[f] for f in members_of(mask)]
