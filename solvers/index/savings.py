"""Savings of an index compared with fixed feature sets, with the costs of each row's size."""

from collections.abc import Sequence

import numpy as np

from models.arrays import Floats, Int64s
from models.index import IndexQuery, size_from_lengths
from models.savings import Savings
from solvers.index.costs import SetCosts, evaluate_at_sizes, list_members
from solvers.index.plan import IndexPlan
from solvers.index.training import Trainer
from solvers.savings import (
    MAX_ACCURACY_LOSS,
    BaselineReplays,
    Replay,
    SettingReplay,
    measure_best_savings,
    name_feature_set,
    split_in_halves,
)

MAX_BUDGETS = 24
"""Maximum number of candidate budgets."""
MAX_SIZES = 300
"""Maximum number of different sizes of a budget's decisions; rows with more share the decision of the next one."""


def measure_index_savings(plan: IndexPlan, trainer: Trainer, rng: np.random.Generator) -> Savings:
    """Choose a budget on one half of the rows, and measure savings on the other half.

    Models are cross-validated. Costs of fixed sets and of the index's choices are computed for each row's size.

    Complexity: O(``MAX_BUDGETS`` (``MAX_SIZES`` + n)), and the fits of sets that the search did not train.
    """
    curves, fixed = plan.set_costs, list_fixed_sets(plan)
    sizes = _supported_sizes(plan, trainer)
    representatives, places = _group_sizes(curves, sizes)
    chosen = {
        budget: np.array([_decide(plan, size, budget) for size in representatives.tolist()])[places]
        for budget in _list_budgets(plan, curves, representatives)
    }
    every = sorted({*fixed.values(), *(mask for masks in chosen.values() for mask in np.unique(masks).tolist())})
    right = trainer.list_correct(every)
    outcomes = np.column_stack([right[mask] for mask in every])
    costs = _row_costs(curves, every, sizes)

    def replay(masks: Int64s) -> Replay:
        where = np.arange(len(sizes)), np.searchsorted(every, masks)
        return Replay(outcomes[where], costs[where])

    items = trainer.dataset.item_codes
    today = next(name for name, mask in fixed.items() if mask + 1 == 1 << len(plan.features))
    baselines = {name: replay(np.full(len(sizes), mask)) for name, mask in fixed.items()}
    alternatives = BaselineReplays.from_replays(baselines, items, today, plan.unit, trainer.dataset.loss_scale)
    settings = {
        f"budget {budget:g}": SettingReplay({"budget": budget}, replay(masks)) for budget, masks in chosen.items()
    }
    return measure_best_savings(settings, alternatives, split_in_halves(items, rng), rng)


def _supported_sizes(plan: IndexPlan, trainer: Trainer) -> Floats:
    """Return the rows' sizes, (n, k), clipped to those that the plan supports.

    Rows without a size get the median size.
    """
    sizes, dimensions = trainer.dataset.sizes, plan.powers.shape[1]
    if sizes.shape[1] != dimensions:
        sizes = np.broadcast_to(np.array(plan.median_size), (len(sizes), dimensions))
    return np.clip(sizes, 1.0, plan.largest_size)


def _group_sizes(curves: SetCosts, sizes: Floats) -> tuple[Floats, Int64s]:
    """Return at most ``MAX_SIZES`` sizes, and the index of each row's size, (n,).

    Sizes are ordered by the cost of all features. A row is assigned the next size that costs at least as much as its
    own.
    """
    if not sizes.shape[1]:
        return sizes[:1], np.zeros(len(sizes), dtype=np.int64)
    different, inverse = np.unique(sizes, axis=0, return_inverse=True)
    all_features = (1 << curves.features) - 1
    order = np.argsort(_row_costs(curves, [all_features], different)[:, 0], kind="stable")
    kept = np.unique(np.linspace(0, len(order) - 1, MAX_SIZES).round().astype(np.int64))
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return different[order[kept]], np.searchsorted(kept, ranks[inverse.ravel()])


def _row_costs(curves: SetCosts, masks: Sequence[int], sizes: Floats) -> Floats:
    """Return the cost of each set at each size, (n, m)."""
    sums = curves.sum_features(np.array(masks))
    return np.column_stack([evaluate_at_sizes(curve, curves.powers, sizes) for curve in sums])


def _list_budgets(plan: IndexPlan, curves: SetCosts, sizes: Floats) -> list[float]:
    """Return candidate budgets, evenly by rank: costs of the nearly most accurate sets."""
    if plan.fixed_budget is not None:
        return [plan.fixed_budget]
    levels = plan.accuracies[plan.candidates]
    masks = plan.masks[plan.candidates[levels >= levels.max() - 2 * MAX_ACCURACY_LOSS]]
    sums = curves.sum_features(masks)
    spanned = np.unique([curves.evaluate(sums, size) for size in sizes.tolist()])
    places = np.unique(np.linspace(0, len(spanned) - 1, MAX_BUDGETS).round().astype(np.int64))
    return [float(spanned[place]) for place in places]


def _decide(plan: IndexPlan, size: list[float], budget: float) -> int:
    """Return the mask of the set that the plan decides on."""
    decision = plan.decide(IndexQuery(size=size_from_lengths(size), budget=budget))
    return sum(1 << plan.features.index(name) for name in decision.features)


def list_fixed_sets(plan: IndexPlan) -> dict[str, int]:
    """Return masks of fixed sets by name: none, the cheapest features, forward selection (λ = 0), all."""
    curves, n = plan.set_costs, len(plan.features)
    cheapest = curves.groups.order_by_cost(curves.evaluate(curves.coefficients, plan.median_size)).tolist()
    sets = {(1 << n) - 1: f"all {n} indexed features" if plan.left_out else "all features"}
    for k in range(n):
        sets.setdefault(sum(1 << f for f in cheapest[:k]), f"the {k} cheapest features")
        sets.setdefault(sum(1 << f for f in plan.orders[0, :k].tolist()), f"the first {k} of forward selection")
    return {
        name if mask + 1 == 1 << n else name_feature_set(_names(plan, mask), name): mask for mask, name in sets.items()
    }


def _names(plan: IndexPlan, mask: int) -> list[str]:
    return [plan.features[f] for f in list_members(mask)]
