"""Cost prediction: ridge regression of measured costs on embeddings, with isotonic calibration.

Prompts that are routed to an expensive model are often long. So a batch that is planned with mean costs exceeds its
budget. The ridge penalty is chosen by generalized cross-validation (Golub, Heath, and Wahba, 1979). The regression is
used for a classifier if it predicts costs better than the mean on cross-validation folds. Isotonic regression then
calibrates the predictions to mean costs.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s, Singles
from solvers.statistics import standard_error_of_mean

MAX_DIMENSIONS = 768
"""Maximum number of coordinates; of more, the directions of the largest variance."""
MAX_ROWS = 20_000
KNOTS = 64
"""Number of calibration knots."""
PENALTIES = np.logspace(-6, 2, 25)
"""Candidate ridge penalties, relative to the mean variance of a coordinate times the number of rows."""
CERTAINTY = 2.0
"""Standard errors by which a regression must predict better than the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class CostRegression:
    """Calibrated linear regression of costs.

    Attributes:
        weights: (d, m), of embeddings.
        intercepts: (m,).
        knots: (k, m), linear predictions, rising.
        levels: (k, m), mean costs at the knots.
    """

    weights: Floats
    intercepts: Floats
    knots: Floats
    levels: Floats

    @classmethod
    def fit(cls, vectors: Singles, costs: Floats, predicted: Floats) -> "CostRegression":
        """Fit to embeddings (n, d) and costs (n, m).

        Args:
            predicted: (n, m), cross-validated predictions of the costs of these rows by linear regressions.
        """
        return cls(*fit_ridge(vectors, costs), *_fit_calibration(predicted, costs))

    def predict(self, vectors: Singles | Floats) -> Floats:
        """Return predicted costs, (n, m), of embeddings (n, d)."""
        return self.calibrate(vectors @ self.weights + self.intercepts)

    def calibrate(self, predicted: Floats) -> Floats:
        """Return mean costs, (n, m), of linear predictions (n, m)."""
        columns = zip(predicted.T, self.knots.T, self.levels.T, strict=True)
        costs = np.column_stack([np.interp(*column) for column in columns])
        return np.asarray(np.clip(costs, self.levels[0], self.levels[-1]))

    def select(self, used: Bools, means: Floats) -> "CostRegression":
        """Return the regression restricted to some classifiers.

        Where ``used[k]`` is false, the prediction is the mean cost, ``means[k]``.
        """
        return CostRegression(
            np.where(used, self.weights, 0.0),
            np.where(used, self.intercepts, means),
            np.where(used, self.knots, means),
            np.where(used, self.levels, means),
        )


def _fit_calibration(predicted: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Return knots (k, m) and mean costs there, by isotonic regression of costs on predictions, (n, m) each.

    Costs are skewed, so a linear fit is too low for large costs and negative for small ones.
    """
    from sklearn.isotonic import IsotonicRegression  # lazy import: only builds need it

    angles = np.linspace(0, np.pi, min(len(predicted), KNOTS))
    knots = np.quantile(predicted, (1 - np.cos(angles)) / 2, axis=0)  # dense at both ends, where costs curve
    scales = np.maximum(np.abs(predicted).max(axis=0), 1e-300)  # IsotonicRegression merges values closer than 1e-15
    levels = []
    for x, y, at in zip((predicted / scales).T, costs.T, (knots / scales).T, strict=True):
        own = ~np.isnan(y)
        isotonic = IsotonicRegression(y_min=y[own].min(), y_max=y[own].max(), out_of_bounds="clip")
        levels.append(isotonic.fit(x[own], y[own]).predict(at))
    return knots, np.column_stack(levels)


def fit_ridge(vectors: Singles, costs: Floats) -> tuple[Floats, Floats]:
    """Fit costs (n, m), NaN if unknown, to embeddings (n, d); return weights and intercepts.

    Weights have shape (d, m), intercepts (m,).

    Complexity: O(n d² + d³) for d up to 768 dimensions.
    """
    known = ~np.isnan(costs)
    if not known.all():
        each = [fit_ridge(vectors[own], costs[own, k, None]) for k, own in enumerate(known.T)]
        return np.concatenate([one[0] for one in each], axis=1), np.concatenate([one[1] for one in each])
    some = np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_ROWS)).astype(np.int64)
    inputs, targets = vectors[some].astype(np.float64), costs[some]
    centre, means = inputs.mean(axis=0), targets.mean(axis=0)
    weights = _solve_ridge(inputs - centre, targets - means)
    return weights, means - centre @ weights


def _solve_ridge(inputs: Floats, targets: Floats) -> Floats:
    """Regress centered targets (n, m) on centered inputs (n, d); return weights (d, m).

    Each column has its own penalty.
    """
    n, d = inputs.shape
    variances, axes = np.linalg.eigh(inputs.T @ inputs)
    kept = np.arange(max(d - MAX_DIMENSIONS, 0), d)
    variances, axes = np.maximum(variances[kept], 0.0), axes[:, kept]
    moments = axes.T @ (inputs.T @ targets)
    squares, scale = (targets * targets).sum(axis=0), float(variances.sum()) / d
    weights, best = np.zeros((d, targets.shape[1])), np.full(targets.shape[1], np.inf)
    for penalty in (PENALTIES * max(scale, 1e-300)).tolist():
        shrunk = moments / (variances + penalty)[:, None]
        residuals = squares - 2 * (shrunk * moments).sum(axis=0) + (variances[:, None] * shrunk**2).sum(axis=0)
        freedom = max(n - 1 - float((variances / (variances + penalty)).sum()), 1e-9)
        score = np.maximum(residuals, 0.0) / freedom**2
        better = score < best
        weights[:, better], best[better] = (axes @ shrunk)[:, better], score[better]
    return weights


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedCosts:
    """Cross-fitted cost regression.

    Attributes:
        regression: the regression to use; None if it does not predict better than the mean.
        row_costs: (n, m), cross-fitted and calibrated predicted costs of the rows.
    """

    regression: CostRegression | None
    row_costs: Floats

    @classmethod
    def cross_fit(cls, vectors: Singles, costs: Floats, means: Floats, fold: Int64s, items: Int64s) -> "ExpectedCosts":
        """Fit regressions and decide for which classifiers they are used.

        Args:
            vectors: (n, d).
            costs: (n, m), NaN if unknown.
            means: (m,).
            fold: (n,), fold of each row.
            items: (n,), equal for rows of one item.
        Complexity: O(k (n d² + d³)) for k folds.
        """
        predicted = np.empty(costs.shape)
        varies = np.nanstd(costs, axis=0) > 1e-9 * np.maximum(np.abs(means), 1e-300)
        if not varies.any():
            return cls(None, np.tile(means, (len(costs), 1)))
        for part in np.unique(fold).tolist():
            rest, own = fold != part, fold == part
            weights, intercepts = fit_ridge(vectors[rest], costs[rest])
            predicted[own] = vectors[own] @ weights + intercepts
        within = np.clip(predicted, np.nanmin(costs, axis=0), np.nanmax(costs, axis=0))
        gained = (costs - np.nanmean(costs, axis=0)) ** 2 - (costs - within) ** 2
        used = varies & np.array([_is_certain(column, items) for column in gained.T])
        if not used.any():
            return cls(None, np.tile(means, (len(costs), 1)))
        final = CostRegression.fit(vectors, costs, predicted)
        return cls(final.select(used, means), np.where(used, final.calibrate(predicted), means))


def _is_certain(gains: Floats, items: Int64s) -> bool:
    """Return whether a mean of gains, (n,), exceeds 0 by ``CERTAINTY`` standard errors.

    Unknown gains are NaN.
    """
    own = ~np.isnan(gains)
    return bool(gains[own].mean() > CERTAINTY * standard_error_of_mean(gains[own], items[own]))
