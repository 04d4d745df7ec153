"""Calibration drift: compare the confidences that an endpoint returns with those of the build.

An accept threshold is valid only on the scale and the distribution it was learned from.
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
    """Return the effective rows and the quantiles of each classifier's confidences."""
    rows, levels = effective_rows(trace.item_codes), np.linspace(0, 1, QUANTILES)
    return {
        spec.name: {"rows": rows, "quantiles": np.quantile(values, levels, method="inverted_cdf").tolist()}
        for spec, values in zip(trace.spec.classifiers, trace.confidences.T, strict=True)
        if spec.confidence is not None
    }


def is_outside(profile: Mapping[str, Any], confidence: float) -> bool:
    """Return whether a confidence lies outside the range of the build."""
    low, high = profile["quantiles"][0], profile["quantiles"][-1]
    return not low - TOLERANCE <= confidence <= high + TOLERANCE


def compare_confidences(profile: Mapping[str, Any], observed: Sequence[float], *, share: float) -> str | None:
    """Describe how a window of confidences differs from those of the build; None if it does not.

    Args:
        profile: rows and quantiles of the build (``profile_confidences``).
        observed: (n,), confidences of an endpoint.
        share: the share of items that they are of, in (0, 1]. At 1 the distributions are compared by the two-sample
            Kolmogorov-Smirnov test. Below 1 the items may be selected: the window differs if no selection of that share
            of the build's rows has such a distribution.
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
