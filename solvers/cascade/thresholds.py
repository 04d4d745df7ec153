"""From when on a classifier's answer is accepted: the least confidence whose precision is proved high enough."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from solvers.cascade.problem import Floats


@dataclass(frozen=True, slots=True)
class Threshold:
    """The confidence to ask for (None: the target is never reached), and the best precision bound at any confidence."""

    confidence: float | None
    bound: float


def wilson_lower(successes: NDArray[np.int64], trials: NDArray[np.int64], confidence: float) -> Floats:
    """Bound success rates from below (Wilson's score interval, one-sided), for trials of at least 1; (n,) each.

    >>> float(wilson_lower(np.array([95]), np.array([100]), 0.95)[0].round(4))
    0.9008
    """
    z = NormalDist().inv_cdf(confidence)
    rate = successes / trials
    spread = z * np.sqrt(rate * (1 - rate) / trials + (z / (2 * trials)) ** 2)
    return np.asarray((rate + z * z / (2 * trials) - spread) / (1 + z * z / trials))


def find_threshold(confidences: Floats, correct: NDArray[np.bool_], target: float, level: float) -> Threshold:
    """Find the smallest observed confidence such that the answers at or above it are right often enough.

    confidences: (N,) finite, N at least 1; correct: (N,). Often enough: the Wilson lower bound of their precision at
    the one-sided confidence ``level`` is at least ``target``. Equal confidences stay together. O(N log N) time.

    >>> find_threshold(np.array([0.2, 0.9, 0.9, 0.9]), np.array([False, True, True, True]), 0.5, 0.9).confidence
    0.9
    """
    order = np.argsort(-confidences, kind="stable")
    ranked = confidences[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    bounds = wilson_lower(np.cumsum(correct[order], dtype=np.int64)[ends], ends + 1, level)
    enough = np.flatnonzero(bounds >= target)
    confidence = float(ranked[ends[enough[-1]]]) if len(enough) else None
    return Threshold(confidence, float(bounds.max()))


def mean_and_worst(times: Floats, quantile: float) -> tuple[float, float]:
    """Take the mean and an observed quantile of execution times (N,), the quantile no less than the mean.

    >>> mean_and_worst(np.array([1.0, 2.0, 6.0]), 1.0)
    (3.0, 6.0)
    """
    mean = min(max(math.fsum(times.tolist()) / len(times), float(times.min())), float(times.max()))
    worst = float(np.quantile(times, quantile, method="higher"))
    return mean, max(worst, mean)
