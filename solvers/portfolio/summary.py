"""What a build tells people: classifiers, samples that were tried, λ, and the results on held-out items."""

from typing import Any

import numpy as np

from models.arrays import Floats
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.tuning import TuningResult

REDUCTIONS = (0.1, 0.2, 0.4)
"""Shares of the dearest classifier's cost that are saved in the paper's Table 2."""


def summarize(
    plan: PortfolioPlan,
    tuned: TuningResult,
    losers: dict[str, str],
    measured: tuple[Floats, Floats],
    rows: dict[str, int],
) -> dict[str, Any]:
    """Put into plain JSON what a build found. measured: (m,) accuracies and costs on the build half; rows: by part."""
    count, size = plan.samples.shape
    return {
        **_of_all(plan, losers, measured),
        "rows": rows,
        **_effective(plan),
        "samples": {"count": count, "size": size},
        "lambdas": [{"lambda": lam, "validation_accuracy": reached} for lam, reached in tuned.lambdas.items()],
        "trials": [
            {
                "count": trial.count,
                "size": trial.size,
                "distance": trial.distance,
                "accuracy": trial.accuracy,
                "errors": dict(zip(plan.classifiers, trial.errors, strict=True)),
            }
            for trial in tuned.trials
        ],
    }


def summarize_learned(plan: PortfolioPlan, losers: dict[str, str], measured: tuple[Floats, Floats]) -> dict[str, Any]:
    """Put into plain JSON what a build with a learned estimator found; all rows are cross-fitted and report."""
    return {
        **_of_all(plan, losers, measured),
        "rows": {"held_out": plan.held_out},
        **_effective(plan),
        "shrinks": {"in_common": float(plan.shrinks[0]), "of_each": float(plan.shrinks[1])},
    }


def _effective(plan: PortfolioPlan) -> dict[str, Any]:
    return {} if plan.independence == 1 else {"effective_rows": {"held_out": round(plan.effective_rows)}}


def _of_all(plan: PortfolioPlan, losers: dict[str, str], measured: tuple[Floats, Floats]) -> dict[str, Any]:
    """Tell what there is to tell of every portfolio."""
    return {
        "unit": plan.unit,
        "estimator": plan.estimator,
        "dimensions": plan.items.shape[1],
        "regularization": plan.regularization,
        "feature_classifier": plan.feature_classifier,
        "embedding_cost": plan.embedding_cost,
        "classifiers": [
            {"name": name, "accuracy": accuracy, "cost": cost, "sigma": sigma}
            for name, accuracy, cost, sigma in zip(
                plan.classifiers, *(each.tolist() for each in measured), plan.sigmas.tolist(), strict=True
            )
        ],
        "beaten": [{"name": name, "by": winner} for name, winner in losers.items()],
        "held_out": [_at(plan, reduction) for reduction in REDUCTIONS],
    }


def _at(plan: PortfolioPlan, reduction: float) -> dict[str, Any]:
    """Give each method's accuracy at the curve's largest budget that saves so much, in the manner of Table 2."""
    budget = (1 - reduction) * plan.dearest
    place = max(int(np.searchsorted(plan.curve_budgets, budget * (1 + 1e-9), side="right")) - 1, 0)
    accuracies = plan.curve_accuracies[:, place].tolist()
    return {"budget": float(plan.curve_budgets[place]), **dict(zip(plan.methods, accuracies, strict=True))}
