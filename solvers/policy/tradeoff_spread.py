"""The trade-offs that a policy is learned for: what a unit of cost weighs against errors (λ of Section 2)."""

import numpy as np

from models.arrays import Floats
from models.policy import PolicyOptions

LEAST_WEIGHT, MOST_WEIGHT = 0.008, 0.5
"""Trade-offs under which all sensors together weigh so much, and the cheapest that is not free so much."""
HEAVIEST, HUGE = 1e6, 1e12
"""Errors that the cheapest sensor that is not free may weigh, and all together: beyond, numbers grow too large."""
LEAST_COST = 1e-200
"""Sensors that cost less together cost nothing."""


def tradeoffs_of(options: PolicyOptions, means: Floats) -> Floats:
    """List the trade-offs to build, rising: as given, or spread evenly by their logarithms, down to acquiring the
    cheapest sensor alone, and where sensors are free one more, under which only these are acquired. None weighs the
    cheapest of the others more than ``HEAVIEST``, for that would decide no differently.

    >>> tradeoffs_of(PolicyOptions(points=2), np.array([1.0, 3.0])).tolist()
    [0.002, 0.5]
    """
    total = float(means.sum())
    if total < LEAST_COST:
        return np.zeros(1)
    cheapest = float(means[means > 0].min())
    most = min(HEAVIEST / cheapest, HUGE / total)
    if options.tradeoffs != "auto":
        return np.unique(np.minimum(np.array(options.tradeoffs, dtype=np.float64), most))
    spread = np.geomspace(LEAST_WEIGHT / total, min(MOST_WEIGHT / cheapest, most), options.points)
    return np.append(spread, most) if bool(np.any(means == 0)) else spread
