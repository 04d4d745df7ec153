"""Summary of a portfolio build: classifiers, samples that were tried, λ, and holdout results."""

from typing import Any

import numpy as np

from models.arrays import Floats
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.tuning import TuningResult

REDUCTIONS = (0.1, 0.2, 0.4)
"""Cost reductions of the paper's Table 2, as shares of the most expensive classifier's cost."""


def summarize(
    plan: PortfolioPlan,
    tuned: TuningResult,
    dominated: dict[str, str],
    measured: tuple[Floats, Floats],
    rows: dict[str, int],
) -> dict[str, Any]:
    """Return the summary of a build as plain JSON.

    Args:
        dominated: by dominated classifier, the name of a classifier that dominates it.
        measured: (m,) accuracies and (m,) costs on build rows.
        rows: number of rows of each part.
    """
    count, size = plan.samples.shape
    return {
        **_summarize_common(plan, dominated, measured),
        "rows": rows,
        **_summarize_effective_rows(plan),
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


def summarize_learned(
    plan: PortfolioPlan, dominated: dict[str, str], measured: tuple[Floats, Floats]
) -> dict[str, Any]:
    """Return the summary of a build with a learned estimator; all rows are cross-fitted holdout rows."""
    return {
        **_summarize_common(plan, dominated, measured),
        "rows": {"held_out": plan.held_out},
        **_summarize_effective_rows(plan),
        "shrinks": {"in_common": float(plan.shrinks[0]), "of_each": float(plan.shrinks[1])},
    }


def _summarize_effective_rows(plan: PortfolioPlan) -> dict[str, Any]:
    return {} if plan.independence == 1 else {"effective_rows": {"held_out": round(plan.effective_rows)}}


def _summarize_common(
    plan: PortfolioPlan, dominated: dict[str, str], measured: tuple[Floats, Floats]
) -> dict[str, Any]:
    return {
        "unit": plan.unit,
        "estimator": plan.estimator,
        "dimensions": plan.items.shape[1],
        "regularization": plan.regularization,
        "feature_classifier": plan.feature_classifier,
        "embedding_cost": plan.embedding_cost,
        **plan.describe_setup(),
        "classifiers": [
            {"name": name, "accuracy": accuracy, "cost": cost, "sigma": sigma}
            for name, accuracy, cost, sigma in zip(
                plan.classifiers, *(each.tolist() for each in measured), plan.sigmas.tolist(), strict=True
            )
        ],
        "beaten": [{"name": name, "by": winner} for name, winner in dominated.items()],
        "held_out": [_summarize_budget(plan, reduction) for reduction in REDUCTIONS],
    }


def _summarize_budget(plan: PortfolioPlan, reduction: float) -> dict[str, Any]:
    """Return each method's accuracy at the largest budget with this cost reduction (OCCAM, Table 2)."""
    budget = (1 - reduction) * plan.highest_cost
    place = max(int(np.searchsorted(plan.curve_budgets, budget * (1 + 1e-9), side="right")) - 1, 0)
    accuracies = plan.curve_accuracies[:, place].tolist()
    return {"budget": float(plan.curve_budgets[place]), **dict(zip(plan.methods, accuracies, strict=True))}
