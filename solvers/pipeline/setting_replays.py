"""Operating points of a pipeline, evaluated on unseen rows.

A rejected item counts as not correct; with losses, it has the loss of a reject.
"""

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
"""Build parameters to try: the defaults, and always answering, which acquires fewer features."""
MAX_POINTS = 24
"""Maximum number of operating points, evenly spread over the front."""


def replay_settings(plan: PipelinePlan, dataset: FeatureTable) -> list[SettingReplay]:
    """Evaluate the configurations chosen at budgets over the front's range."""
    limits = np.sort(plan.safe_costs)
    points, done = [], set()
    for place in np.unique(np.linspace(0, len(limits) - 1, MAX_POINTS).round().astype(int)).tolist():
        chosen = plan.decide(PipelineQuery(budget=float(limits[place])))
        if chosen.solution in done:
            continue
        done.add(chosen.solution)
        codes, costs = plan.classify(chosen.solution, dataset.values)
        right = (
            np.equal(codes, dataset.labels).astype(np.float64)
            if plan.losses is None
            else 1 - plan.losses.measure(dataset.labels, codes)
        )
        points.append(SettingReplay({"budget": float(limits[place])}, Replay(right, costs)))
    return points
