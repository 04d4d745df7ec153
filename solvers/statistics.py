"""Statistics that several solvers need and no library has as they need it."""

from math import sqrt
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int64s
from solvers.item_splits import ItemRows

Z_95 = NormalDist().inv_cdf(0.975)
"""Standard deviations on either side that hold 95 %."""


N = TypeVar("N", float, Floats)


def softmax(logits: Floats) -> Floats:
    """Turn logits, (n, C), into probabilities. As SciPy's, whose import alone takes a quarter of a second: what decides
    at the command line waits for nothing else of it.

    >>> softmax(np.array([[0.0, np.log(3.0)], [1000.0, 0.0]])).round(12).tolist()
    [[0.25, 0.75], [1.0, 0.0]]
    """
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def wilson_interval(rate: N, trials: N, z: float = Z_95) -> tuple[N, N]:
    """Bound success rates by Wilson's score interval: the least and the largest true rates, of one rate or of (n,).

    rate: successes by trials, of which there is at least one; z: how many standard deviations to allow for. SciPy's
    ``binomtest`` gives the same, for one rate at a time and in a hundred times the time.

    >>> [round(bound, 4) for bound in wilson_interval(0.95, 100.0, 1.96)]
    [0.8882, 0.9785]
    """
    scale, middle = 1 + z * z / trials, rate + z * z / (2 * trials)
    spread = z * (rate * (1 - rate) / trials + (z / (2 * trials)) ** 2) ** 0.5
    low, high = (middle - spread) / scale, (middle + spread) / scale
    low, high = low * (low > 0), high * (high < 1) + (high >= 1)  # rounding may go beyond, or not as far as the rate
    return low + (rate - low) * (low > rate), high + (rate - high) * (high < rate)


def standard_error(rate: N, trials: N | float) -> N:
    """Say how far success rates are usually off, one or (n,): by the rate with one success and one failure more
    (Laplace's rule of succession), for what always succeeded may yet fail.

    >>> standard_error(0.5, 100), round(standard_error(1.0, 98), 3)
    (0.05, 0.01)
    """
    smoothed = (rate * trials + 1) / (trials + 2)
    error: N = (smoothed * (1 - smoothed) / trials) ** 0.5
    return error


def standard_error_of_mean(values: Floats, items: Int64s | None = None) -> Floats:
    """Estimate the standard error of means over the last axis, (..., n): infinite for a single item.

    items: (n,) equal for rows of one item: the error is that of the jackknife that leaves out one item at a time, which
    is honest also where one item has most of the rows (MacKinnon, Nielsen and Webb, *Fast and reliable jackknife and
    bootstrap methods for cluster-robust inference*, 2023).

    >>> standard_error_of_mean(np.array([[1.0, 3.0], [2.0, 2.0]])).tolist()
    [1.0, 0.0]
    >>> float(standard_error_of_mean(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])))
    1.0
    """
    n = values.shape[-1]
    grouped = ItemRows.from_codes(np.arange(n) if items is None else items)
    g = len(grouped.first)
    if g == 1:
        return np.full(values.shape[:-1], np.inf)
    if not grouped.repeats:
        return np.asarray(values.std(axis=-1, ddof=1) / sqrt(n))
    off = (values - values.mean(axis=-1, keepdims=True))[..., np.argsort(grouped.place, kind="stable")]
    sums = np.add.reduceat(off, np.cumsum(grouped.sizes) - grouped.sizes, axis=-1)
    return np.asarray(np.sqrt(((sums / (n - grouped.sizes)) ** 2).sum(axis=-1) * (g - 1) / g))


def normal_interval(mean: float, error: float) -> tuple[float, float]:
    """Bound a mean of what is never negative with 95 % confidence, given its standard error (normal approximation).

    >>> normal_interval(1.0, 0.0), normal_interval(1.0, 10.0)[0]
    ((1.0, 1.0), 0.0)
    """
    return max(mean - Z_95 * error, 0.0), mean + Z_95 * error


def wilson_lower(successes: Int64s | Floats, trials: NDArray[Any], confidence: float) -> Floats:
    """Bound success rates from below, one-sided, for trials of at least 1; (n,) each.

    >>> float(wilson_lower(np.array([95]), np.array([100]), 0.95)[0].round(4))
    0.9008
    """
    return wilson_interval(np.asarray(successes / trials), trials.astype(np.float64), NormalDist().inv_cdf(confidence))[
        0
    ]


def runs_score(values: Floats) -> float:
    """Test values in their order for dependence (Wald and Wolfowitz): standard deviations by which there are more runs
    above and below the median than in random order; negative where like values follow each other, 0 for constant ones.

    >>> round(runs_score(np.repeat([1.0, 2.0], 50)), 1), runs_score(np.ones(9))
    (-9.8, 0.0)
    """
    sides = values > np.median(values)
    above, below = int(sides.sum()), int((~sides).sum())
    n = above + below
    if min(above, below) < 2:
        return 0.0
    runs = 1 + int(np.count_nonzero(sides[1:] != sides[:-1]))
    expected = 1 + 2 * above * below / n
    variance = (expected - 1) * (expected - 2) / (n - 1)
    return float((runs - expected) / sqrt(variance))
