"""Confidence calibration: map confidences of any scale to probabilities of being correct.

The fitted curve is logistic or isotonic. The log-odds of the curve may have an effect for each predicted label, which a
quadratic penalty shrinks to 0: answers with the same confidence are right more often for some labels than for others.
Cross-validation chooses the curve and the penalty. So a common threshold on the calibrated confidence is a threshold on
the raw confidence for each label (Chen, Zaharia, Zou, *FrugalML*, 2020, choose thresholds by label, too).

Confidences may be votes, margins, percentages, or log-probabilities.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.arrays import Floats, Int64s
from solvers.item_splits import GroupedRows
from solvers.statistics import standard_error_of_mean

CurveKind = Literal["constant", "logistic", "isotonic"]
MIN_ISOTONIC_ROWS = 100
"""Minimum number of items for isotonic regression and labels' effects, which overfit with fewer."""
FOLDS = 5
RIDGE = 0.1
"""Penalty on the square of the slope, which bounds it where confidences separate right from wrong answers."""
MAX_STEPS, MIN_STEP, MIN_CURVATURE = 100, 1e-9, 1e-12
"""Newton's method: its most steps, the change of slope and intercept that ends it, and what keeps it solvable."""
LABEL_PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0)
"""Penalties on the squares of labels' effects, in rows, that are compared with no effects."""
MAX_EFFECT_STEP = 2.0
"""Maximum change of an effect in one step of Newton's method."""
LEAST_CHANCE, TOLERANCE = 1e-6, 1e-8
"""Distance of probabilities from 0 and 1, so that log-odds are finite; the rounding error of log-odds."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedConfidences:
    """Calibrated confidences of the rows.

    Attributes:
        values: (N,), probability of being correct; monotone in the confidence for each label.
        kind: type of the curve.
        effects: (L,), what each label adds to the log-odds; (0,) if labels have no effects.
        confidences: (N,), raw confidences, rising.
        curve: (N,), value of the curve at these confidences, without effects.
    """

    values: Floats
    kind: CurveKind
    effects: Floats
    confidences: Floats
    curve: Floats

    @classmethod
    def from_curve(
        cls, confidences: Floats, curve: Floats, kind: CurveKind, labels: Int64s, effects: Floats
    ) -> "CalibratedConfidences":
        """Add the effects of labels, (N,) codes, to the values of a curve, (N,)."""
        order = np.argsort(confidences, kind="stable")
        values = curve
        if len(effects):
            curve = _bound_chances(curve)
            values = _bound_chances(_logistic(_log_odds(curve) + _take_effects(effects, labels)))
        return cls(values, kind, effects, confidences[order], curve[order])

    def find_thresholds(self, level: float) -> Floats:
        """Return the least raw confidences whose calibrated value reaches a level, (L + 1,) or (1,).

        The last one is for labels without an effect. Thresholds are inf if no confidence reaches the level.

        Complexity: O(L log N).
        """
        targets = np.array([level])
        if len(self.effects):
            targets = _logistic(_log_odds(targets) - np.append(self.effects, 0.0) - TOLERANCE)
        return np.append(self.confidences, np.inf)[np.searchsorted(self.curve, targets)]


def calibrate_confidences(
    confidences: Floats, quality: Floats, items: Int64s, labels: Int64s, label_count: int
) -> CalibratedConfidences:
    """Fit a rising curve, logistic or isotonic, from confidence to quality by cross-validation.

    The curve is constant if answers with higher confidence are not more often correct.

    Args:
        confidences: (N,), finite, N at least 1.
        quality: (N,), in [0, 1].
        items: (N,), equal for rows of one item, which share a fold.
        labels: (N,), codes of predicted labels, below ``label_count``; -1 for none.
        label_count: L; 0: labels have no effects.
    Complexity: O(N log N).
    """
    grouped = GroupedRows.from_codes(items)
    count = len(grouped.first)
    if count < 2 or float(np.ptp(confidences)) == 0.0:
        flat = np.full(len(quality), quality.mean())
        return CalibratedConfidences.from_curve(confidences, flat, "constant", labels, np.empty(0))
    kinds: tuple[CurveKind, ...] = ("constant", "logistic") if count < MIN_ISOTONIC_ROWS else ("logistic", "isotonic")
    fold = grouped.place % min(FOLDS, count)
    best = min(kinds, key=lambda kind: _cross_validation_error(kind, confidences, quality, fold))
    curve = _fit_and_predict(best, confidences, quality, confidences)
    effects = np.empty(0)
    if label_count > 1 and count >= MIN_ISOTONIC_ROWS:
        penalty = _choose_penalty(best, confidences, quality, items, fold, labels, label_count)
        effects = fit_label_effects(curve, quality, labels, label_count, penalty) if penalty < np.inf else effects
    return CalibratedConfidences.from_curve(confidences, curve, best, labels, effects)


def _choose_penalty(
    kind: CurveKind,
    confidences: Floats,
    quality: Floats,
    items: Int64s,
    fold: np.ndarray,
    labels: Int64s,
    label_count: int,
) -> float:
    """Return the penalty of labels' effects with the least squared error on other rows.

    inf: no effects, because no penalty is better by more than a standard error.
    """
    errors = np.zeros((1 + len(LABEL_PENALTIES), len(quality)))
    for part in np.unique(fold):
        here = fold == part
        learned, fresh = (
            _fit_and_predict(kind, confidences[~here], quality[~here], confidences[rows]) for rows in (~here, here)
        )
        errors[0, here] = np.square(fresh - quality[here])
        for at, penalty in enumerate(LABEL_PENALTIES, start=1):
            effects = fit_label_effects(learned, quality[~here], labels[~here], label_count, penalty)
            predicted = _logistic(_log_odds(fresh) + _take_effects(effects, labels[here]))
            errors[at, here] = np.square(predicted - quality[here])
    best = int(errors.mean(axis=1).argmin())
    gain = errors[0] - errors[best]
    is_better = best > 0 and float(gain.mean()) > standard_error_of_mean(gain, items)
    return LABEL_PENALTIES[best - 1] if is_better else np.inf


def fit_label_effects(curve: Floats, quality: Floats, labels: Int64s, label_count: int, penalty: float) -> Floats:
    """Return what each label adds to the log-odds of a curve, (L,): the maximum of the penalized likelihood.

    Args:
        curve: (N,), probability of being correct by the confidence alone.
        penalty: weight of the squares of effects; effects of labels with fewer rows shrink more.
    Complexity: O(N) per step of Newton's method.
    """
    known = labels >= 0
    log_odds, quality, labels = _log_odds(curve[known]), quality[known], labels[known]
    effects = np.zeros(label_count)
    for _ in range(MAX_STEPS):
        chance = _logistic(log_odds + effects[labels])
        slopes = np.bincount(labels, quality - chance, label_count) - penalty * effects
        step = slopes / (np.bincount(labels, chance * (1 - chance), label_count) + penalty)
        effects += np.clip(step, -MAX_EFFECT_STEP, MAX_EFFECT_STEP)
        if np.abs(step).max() <= MIN_STEP:
            break
    return effects


def _take_effects(effects: Floats, labels: Int64s) -> Floats:
    """Return the effect of each label, (N,); 0 for -1."""
    return np.append(effects, 0.0)[labels]


def _bound_chances(chances: Floats) -> Floats:
    return np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)


def _log_odds(chances: Floats) -> Floats:
    bounded = _bound_chances(chances)
    return np.asarray(np.log(bounded / (1 - bounded)))


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
