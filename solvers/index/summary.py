"""Summary of an index build: the paper's counts, costs, and violations of monotonicity."""

from typing import Any

import numpy as np

from models.arrays import Floats, Int64s
from models.cost import Residuals
from solvers.index.baselines import measure_full_size, measure_index_size
from solvers.index.costs import list_members
from solvers.index.crossings import SkylineIndex
from solvers.index.lattice import ExpandedSets
from solvers.index.plan import IndexPlan
from solvers.index.training import Trainer

MAX_COMPARED_SETS = 4000
"""Maximum number of expanded sets compared pairwise; more are thinned out evenly."""
ACCURACY_MARGIN = 0.01
"""The summary's saving compares sets within this margin of the best accuracy."""
SUGGESTED_SHARE = 0.95
"""The suggested tolerance covers this share of all violations, as in the paper's appendix."""


def summarize(
    plan: IndexPlan,
    expanded: ExpandedSets,
    index: SkylineIndex,
    residuals: dict[str, Residuals],
    trainer: Trainer,
) -> dict[str, Any]:
    """Return the summary of a build as plain JSON."""
    violations, suggested = measure_monotonicity(expanded)
    every = measure_full_size(index)
    return {
        "unit": plan.unit,
        "features": len(plan.features),
        "left_out": list(plan.left_out),
        "rows": trainer.dataset.rows,
        "naive": 1 << len(plan.features),
        "expanded": len(expanded.masks),
        "pruned": expanded.pruned,
        "candidates": len(plan.candidates),
        "breakpoints": measure_index_size(index).points,
        "index_entries": measure_index_size(index).entries,
        "crossings": index.crossings,
        "breakpoints_if_all": every.points,
        "index_entries_if_all": every.entries,
        "alpha": plan.alpha,
        "alpha_wanted": trainer.options.alpha,
        "tolerance": trainer.options.tolerance,
        "accuracy": {"least": float(expanded.accuracies.min()), "most": float(expanded.accuracies.max())},
        "best": _best(plan),
        "saving": _saving(plan),
        "violations": violations,
        "suggested_tolerance": suggested,
        "residuals": {
            name: {"rms": off.rms, "largest_over": off.largest_over, "largest_under": off.largest_under}
            for name, off in residuals.items()
        },
        "feature_costs": [
            {"name": name, "terms": _list_terms(plan, row)}
            for name, row in zip(plan.features, plan.coefficients.tolist(), strict=True)
        ],
        **_setup_costs(plan),
        "trainings": {
            "asked": trainer.requested,
            "models": len(plan.model_sets),
        },
        "median_size": list(plan.median_size),
        "size_regions": plan.size_edges.tolist(),
        "sequences": _sequences(plan),
    }


def measure_monotonicity(expanded: ExpandedSets) -> tuple[list[dict[str, Any]], float]:
    """Measure decreases of accuracy from a set to a superset, by the number of features between them.

    For each distance, over all pairs of expanded sets, return the number of pairs and the number of violations of Axiom
    2.1. Also return the violations' median, 0.95 quantile, and maximum. The last value is the tolerance that covers
    0.95 of all violations.

    >>> chain = ExpandedSets(2, np.array([0, 1, 3]), np.array([0.5, 0.75, 0.5]), np.array([0.5, 0.75, 0.5]))
    >>> [(row["distance"], row["violating"], row["largest"]) for row in measure_monotonicity(chain)[0]]
    [(1, 1, 0.25), (2, 0, 0.0)]
    """
    step = -(-len(expanded.masks) // MAX_COMPARED_SETS)
    masks, accuracies = expanded.masks[::step], expanded.accuracies[::step]
    pairs = np.zeros(expanded.features + 1, dtype=np.int64)
    falls: list[Floats] = []
    distances: list[Int64s] = []
    for mask, accuracy in zip(masks.tolist(), accuracies.tolist(), strict=True):
        above = (masks & mask == mask) & (masks != mask)
        apart_by = np.bitwise_count(masks[above] ^ mask).astype(np.int64)
        pairs += np.bincount(apart_by, minlength=len(pairs))
        fall = accuracy - accuracies[above]
        falls.append(fall[fall > 0])
        distances.append(apart_by[fall > 0])
    every, at = np.concatenate(falls), np.concatenate(distances)
    rows = [
        {"distance": distance, "pairs": int(pairs[distance]), **_spread(every[at == distance])}
        for distance in range(1, len(pairs))
        if pairs[distance]
    ]
    return rows, float(np.quantile(every, SUGGESTED_SHARE)) if len(every) else 0.0


def _spread(falls: Floats) -> dict[str, Any]:
    if not len(falls):
        return {"violating": 0, "median": 0.0, "quantile_95": 0.0, "largest": 0.0}
    return {
        "violating": len(falls),
        "median": float(np.median(falls)),
        "quantile_95": float(np.quantile(falls, SUGGESTED_SHARE)),
        "largest": float(falls.max()),
    }


def _list_terms(plan: IndexPlan, row: list[float]) -> list[dict[str, Any]]:
    """Return the terms of a cost polynomial, without zeros."""
    return [
        {"powers": powers, "coefficient": coefficient}
        for powers, coefficient in zip(plan.powers.tolist(), row, strict=True)
        if coefficient
    ]


def _setup_costs(plan: IndexPlan) -> dict[str, Any]:
    """Return the set-up groups: features that share work, which an item pays for once."""
    groups = zip(plan.setup_names, plan.setup_coefficients.tolist(), plan.setup_members, strict=True)
    named = np.array((*plan.features, *plan.left_out))
    setup = [
        {"name": name, "features": named[own].tolist(), "terms": _list_terms(plan, row)} for name, row, own in groups
    ]
    return {"setup": setup} if setup else {}


def _best(plan: IndexPlan) -> dict[str, Any]:
    place = int(plan.candidates[0])
    features = [plan.features[f] for f in list_members(int(plan.masks[place]))]
    return {"features": features, "accuracy": float(plan.accuracies[place])}


def _saving(plan: IndexPlan) -> dict[str, Any]:
    """Compare the cheapest candidate of nearly the best accuracy with all features.

    Costs are those at the median size.
    """
    accuracies = plan.accuracies[plan.candidates]
    near = plan.masks[plan.candidates[accuracies >= accuracies.max() - ACCURACY_MARGIN]]
    masks = np.append(near, (1 << len(plan.features)) - 1)
    curves = plan.set_costs
    costs = curves.evaluate(curves.sum_features(masks), plan.median_size)
    savings = [
        {
            "features": int(masks[place]).bit_count(),
            "accuracy": float(plan.accuracies[np.searchsorted(plan.masks, masks[place])]),
            "cost": float(costs[place]),
        }
        for place in (int(np.argmin(costs[:-1])), -1)
    ]
    return dict(zip(("chosen", "everything"), savings, strict=True))


def _sequences(plan: IndexPlan) -> list[dict[str, Any]]:
    sequences = []
    for weight, order in zip(plan.lambdas.tolist(), plan.orders.tolist(), strict=True):
        prefixes = np.cumsum([1 << f for f in order], dtype=np.int64)
        sequences.append(
            {
                "lambda": weight if np.isfinite(weight) else None,
                "features": [plan.features[f] for f in order],
                "accuracies": plan.accuracies[np.searchsorted(plan.masks, prefixes)].tolist(),
            }
        )
    return sequences
