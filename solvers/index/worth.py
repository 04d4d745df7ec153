"""What an index is worth beside fixed sets of features, at the median size."""

import numpy as np

from models.worth import Worth
from solvers.alternatives import NEARLY, Alternatives, Replay, TradeOff, halves, set_name, worth_of_most_useful
from solvers.index.costs import Costs, members_of
from solvers.index.plan import IndexPlan
from solvers.index.training import Trainer

MOST_POINTS = 24
"""Candidates near the best accuracy that a point is chosen from, the cheapest of them."""


def worth(plan: IndexPlan, trainer: Trainer, rng: np.random.Generator) -> Worth:
    """Choose a candidate by one half of the rows, and report on the other, all cross-validated.

    A fixed set costs the same for every item of the median size; so does what the index would choose there.
    """
    curves = Costs(plan.powers, plan.coefficients)
    levels = plan.accuracies[plan.candidates]
    near = levels >= levels.max() - 2 * NEARLY
    masks = plan.masks[plan.candidates[near]]
    order = np.argsort(curves.at(curves.of_sets(masks), plan.median_size), kind="stable")[:MOST_POINTS]
    points, fixed = masks[order].tolist(), fixed_sets(plan)
    every = list(dict.fromkeys((*points, *fixed.values())))
    costs = dict(zip(every, curves.at(curves.of_sets(np.array(every)), plan.median_size).tolist(), strict=True))
    right, rows = trainer.right(every), trainer.dataset.rows
    replays = {mask: Replay(right[mask], np.full(rows, costs[mask])) for mask in every}
    items = trainer.dataset.item_codes
    today = next(name for name, mask in fixed.items() if mask + 1 == 1 << len(plan.features))
    baselines = {name: replays[mask] for name, mask in fixed.items()}
    alternatives = Alternatives.of(baselines, items, today, plan.unit)
    named = {
        f"{' + '.join(_names(plan, mask)) or 'no feature'}, at the median size": TradeOff({}, replays[mask])
        for mask in points
    }
    return worth_of_most_useful(named, alternatives, halves(items, rng), rng)


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
