"""Summary of a build: the search, the front, and baselines."""

from typing import Any

import numpy as np

from models.pipeline import Configuration
from solvers.pipeline.front import FrontResult
from solvers.pipeline.plan import PipelinePlan
from solvers.setup_groups import describe_setup

MAX_SHOWN = 8
"""Maximum number of configurations in the summary."""


def summarize(
    plan: PipelinePlan, front: FrontResult, counts: dict[str, dict[str, int]], baselines: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the results of a build as plain JSON.

    counts: number of rows of each part. baselines: scores of simple configurations on the test rows.
    """
    frontier = plan.list_frontier()
    shown = np.unique(np.linspace(0, len(frontier) - 1, MAX_SHOWN).round().astype(int))
    return {
        "unit": plan.unit,
        **counts,
        "confidence_threshold": plan.get_threshold(plan.default_solution),
        "after_last_stage": plan.after_last_stage,
        "search": "exact" if front.exact else "emsco",
        "examined": front.examined,
        "ended": front.ended,
        "configurations": len(frontier),
        "usual": plan.default_solution,
        "frontier": [_line(frontier[place]) for place in shown.tolist()],
        "baselines": baselines,
        **describe_setup(plan.setup, plan.setup_names, plan.setup_costs, plan.features),
    }


def _line(one: Configuration) -> dict[str, Any]:
    return {
        "solution": one.solution,
        "stages": " > ".join(" ".join(stage.features) for stage in one.stages),
        "accuracy": one.conclusive_accuracy,
        "coverage": one.coverage,
        "cost": one.cost,
    }
