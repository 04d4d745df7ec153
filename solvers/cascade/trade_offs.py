"""What a cascade does with rows it never saw, for each of its deadlines."""

import numpy as np

from models import Trace
from solvers.alternatives import Replay, TradeOff
from solvers.cascade.plan import CascadePlan
from solvers.cascade.replay import Rows, walk

TRIALS = tuple({"target_precision": target} for target in (0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99))
"""Parameters of builds that span its trade-offs together: one build has one precision."""


def trade_offs(plan: CascadePlan, dataset: Trace) -> list[TradeOff]:
    """Walk rows through the cascade of each deadline. O(N) time a call."""
    names = [classifier.name for classifier in dataset.spec.classifiers]
    rows = Rows.of(dataset, np.arange(dataset.rows), [names.index(name) for name in plan.names], plan.thresholds)
    points = []
    for step, deadline in enumerate(plan.maximum_durations.tolist()):
        costs, right, _ = walk(rows, plan.members[plan.offsets[step] : plan.offsets[step + 1]].tolist())
        points.append(TradeOff({"deadline": deadline}, Replay(right.astype(np.float64), costs)))
    return points
