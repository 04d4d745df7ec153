"""Calibration drift: compare the confidences that an endpoint returns with those of the build.

An accept threshold is valid only if confidences have the scale and distribution of the build's confidences.
"""

from collections.abc import Mapping, Sequence
from math import log, sqrt
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Floats
from solvers.item_splits import effective_rows

QUANTILES = 65
WINDOW = 200
"""Confidences of an endpoint that are compared with those of the build."""
FALSE_ALARMS = 1e-4
"""The probability that a window of an unchanged endpoint differs."""
TOLERANCE = 1e-9
"""The difference below which two confidences are equal."""
MAX_OUTSIDE = 0.05
"""The share of a window that may lie outside the range of the build."""


def profile_confidences(trace: Trace) -> dict[str, dict[str, Any]]:
    """Return effective rows and quantiles of each classifier's confidences, in rows where it was called."""
    levels, profiles = np.linspace(0, 1, QUANTILES), {}
    for spec, values in zip(trace.spec.classifiers, trace.confidences.T, strict=True):
        known = np.isfinite(values)
        if known.any():
            items = np.unique(trace.item_codes[known], return_inverse=True)[1]
            quantiles = np.quantile(values[known], levels, method="inverted_cdf")
            profiles[spec.name] = {"rows": effective_rows(items), "quantiles": quantiles.tolist()}
    return profiles


def is_outside(profile: Mapping[str, Any], confidence: float) -> bool:
    """Return whether a confidence is outside the range of the build."""
    low, high = profile["quantiles"][0], profile["quantiles"][-1]
    return not low - TOLERANCE <= confidence <= high + TOLERANCE


def compare_confidences(profile: Mapping[str, Any], observed: Sequence[float], *, share: float) -> str | None:
    """Describe how a window of confidences differs from the build's confidences; None if it does not differ.

    Args:
        profile: rows and quantiles of the build (``profile_confidences``).
        observed: (n,), confidences of an endpoint.
        share: share of all items for which the endpoint is called, in (0, 1]. With 1, the distributions are compared by
            the two-sample Kolmogorov-Smirnov test. Below 1, the endpoint may receive selected items: the window differs
            if no subset of this share of the build's rows has such a distribution.
    """
    quantiles, rows = np.array(profile["quantiles"]), int(profile["rows"])
    outside = float(np.mean([is_outside(profile, each) for each in observed]))
    if outside > max(MAX_OUTSIDE, 10 / rows):
        low, high = f"{quantiles[0]:.3g}", f"{quantiles[-1]:.3g}"
        return f"{outside:.0%} of its confidences lie outside the range of the build, {low} to {high}"
    critical = sqrt(-log(FALSE_ALARMS / 2) / 2 * (share / len(observed) + 1 / rows))
    if _distance(quantiles, np.sort(observed), share) <= critical:
        return None
    means = f"mean {np.mean(observed):.3g}, {quantiles.mean():.3g} in the build"
    return f"its confidences, of {share:.0%} of the items, are distributed differently from the build's ({means})"


def _distance(quantiles: Floats, observed: Floats, share: float) -> float:
    """Bound from below how far a share of the items exceeds what the build has on either side of a confidence.

    Args:
        quantiles: (q,), of the build. Where many confidences are equal, the build's share of those up to a quantile is
            at least its level, and the share of those below it at most.
        observed: (n,), sorted.
        share: the share of items that they are of; at 1 this is the Kolmogorov-Smirnov distance at the quantiles.
    """
    levels = np.linspace(0, 1, len(quantiles))
    above = 1 - np.searchsorted(observed, quantiles + TOLERANCE, side="right") / len(observed)
    below = np.searchsorted(observed, quantiles - TOLERANCE, side="left") / len(observed)
    return float(np.maximum(share * above - (1 - levels), share * below - levels).max())
