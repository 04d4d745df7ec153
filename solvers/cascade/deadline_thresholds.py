"""Accept thresholds of cascades for deadlines: the least confidence whose precision has a sufficient lower bound.

The bound is Wilson's. The thresholds of cascades for budgets are in ``frontier``.
"""

import math
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats
from solvers.statistics import wilson_lower_bound


@dataclass(frozen=True, slots=True)
class AcceptThreshold:
    """Accept threshold, and the highest precision bound at any confidence.

    The threshold is None if the target is never reached.
    """

    confidence: float | None
    bound: float


def find_threshold(
    confidences: Floats, quality: Floats, target: float, level: float, *, independence: float = 1.0
) -> AcceptThreshold:
    """Return the smallest observed confidence at or above which answers are precise enough.

    Answers are precise enough if the Wilson lower bound of their precision, at the one-sided confidence ``level``, is
    at least ``target``. The bound also holds for graded answers, whose variance is at most that of binary ones.

    Args:
        confidences: (N,), finite, N at least 1; equal confidences stay together.
        quality: (N,), in [0, 1]; 0 or 1 for answers that are wrong or correct.
        independence: number of effective rows divided by the number of rows; below 1 if items repeat.
    Complexity: O(N log N).

    >>> find_threshold(np.array([0.2, 0.9, 0.9, 0.9]), np.array([0.0, 1.0, 1.0, 1.0]), 0.5, 0.9).confidence
    0.9
    """
    order = np.argsort(-confidences, kind="stable")
    ranked = confidences[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    successes = np.cumsum(quality[order], dtype=np.float64)[ends]
    bounds = wilson_lower_bound(independence * successes, independence * (ends + 1), level)
    enough = np.flatnonzero(bounds >= target)
    confidence = float(ranked[ends[enough[-1]]]) if len(enough) else None
    return AcceptThreshold(confidence, float(bounds.max()))


def measure_execution_times(times: Floats, quantile: float) -> tuple[float, float]:
    """Return the mean and an observed quantile of execution times, (N,).

    The quantile is raised to the mean if it is lower.

    >>> measure_execution_times(np.array([1.0, 2.0, 6.0]), 1.0)
    (3.0, 6.0)
    """
    mean = min(max(math.fsum(times.tolist()) / len(times), float(times.min())), float(times.max()))
    worst = float(np.quantile(times, quantile, method="higher"))
    return mean, max(worst, mean)
