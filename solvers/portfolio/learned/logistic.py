"""Logistic regressions on embeddings, one per classifier, each with its own regularization strength.

They are more accurate than trees and kernels with few rows, or if success depends only on linear directions of the
embedding.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles

STRENGTHS = tuple(float(10.0**power) for power in np.arange(-4.5, -0.5, 0.5))
"""Candidate values of C of scikit-learn's ``LogisticRegression``, rising."""
MAX_ROWS = 10_000
"""Maximum number of rows; more hardly improve as few coefficients."""
MAX_STEPS, TOLERANCE = 60, 1e-4
"""Training ends when no coefficient moves by more than this share of the largest one."""
MIN_MEAN = 1e-3
"""Means are clipped to this distance from 0 and 1, so that intercepts are finite."""


@dataclass(frozen=True, slots=True, eq=False)
class LogisticRegressions:
    """Fitted regressions.

    weights: (e, m). intercepts: (m,).
    """

    weights: Floats
    intercepts: Floats

    @classmethod
    def fit(cls, inputs: Singles, targets: Floats) -> "LogisticRegressions":
        """Fit (n, m) targets from 0 to 1, NaN if unknown, to (n, e) inputs.

        Each classifier's strength is chosen by approximate leave-one-out cross-validation.

        Complexity: O(n e (e + m)) per strength and step.
        Source: Pregibon, *Logistic regression diagnostics*, 1981.
        """
        has_target = ~np.isnan(targets)
        if not has_target.all():
            each = [cls.fit(inputs[own], targets[own, k, None]) for k, own in enumerate(has_target.T)]
            weights = np.concatenate([one.weights for one in each], axis=1)
            return cls(weights, np.concatenate([one.intercepts for one in each]))
        rows = np.linspace(0, len(inputs) - 1, min(len(inputs), MAX_ROWS)).astype(np.int64)
        given, known = inputs[rows].astype(np.float64), targets[rows]
        centre = given.mean(axis=0)
        variances, directions = np.linalg.eigh((given - centre).T @ (given - centre))
        rotated = (given - centre) @ directions
        weights, intercepts = np.zeros((given.shape[1], known.shape[1])), np.zeros(known.shape[1])
        least = np.full(known.shape[1], np.inf)
        for strength, slopes, base in _follow_path(rotated, np.maximum(variances, 0.0), known):
            losses = _leave_one_out_losses(rotated, variances, known, slopes, base, strength)
            better = losses < least
            least = np.where(better, losses, least)
            weights[:, better], intercepts[better] = slopes[:, better], base[better]
        weights = directions @ weights
        return cls(weights, intercepts - centre @ weights)

    def estimate(self, inputs: Singles) -> Floats:
        """Return predictions, (n, m), for (n, e) inputs. Complexity: O(n e m)."""
        return _to_probabilities(inputs.astype(np.float64) @ self.weights + self.intercepts)


def _to_probabilities(scores: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(scores))


def _follow_path(rotated: Floats, variances: Floats, targets: Floats) -> Iterator[tuple[float, Floats, Floats]]:
    """Yield each strength with its coefficients, (e, m), and intercepts, (m,), rising.

    It uses Newton's method with an upper bound of the Hessian. The bound is diagonal for uncorrelated columns, and the
    same for all classifiers. Each strength starts from the coefficients of the previous one.

    Source: Böhning, Lindsay, *Monotonicity of quadratic-approximation algorithms*, 1988.
    """
    means = np.clip(targets.mean(axis=0), MIN_MEAN, 1 - MIN_MEAN)
    base, slopes = np.log(means / (1 - means)), np.zeros((rotated.shape[1], targets.shape[1]))
    for strength in STRENGTHS:
        curvature = variances[:, None] / 4 + 1 / strength
        for _ in range(MAX_STEPS):
            residuals = targets - _to_probabilities(rotated @ slopes + base)
            step = (rotated.T @ residuals - slopes / strength) / curvature
            shift = 4 * residuals.mean(axis=0)
            slopes, base = slopes + step, np.clip(base + shift, *_logits_of(MIN_MEAN))
            if max(np.abs(step).max(), np.abs(shift).max()) <= TOLERANCE * max(np.abs(slopes).max(), 1e-3):
                break
        yield strength, slopes, base


def _logits_of(share: float) -> tuple[float, float]:
    most = float(np.log((1 - share) / share))
    return -most, most


def _leave_one_out_losses(
    rotated: Floats, variances: Floats, targets: Floats, slopes: Floats, base: Floats, strength: float
) -> Floats:
    """Return each classifier's approximate leave-one-out log loss, (m,).

    It is approximated by one Newton step without each row.
    """
    scores = rotated @ slopes + base
    chances = _to_probabilities(scores)
    spread = np.maximum(chances * (1 - chances), 1e-6)
    mean = spread.mean(axis=0)
    leverage = (rotated**2) @ (1 / (mean * np.maximum(variances, 0.0)[:, None] + 1 / strength))
    leverage = np.minimum(spread * (leverage + 1 / (mean * len(rotated))), 0.99)
    without = scores - leverage / (1 - leverage) * (targets - chances) / spread
    return np.asarray((np.logaddexp(0.0, without) - targets * without).mean(axis=0))
