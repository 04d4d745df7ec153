"""The regressions of the mixture: each estimates the probability that each classifier is correct."""

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.learned.embedding import MAX_PLAIN_DIMENSIONS
from solvers.portfolio.learned.forest import RandomForest
from solvers.portfolio.learned.kernel import KernelRegression

Regression = RandomForest | KernelRegression
REGRESSION_KINDS = ("forest", "kernel")


def fit_regression(kind: str, embedded: Singles, targets: Floats, rng: np.random.Generator) -> Regression:
    """Fit a kind of regression to (n, e) embeddings and outcomes, (n, m)."""
    if kind == "kernel":
        return KernelRegression.fit(embedded, targets, rng)
    return RandomForest.fit(_select_directions(embedded), targets, int(rng.integers(2**31)))


def predict_success(regression: Regression, embedded: Singles) -> Floats:
    """Return the probability that each classifier is correct, (n, m), for (n, e) embeddings."""
    return regression.estimate(embedded if isinstance(regression, KernelRegression) else _select_directions(embedded))


def _select_directions(embedded: Singles) -> Singles:
    """Return the first directions of (n, e) embeddings, which suffice for forests."""
    return np.ascontiguousarray(embedded[:, :MAX_PLAIN_DIMENSIONS])
