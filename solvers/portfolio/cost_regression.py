"""Expected cost of a query with each classifier, by ridge regression of measured costs on embeddings.

Prompts that go to an expensive model are often long ones, so a batch that is planned with mean costs overruns its
budget. The penalty is chosen by generalized cross-validation (Golub, Heath, and Wahba, 1979); a regression is used for
the classifiers whose cost it predicts better than the mean on rows that it was not fitted to.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s, Singles
from solvers.statistics import standard_error_of_mean

MAX_DIMENSIONS = 768
"""Coordinates of an embedding that are regressed on; of more, the directions of the largest variance."""
MAX_ROWS = 20_000
PENALTIES = np.logspace(-6, 2, 25)
"""Ridge penalties that are tried, relative to the mean variance of a coordinate times the number of rows."""
CERTAINTY = 2.0
"""Standard errors by which a regression must predict better than the mean."""


@dataclass(frozen=True, slots=True, eq=False)
class CostRegression:
    """weights: (d, m) of embeddings; intercepts: (m,); low, high: (m,) the least and the largest cost observed."""

    weights: Floats
    intercepts: Floats
    low: Floats
    high: Floats

    @classmethod
    def fit(cls, vectors: Singles, costs: Floats) -> "CostRegression":
        """Fit to embeddings (n, d) and costs (n, m). O(n d² + d³) for d up to 768 dimensions."""
        some = np.linspace(0, len(vectors) - 1, min(len(vectors), MAX_ROWS)).astype(np.int64)
        inputs, targets = vectors[some].astype(np.float64), costs[some]
        centre, means = inputs.mean(axis=0), targets.mean(axis=0)
        weights = _ridge(inputs - centre, targets - means)
        return cls(weights, means - centre @ weights, targets.min(axis=0), targets.max(axis=0))

    def predict(self, vectors: Singles | Floats) -> Floats:
        """Predict the costs of (n, d) embeddings, (n, m), within those observed."""
        return np.asarray(np.clip(vectors @ self.weights + self.intercepts, self.low, self.high))

    def only(self, used: Bools, means: Floats) -> "CostRegression":
        """Predict the mean, (m,), for the classifiers that are not used."""
        return CostRegression(
            np.where(used, self.weights, 0.0),
            np.where(used, self.intercepts, means),
            np.where(used, self.low, means),
            np.where(used, self.high, means),
        )


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
    rows, by regressions that were not fitted to them."""

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
            predicted[own] = CostRegression.fit(vectors[rest], costs[rest]).predict(vectors[own])
        gained = (costs - costs.mean(axis=0)) ** 2 - (costs - predicted) ** 2
        used = varies & (gained.mean(axis=0) > CERTAINTY * standard_error_of_mean(gained.T, items))
        expected = np.where(used, predicted, means)
        return cls(CostRegression.fit(vectors, costs).only(used, means) if used.any() else None, expected)
