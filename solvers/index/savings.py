"""Savings of an index compared with fixed feature sets, at the median size."""

from math import inf

import numpy as np

from models.index import IndexQuery
from models.savings import Savings
from solvers.index.costs import SetCosts, list_members
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

MAX_POINTS = 24
"""Maximum number of candidate settings: the cheapest near the best accuracy."""


def measure_index_savings(plan: IndexPlan, trainer: Trainer, rng: np.random.Generator) -> Savings:
    """Choose a budget on one half of the rows, and measure savings on the other, all cross-validated.

    At the median size, fixed sets and the index's choices have constant costs.
    """
    curves = SetCosts(plan.powers, plan.coefficients)
    sizes = _find_supported_size(plan)
    points, fixed = _list_points(plan, curves, sizes), list_fixed_sets(plan)
    every = list(dict.fromkeys((*points, *fixed.values())))
    costs = dict(zip(every, curves.evaluate(curves.sum_features(np.array(every)), sizes).tolist(), strict=True))
    right, rows = trainer.list_correct(every), trainer.dataset.rows
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


def _find_supported_size(plan: IndexPlan) -> tuple[float, ...]:
    """Return the supported size nearest to the median."""
    most = inf if plan.largest_size is None else plan.largest_size
    return tuple(min(max(size, 1.0), most) for size in plan.median_size)


def _list_points(plan: IndexPlan, curves: SetCosts, sizes: tuple[float, ...]) -> dict[int, float]:
    """Return the masks that the index chooses at a size, each with its smallest budget."""
    if plan.fixed_budget is not None:
        budgets = [plan.fixed_budget]
    else:
        levels = plan.accuracies[plan.candidates]
        masks = plan.masks[plan.candidates[levels >= levels.max() - 2 * MAX_ACCURACY_LOSS]]
        budgets = np.sort(curves.evaluate(curves.sum_features(masks), sizes))[:MAX_POINTS].tolist()
    points = {}
    for budget in reversed(budgets):  # the smallest budget overwrites
        decision = plan.decide(IndexQuery(size=sizes if len(sizes) > 1 else next(iter(sizes), None), budget=budget))
        points[sum(1 << plan.features.index(name) for name in decision.features)] = budget
    return points


def list_fixed_sets(plan: IndexPlan) -> dict[str, int]:
    """Return masks of fixed sets by name: none, the cheapest features, forward selection (λ = 0), all."""
    curves, n = SetCosts(plan.powers, plan.coefficients), len(plan.features)
    cheapest = np.argsort(curves.evaluate(plan.coefficients, plan.median_size), kind="stable").tolist()
    sets = {(1 << n) - 1: f"all {n} indexed features" if plan.left_out else "all features"}
    for k in range(n):
        sets.setdefault(sum(1 << f for f in cheapest[:k]), f"the {k} cheapest features")
        sets.setdefault(sum(1 << f for f in plan.orders[0, :k].tolist()), f"the first {k} of forward selection")
    return {name if mask + 1 == 1 << n else set_name(_names(plan, mask), name): mask for mask, name in sets.items()}


def _names(plan: IndexPlan, mask: int) -> list[str]:
    return [plan.features[f] for f in list_members(mask)]
