"""From when on a classifier's answer is accepted: the least confidence whose precision is proved high enough."""

import math
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats
from solvers.statistics import wilson_lower


@dataclass(frozen=True, slots=True)
class AcceptThreshold:
    """The confidence to ask for (None: the target is never reached), and the best precision bound at any confidence."""

    confidence: float | None
    bound: float


def find_threshold(
    confidences: Floats, quality: Floats, target: float, level: float, *, independence: float = 1.0
) -> AcceptThreshold:
    """Find the smallest observed confidence such that the answers at or above it are good enough.

    confidences: (N,) finite, N at least 1; quality: (N,) from 0 to 1, 1 or 0 of answers that are right or wrong. Graded
    answers vary no more than those, so that the bound holds for them too. Good enough: the Wilson lower bound of their
    precision at the one-sided confidence ``level`` is at least ``target``. Equal confidences stay together. O(N log N)
    time. independence: effective rows per row, less than 1 where items repeat.

    >>> find_threshold(np.array([0.2, 0.9, 0.9, 0.9]), np.array([0.0, 1.0, 1.0, 1.0]), 0.5, 0.9).confidence
    0.9
    """
    order = np.argsort(-confidences, kind="stable")
    ranked = confidences[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    successes = np.cumsum(quality[order], dtype=np.float64)[ends]
    bounds = wilson_lower(independence * successes, independence * (ends + 1), level)
    enough = np.flatnonzero(bounds >= target)
    confidence = float(ranked[ends[enough[-1]]]) if len(enough) else None
    return AcceptThreshold(confidence, float(bounds.max()))


def mean_and_worst_time(times: Floats, quantile: float) -> tuple[float, float]:
    """Take the mean and an observed quantile of execution times (N,), the quantile no less than the mean.

    >>> mean_and_worst_time(np.array([1.0, 2.0, 6.0]), 1.0)
    (3.0, 6.0)
    """
    mean = min(max(math.fsum(times.tolist()) / len(times), float(times.min())), float(times.max()))
    worst = float(np.quantile(times, quantile, method="higher"))
    return mean, max(worst, mean)
