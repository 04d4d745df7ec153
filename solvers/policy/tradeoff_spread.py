"""Trade-offs that a policy is learned for: weights of a unit of cost (lambda of Section 2)."""

import numpy as np

from models.arrays import Floats
from models.policy import PolicyOptions
from solvers.setup_groups import NO_GROUPS, SetupGroups

MIN_TOTAL_WEIGHT, MAX_CHEAPEST_WEIGHT = 0.008, 0.5
"""Weight of all sensors together at the smallest trade-off, and of the cheapest paid sensor at the largest."""
CHEAPEST_WEIGHT_CAP, TOTAL_WEIGHT_CAP = 1e6, 1e12
"""Maximum weight of the cheapest paid sensor, and of all together, for numerical stability."""
MIN_TOTAL_COST = 1e-200
"""Sensors that cost less together are free."""


def list_tradeoffs(
    options: PolicyOptions, means: Floats, loss_scale: float | None = None, groups: SetupGroups = NO_GROUPS
) -> Floats:
    """Return the trade-offs to learn for, rising, as shares of the largest loss per unit of cost.

    They are the given ones, or geometrically spaced. The largest is the one at which only the cheapest sensor is
    acquired. If there are free sensors, one more trade-off acquires only these. No trade-off exceeds
    ``CHEAPEST_WEIGHT_CAP``, above which decisions no longer change. With losses, one trade-off weighs costs and losses
    equally.

    Args:
        means: (M + G,), mean costs of sensors, then of set-up groups.
        loss_scale: the largest loss, in the unit of costs; None if all errors are equal.
        groups: set-up groups; a single sensor also costs those that it needs.

    >>> list_tradeoffs(PolicyOptions(points=2), np.array([1.0, 3.0])).tolist()
    [0.002, 0.5]
    """
    total = float(means.sum())
    if total < MIN_TOTAL_COST:
        return np.zeros(1)
    singles = groups.step_costs(means, np.zeros(len(means) - len(groups), dtype=np.bool_))
    cheapest = float(singles[singles > 0].min())
    most = min(CHEAPEST_WEIGHT_CAP / cheapest, TOTAL_WEIGHT_CAP / total)
    if options.tradeoffs != "auto":
        return np.unique(np.minimum(np.array(options.tradeoffs, dtype=np.float64) / (loss_scale or 1.0), most))
    spread = np.geomspace(MIN_TOTAL_WEIGHT / total, min(MAX_CHEAPEST_WEIGHT / cheapest, most), options.points)
    if loss_scale is not None:
        spread = np.union1d(spread, min(1 / loss_scale, most))
    return np.append(spread, most) if bool(np.any(singles == 0)) else spread
