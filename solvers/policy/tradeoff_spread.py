"""The trade-offs that a policy is learned for: what a unit of cost weighs against errors (λ of Section 2)."""

import numpy as np

from models.arrays import Floats
from models.policy import PolicyOptions

MIN_TOTAL_WEIGHT, MAX_CHEAPEST_WEIGHT = 0.008, 0.5
"""Trade-offs under which all sensors together weigh so much, and the cheapest that is not free so much."""
CHEAPEST_WEIGHT_CAP, TOTAL_WEIGHT_CAP = 1e6, 1e12
"""Errors that the cheapest sensor that is not free may weigh, and all together: beyond, numbers grow too large."""
MIN_TOTAL_COST = 1e-200
"""Sensors that cost less together cost nothing."""


def list_tradeoffs(options: PolicyOptions, means: Floats) -> Floats:
    """List the trade-offs to build, rising: as given, or spread evenly by their logarithms, down to acquiring the
    cheapest sensor alone, and where sensors are free one more, under which only these are acquired. None weighs the
    cheapest of the others more than ``HEAVIEST``, for that would decide no differently.

    >>> list_tradeoffs(PolicyOptions(points=2), np.array([1.0, 3.0])).tolist()
    [0.002, 0.5]
    """
    total = float(means.sum())
    if total < MIN_TOTAL_COST:
        return np.zeros(1)
    cheapest = float(means[means > 0].min())
    most = min(CHEAPEST_WEIGHT_CAP / cheapest, TOTAL_WEIGHT_CAP / total)
    if options.tradeoffs != "auto":
        return np.unique(np.minimum(np.array(options.tradeoffs, dtype=np.float64), most))
    spread = np.geomspace(MIN_TOTAL_WEIGHT / total, min(MAX_CHEAPEST_WEIGHT / cheapest, most), options.points)
    return np.append(spread, most) if bool(np.any(means == 0)) else spread
