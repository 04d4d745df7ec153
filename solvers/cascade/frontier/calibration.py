"""Confidence calibration: map confidences of any scale to probabilities of being correct.

The fitted curve is logistic or isotonic.

Confidences may be votes, margins, percentages, or log-probabilities.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.arrays import Floats, Int64s
from solvers.item_splits import GroupedRows

CurveKind = Literal["constant", "logistic", "isotonic"]
MIN_ISOTONIC_ROWS = 100
"""Minimum number of items for isotonic regression; with fewer it overfits, and only a logistic curve is fitted."""
FOLDS = 5
RIDGE = 0.1
"""Penalty on the square of the slope, which bounds it where confidences separate right from wrong answers."""
MAX_STEPS, MIN_STEP, MIN_CURVATURE = 100, 1e-9, 1e-12
"""Newton's method: its most steps, the change of slope and intercept that ends it, and what keeps it solvable."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedConfidences:
    """Calibrated confidences of the rows, and the type of the fitted curve.

    The probability of being correct, (N,), is monotone in the confidence.
    """

    values: Floats
    kind: CurveKind


def calibrate_confidences(confidences: Floats, quality: Floats, items: Int64s) -> CalibratedConfidences:
    """Fit a rising curve, logistic or isotonic, from confidence to quality by cross-validation.

    The curve is constant if answers with higher confidence are not more often correct.

    Args:
        confidences: (N,), finite, N at least 1.
        quality: (N,), in [0, 1].
        items: (N,), equal for rows of one item, which share a fold.
    Complexity: O(N log N).
    """
    grouped = GroupedRows.from_codes(items)
    count = len(grouped.first)
    if count < 2 or float(np.ptp(confidences)) == 0.0:
        return CalibratedConfidences(np.full(len(quality), quality.mean()), "constant")
    kinds: tuple[CurveKind, ...] = ("constant", "logistic") if count < MIN_ISOTONIC_ROWS else ("logistic", "isotonic")
    fold = grouped.place % min(FOLDS, count)
    best = min(kinds, key=lambda kind: _cross_validation_error(kind, confidences, quality, fold))
    return CalibratedConfidences(_fit_and_predict(best, confidences, quality, confidences), best)


def _cross_validation_error(kind: CurveKind, confidences: Floats, quality: Floats, fold: np.ndarray) -> float:
    error = 0.0
    for part in np.unique(fold):
        here = fold == part
        predicted = _fit_and_predict(kind, confidences[~here], quality[~here], confidences[here])
        error += float(((predicted - quality[here]) ** 2).sum())
    return error


def _fit_and_predict(kind: CurveKind, confidences: Floats, quality: Floats, new_confidences: Floats) -> Floats:
    match kind:
        case "constant":
            return np.full(len(new_confidences), quality.mean())
        case "logistic":
            return _fit_logistic(confidences, quality, new_confidences)
        case _:
            from sklearn.isotonic import IsotonicRegression

            curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
            return np.asarray(curve.fit(confidences, quality).predict(new_confidences))


def _fit_logistic(confidences: Floats, quality: Floats, new_confidences: Floats) -> Floats:
    """Fit a logistic curve to graded answers: a row counts as correct with weight ``quality``, else as wrong."""
    spread = float(confidences.std())
    mean = float(quality.mean())
    if spread == 0.0 or mean in (0.0, 1.0):
        return np.full(len(new_confidences), mean)
    scaled, new_scaled = ((x - confidences.mean()) / spread for x in (confidences, new_confidences))
    slope, intercept = _maximize_likelihood(scaled, quality)
    if slope <= 0.0:
        return np.full(len(new_confidences), mean)
    return _logistic(slope * new_scaled + intercept)


def _maximize_likelihood(x: Floats, quality: Floats) -> tuple[float, float]:
    """Return slope and intercept of the curve by Newton's method; steps that overshoot are halved."""
    mean = float(quality.mean())
    place = np.array([0.0, np.log(mean / (1 - mean))])
    loss = _penalized_loss(place, x, quality)
    for _ in range(MAX_STEPS):
        chance = _logistic(place[0] * x + place[1])
        off, weight = chance - quality, chance * (1 - chance)
        slopes = np.array([off @ x + RIDGE * place[0], off.sum()])
        cross = weight @ x
        curvature = np.array([[weight @ (x * x) + RIDGE, cross], [cross, weight.sum() + MIN_CURVATURE]])
        step = np.linalg.solve(curvature, slopes)
        while (new_loss := _penalized_loss(place - step, x, quality)) > loss and np.abs(step).max() > MIN_STEP:
            step = step / 2
        if np.abs(step).max() <= MIN_STEP:
            break
        place, loss = place - step, new_loss
    return float(place[0]), float(place[1])


def _penalized_loss(place: Floats, x: Floats, quality: Floats) -> float:
    values = place[0] * x + place[1]
    return float((np.logaddexp(0.0, values) - quality * values).sum() + 0.5 * RIDGE * place[0] ** 2)


def _logistic(values: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -values))
