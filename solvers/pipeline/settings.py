"""What a pipeline does with rows it never saw, over its front; an item without an answer is not answered rightly."""

from typing import Any

import numpy as np

from models import FeatureTable
from models.pipeline import PipelineQuery
from solvers.pipeline.plan import PipelinePlan
from solvers.savings import Replay, SettingReplay

TRIALS: tuple[dict[str, Any], ...] = (
    {},
    {"after_last_stage": "answer"},
)
"""Parameters of builds that span its trade-offs together: the usual one, and one that always answers and buys less."""
MAX_POINTS = 24
"""Configurations that are tried, spread evenly over the front."""


def replay_settings(plan: PipelinePlan, dataset: FeatureTable) -> list[SettingReplay]:
    """Send rows through the configurations that are chosen at costs over the front."""
    limits = np.sort(plan.safe_costs)
    points, done = [], set()
    for place in np.unique(np.linspace(0, len(limits) - 1, MAX_POINTS).round().astype(int)).tolist():
        chosen = plan.decide(PipelineQuery(budget=float(limits[place])))
        if chosen.solution in done:
            continue
        done.add(chosen.solution)
        codes, costs = plan.classify(chosen.solution, dataset.values)
        right = np.equal(codes, dataset.labels).astype(np.float64)
        points.append(SettingReplay({"budget": float(limits[place])}, Replay(right, costs)))
    return points
