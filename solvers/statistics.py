"""Statistics that several solvers need and no library has as they need it."""

from math import sqrt
from statistics import NormalDist

import numpy as np

from solvers.arrays import Floats, Int64s

Z_95 = NormalDist().inv_cdf(0.975)
"""Standard deviations on either side that hold 95 %."""


def wilson_interval(rates: Floats, trials: Floats, z: float) -> tuple[Floats, Floats]:
    """Bound success rates by Wilson's score interval: the least and the largest true rates, (n,) each.

    rates: (n,) successes by trials; trials: (n,) at least 1; z: how many standard deviations to allow for. SciPy's
    ``binomtest`` gives the same, for one rate at a time.

    >>> [float(bound[0].round(4)) for bound in wilson_interval(np.array([0.95]), np.array([100.0]), 1.96)]
    [0.8882, 0.9785]
    """
    middle = rates + z * z / (2 * trials)
    spread = z * np.sqrt(rates * (1 - rates) / trials + (z / (2 * trials)) ** 2)
    return np.asarray((middle - spread) / (1 + z * z / trials)), np.asarray((middle + spread) / (1 + z * z / trials))


def wilson(rate: float, trials: float, z: float = Z_95) -> tuple[float, float]:
    """Bound one success rate as ``wilson_interval`` does, in a microsecond.

    >>> [round(bound, 4) for bound in wilson(0.95, 100.0, 1.96)]
    [0.8882, 0.9785]
    """
    scale, middle = 1 + z * z / trials, rate + z * z / (2 * trials)
    spread = z * sqrt(max(rate * (1 - rate), 0.0) / trials + (z / (2 * trials)) ** 2)
    return (middle - spread) / scale, (middle + spread) / scale


def wilson_lower(successes: Int64s, trials: Int64s, confidence: float) -> Floats:
    """Bound success rates from below, one-sided, for trials of at least 1; (n,) each.

    >>> float(wilson_lower(np.array([95]), np.array([100]), 0.95)[0].round(4))
    0.9008
    """
    return wilson_interval(successes / trials, trials.astype(np.float64), NormalDist().inv_cdf(confidence))[0]
