"""Confidence intervals, standard errors (Wilson, jackknife), softmax, and the runs test."""

from math import sqrt
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int64s
from solvers.item_splits import GroupedRows, effective_rows

Z_95 = NormalDist().inv_cdf(0.975)
"""Two-sided normal quantile of 95 %."""

N = TypeVar("N", float, Floats)


def softmax(logits: Floats) -> Floats:
    """Return probabilities from logits, (n, C).

    SciPy's version takes 0.25 s to import.


    >>> softmax(np.array([[0.0, np.log(3.0)], [1000.0, 0.0]])).round(12).tolist()
    [[0.25, 0.75], [1.0, 0.0]]
    """
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def wilson_interval(rate: N, trials: N, z: float = Z_95) -> tuple[N, N]:
    """Return Wilson's score interval of success rates: one, or (n,).

    The result equals that of SciPy's ``binomtest``, but is a hundred times faster.

    Args:
        rate: successes / trials; trials are at least 1.
        z: half-width in standard deviations.

    >>> [round(bound, 4) for bound in wilson_interval(0.95, 100.0, 1.96)]
    [0.8882, 0.9785]
    """
    scale, middle = 1 + z * z / trials, rate + z * z / (2 * trials)
    spread = z * (rate * (1 - rate) / trials + (z / (2 * trials)) ** 2) ** 0.5
    low, high = (middle - spread) / scale, (middle + spread) / scale
    low, high = low * (low > 0), high * (high < 1) + (high >= 1)  # rounding may exceed [0, 1] or exclude the rate
    return low + (rate - low) * (low > rate), high + (rate - high) * (high < rate)


def standard_error(rate: N, trials: N | float) -> N:
    """Return the standard error of success rates, one or (n,), smoothed by Laplace's rule of succession.

    >>> standard_error(0.5, 100), round(standard_error(1.0, 98), 3)
    (0.05, 0.01)
    """
    smoothed = (rate * trials + 1) / (trials + 2)
    error: N = (smoothed * (1 - smoothed) / trials) ** 0.5
    return error


def standard_error_of_mean(values: Floats, items: Int64s | None = None) -> Floats:
    """Return the standard error of means over the last axis, (..., n); inf for a single item.

    items: (n,), equal for rows of one item. With items, the cluster jackknife is used, which is reliable even if one
    item has most of the rows.

    Source: MacKinnon, Nielsen, Webb, *Fast and reliable jackknife and bootstrap methods for cluster-robust inference*,
    2023.

    >>> standard_error_of_mean(np.array([[1.0, 3.0], [2.0, 2.0]])).tolist()
    [1.0, 0.0]
    >>> float(standard_error_of_mean(np.array([1.0, 1.0, 3.0, 3.0]), np.array([0, 0, 1, 1])))
    1.0
    """
    n = values.shape[-1]
    grouped = GroupedRows.from_codes(np.arange(n) if items is None else items)
    g = len(grouped.first)
    if g == 1:
        return np.full(values.shape[:-1], np.inf)
    if not grouped.repeats:
        return np.asarray(values.std(axis=-1, ddof=1) / sqrt(n))
    off = (values - values.mean(axis=-1, keepdims=True))[..., np.argsort(grouped.place, kind="stable")]
    sums = np.add.reduceat(off, np.cumsum(grouped.sizes) - grouped.sizes, axis=-1)
    return np.asarray(np.sqrt(((sums / (n - grouped.sizes)) ** 2).sum(axis=-1) * (g - 1) / g))


def effective_sample_size(weights: Floats, items: Int64s) -> float:
    """Return Kish's effective sample size of weighted rows, (n,); rows of one item count once.

    >>> effective_sample_size(np.array([1.0, 1.0, 2.0, 0.0]), np.array([0, 1, 2, 2]))
    2.6666666666666665
    """
    sums = np.bincount(GroupedRows.from_codes(items).place, weights)
    return float(sums.sum() ** 2 / max(float((sums**2).sum()), 1e-300))


def normal_interval(mean: float, error: float) -> tuple[float, float]:
    """Return the normal 95 % confidence interval of a nonnegative mean, given its standard error.

    >>> normal_interval(1.0, 0.0), normal_interval(1.0, 10.0)[0]
    ((1.0, 1.0), 0.0)
    """
    return max(mean - Z_95 * error, 0.0), mean + Z_95 * error


def wilson_lower_bound(successes: Int64s | Floats, trials: NDArray[Any], confidence: float) -> Floats:
    """Return one-sided lower Wilson bounds of success rates, (n,), for trials of at least 1.

    >>> float(wilson_lower_bound(np.array([95]), np.array([100]), 0.95)[0].round(4))
    0.9008
    """
    return wilson_interval(np.asarray(successes / trials), trials.astype(np.float64), NormalDist().inv_cdf(confidence))[
        0
    ]


def mean_accuracy(right: Floats) -> Floats:
    """Return means over the first axis, (n, …), clipped to [0, 1].

    Means of doubly robust values can be outside [0, 1].
    """
    return np.asarray(np.clip(right.mean(axis=0), 0.0, 1.0))


def accuracy_interval(right: Floats, items: Int64s) -> tuple[float, float]:
    """Return the 95 % confidence interval of a mean of outcomes, (n,).

    It is Wilson's interval, or a normal one if outcomes are beyond [0, 1], as doubly robust values can be. items: (n,),
    equal for rows of one item.

    >>> accuracy_interval(np.array([1.0, 1.0, 1.0, -0.5]), np.arange(4))
    (0.0, 1.0)
    """
    mean = float(mean_accuracy(right))
    if right.min() >= 0 and right.max() <= 1:
        return wilson_interval(mean, float(effective_rows(items)))
    error = Z_95 * float(standard_error_of_mean(right, items))
    return max(mean - error, 0.0), min(mean + error, 1.0)


def compute_runs_test_score(values: Floats) -> float:
    """Return the z-score of the Wald-Wolfowitz runs test, relative to the median.

    It is negative if similar values follow each other, and 0 for constant values.

    >>> round(compute_runs_test_score(np.repeat([1.0, 2.0], 50)), 1), compute_runs_test_score(np.ones(9))
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


def compute_stable_mean(values: Floats) -> float:
    """Return the mean without overflow, within the range of the values.

    >>> compute_stable_mean(np.array([1.5e308, 1.5e308])), compute_stable_mean(np.array([0.1, 0.1, 0.1]))
    (1.5e+308, 0.1)
    """
    average = float((values / len(values)).sum())
    return min(max(average, float(values.min())), float(values.max()))
