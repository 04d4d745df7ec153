"""The regressions that are mixed: each estimates, from an embedding, how likely each classifier is right."""

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.learned.embedding import MAX_PLAIN_DIMENSIONS
from solvers.portfolio.learned.forest import RandomForest
from solvers.portfolio.learned.kernel import KernelRegression

Regression = RandomForest | KernelRegression
REGRESSION_KINDS = ("forest", "kernel")
"""Kinds of regressions."""


def fit_regression(kind: str, embedded: Singles, targets: Floats, rng: np.random.Generator) -> Regression:
    """Fit a kind to (n, e) embeddings and how right each classifier was about them, (n, m)."""
    if kind == "kernel":
        return KernelRegression.fit(embedded, targets, rng)
    return RandomForest.fit(_narrowed(embedded), targets, int(rng.integers(2**31)))


def predict_success(regression: Regression, embedded: Singles) -> Floats:
    """Estimate from (n, e) embeddings how right each classifier is, (n, m)."""
    return regression.estimate(embedded if isinstance(regression, KernelRegression) else _narrowed(embedded))


def _narrowed(embedded: Singles) -> Singles:
    """Take the first directions of (n, e) embeddings: in many all but kernels get lost."""
    return np.ascontiguousarray(embedded[:, :MAX_PLAIN_DIMENSIONS])
