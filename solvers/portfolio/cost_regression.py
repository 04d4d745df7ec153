"""Expected cost of a query with each classifier, by ridge regression of measured costs on embeddings.

Prompts that go to an expensive model are often long ones, so a batch that is planned with mean costs overruns its
budget. The penalty is chosen by generalized cross-validation (Golub, Heath, and Wahba, 1979); a regression is used for
the classifiers whose cost it predicts better than the mean on rows that it was not fitted to. Isotonic regression on
these rows then turns predictions into mean costs.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s, Singles
from solvers.statistics import standard_error_of_mean

MAX_DIMENSIONS = 768
"""Coordinates of an embedding that are regressed on; of more, the directions of the largest variance."""
MAX_ROWS = 20_000
KNOTS = 64
"""Predictions at which the mean cost is kept."""
PENALTIES = np.logspace(-6, 2, 25)
"""Ridge penalties that are tried, relative to the mean variance of a coordinate times the number of rows."""
CERTAINTY = 2.0
"""Standard errors by which a regression must predict better than the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class CostRegression:
    """weights: (d, m) of embeddings; intercepts: (m,); knots, levels: (k, m) predictions, rising, and the mean cost
    where the regression predicts each of them."""

    weights: Floats
    intercepts: Floats
    knots: Floats
    levels: Floats

    @classmethod
    def fit(cls, vectors: Singles, costs: Floats, predicted: Floats) -> "CostRegression":
        """Fit to embeddings (n, d) and costs (n, m).

        Args:
            predicted: (n, m), predictions of these rows by linear regressions that were not fitted to them.
        """
        return cls(*linear_regression(vectors, costs), *_calibrate(predicted, costs))

    def predict(self, vectors: Singles | Floats) -> Floats:
        """Predict the costs of (n, d) embeddings, (n, m)."""
        return self.calibrate(vectors @ self.weights + self.intercepts)

    def calibrate(self, predicted: Floats) -> Floats:
        """Return the mean costs, (n, m), where the linear regression predicts (n, m)."""
        columns = zip(predicted.T, self.knots.T, self.levels.T, strict=True)
        costs = np.column_stack([np.interp(*column) for column in columns])
        return np.asarray(np.clip(costs, self.levels[0], self.levels[-1]))

    def only(self, used: Bools, means: Floats) -> "CostRegression":
        """Predict the mean, (m,), for the classifiers that are not used."""
        return CostRegression(
            np.where(used, self.weights, 0.0),
            np.where(used, self.intercepts, means),
            np.where(used, self.knots, means),
            np.where(used, self.levels, means),
        )


def _calibrate(predicted: Floats, costs: Floats) -> tuple[Floats, Floats]:
    """Return knots (k, m) and the mean costs there, by isotonic regression of costs (n, m) on predictions (n, m).

    Costs are skewed, so a line is too low for the largest and negative for the least of them.
    """
    from sklearn.isotonic import IsotonicRegression  # for builds only: servers load faster without

    angles = np.linspace(0, np.pi, min(len(predicted), KNOTS))
    knots = np.quantile(predicted, (1 - np.cos(angles)) / 2, axis=0)  # dense at both ends, where costs curve
    scales = np.maximum(np.abs(predicted).max(axis=0), 1e-300)  # IsotonicRegression merges values closer than 1e-15
    columns = zip((predicted / scales).T, costs.T, (knots / scales).T, strict=True)
    levels = [
        IsotonicRegression(y_min=y.min(), y_max=y.max(), out_of_bounds="clip").fit(x, y).predict(at)
        for x, y, at in columns
    ]
    return knots, np.column_stack(levels)


def linear_regression(vectors: Singles, costs: Floats) -> tuple[Floats, Floats]:
    """Fit to embeddings (n, d) and costs (n, m): weights (d, m) and intercepts (m,). O(n d² + d³) for d up to 768
    dimensions."""
    some = np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_ROWS)).astype(np.int64)
    inputs, targets = vectors[some].astype(np.float64), costs[some]
    centre, means = inputs.mean(axis=0), targets.mean(axis=0)
    weights = _ridge(inputs - centre, targets - means)
    return weights, means - centre @ weights


def _ridge(inputs: Floats, targets: Floats) -> Floats:
    """Regress centred targets, (n, m), on centred inputs, (n, d): weights (d, m), each column with its own penalty."""
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
    """regression: the one to use; None: none predicts better than the mean; of_rows: (n, m) the expected costs of the
    rows, by regressions that were not fitted to them and calibrated by all rows."""

    regression: CostRegression | None
    of_rows: Floats

    @classmethod
    def cross_fit(cls, vectors: Singles, costs: Floats, means: Floats, fold: Int64s, items: Int64s) -> "ExpectedCosts":
        """Fit regressions and decide which are used. vectors: (n, d); costs: (n, m); means: (m,); fold: (n,); items:
        (n,) equal for rows of one item. O(k (n d² + d³)) for k folds."""
        predicted = np.empty(costs.shape)
        varies = costs.std(axis=0) > 1e-9 * np.maximum(np.abs(means), 1e-300)
        if not varies.any():
            return cls(None, np.tile(means, (len(costs), 1)))
        for part in np.unique(fold).tolist():
            rest, own = fold != part, fold == part
            weights, intercepts = linear_regression(vectors[rest], costs[rest])
            predicted[own] = vectors[own] @ weights + intercepts
        within = np.clip(predicted, costs.min(axis=0), costs.max(axis=0))
        gained = (costs - costs.mean(axis=0)) ** 2 - (costs - within) ** 2
        used = varies & (gained.mean(axis=0) > CERTAINTY * standard_error_of_mean(gained.T, items))
        if not used.any():
            return cls(None, np.tile(means, (len(costs), 1)))
        final = CostRegression.fit(vectors, costs, predicted)
        return cls(final.only(used, means), np.where(used, final.calibrate(predicted), means))
