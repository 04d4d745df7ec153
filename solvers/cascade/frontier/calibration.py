"""How likely an answer is right, from a confidence of any scale: votes, margins, percents, log-probabilities."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.arrays import Floats, Int64s
from solvers.item_splits import ItemRows

CurveKind = Literal["constant", "logistic", "isotonic"]
MIN_ISOTONIC_ROWS = 100
"""Below, a step function follows chance more than the rows: only a logistic curve is fitted."""
FOLDS = 5


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedConfidences:
    """How likely each of the rows that it was fitted on is right, (N,), never falling in the confidence; and the kind
    of curve that says so."""

    values: Floats
    kind: CurveKind


def calibrate_confidences(confidences: Floats, quality: Floats, items: Int64s) -> CalibratedConfidences:
    """Fit a rising curve from confidence to quality: logistic or isotonic, whichever foretells rows better that it was
    not fitted on (squared error, five folds); constant where higher confidences are not better.

    confidences, quality: (N,), finite, N at least 1; items: (N,) equal for rows of one item, which share a fold.
    O(N log N).
    """
    grouped = ItemRows.from_codes(items)
    count = len(grouped.first)
    if count < 2 or float(np.ptp(confidences)) == 0.0:
        return CalibratedConfidences(np.full(len(quality), quality.mean()), "constant")
    kinds: tuple[CurveKind, ...] = ("constant", "logistic") if count < MIN_ISOTONIC_ROWS else ("logistic", "isotonic")
    fold = grouped.place % min(FOLDS, count)
    best = min(kinds, key=lambda kind: _cross_validation_error(kind, confidences, quality, fold))
    return CalibratedConfidences(_fit_and_predict(best, confidences, quality, confidences), best)


def _cross_validation_error(kind: CurveKind, confidences: Floats, quality: Floats, fold: np.ndarray) -> float:
    """Sum the squared errors about rows that the curve was not fitted on."""
    missed = 0.0
    for part in np.unique(fold):
        here = fold == part
        said = _fit_and_predict(kind, confidences[~here], quality[~here], confidences[here])
        missed += float(((said - quality[here]) ** 2).sum())
    return missed


def _fit_and_predict(kind: CurveKind, confidences: Floats, quality: Floats, asked: Floats) -> Floats:
    """Fit a curve, and read it at other confidences."""
    match kind:
        case "constant":
            return np.full(len(asked), quality.mean())
        case "logistic":
            return _fit_logistic(confidences, quality, asked)
        case _:
            from sklearn.isotonic import IsotonicRegression

            curve = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
            return np.asarray(curve.fit(confidences, quality).predict(asked))


def _fit_logistic(confidences: Floats, quality: Floats, asked: Floats) -> Floats:
    """Fit a logistic curve to graded answers: each row counts as right by its quality, and as wrong by the rest."""
    from sklearn.linear_model import LogisticRegression

    spread = float(confidences.std())
    mean = float(quality.mean())
    if spread == 0.0 or mean in (0.0, 1.0):
        return np.full(len(asked), mean)
    scaled, wanted = ((x - confidences.mean()) / spread for x in (confidences, asked))
    twice, is_right = np.concatenate((scaled, scaled))[:, None], np.repeat([1, 0], len(quality))
    weights = np.concatenate((quality, 1 - quality))
    curve = LogisticRegression(C=10.0, solver="newton-cholesky").fit(twice, is_right, sample_weight=weights)
    if float(curve.coef_[0, 0]) <= 0.0:
        return np.full(len(asked), mean)
    return np.asarray(curve.predict_proba(wanted[:, None])[:, 1])
