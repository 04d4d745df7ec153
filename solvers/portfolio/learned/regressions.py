"""The regressions of the mixture: each estimates the probability that each classifier is correct."""

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.learned.embedding import MAX_PLAIN_DIMENSIONS
from solvers.portfolio.learned.forest import RandomForest
from solvers.portfolio.learned.kernel import KernelRegression
from solvers.portfolio.learned.logistic import LogisticRegressions

Regression = RandomForest | KernelRegression | LogisticRegressions
REGRESSION_KINDS = ("forest", "kernel", "logistic")


def fit_regression(kind: str, embedded: Singles, targets: Floats, rng: np.random.Generator) -> Regression:
    """Fit a kind of regression to embeddings (n, e) and outcomes (n, m).

    An outcome is NaN if the classifier was not called. Kernels and logistic regressions are fitted to each classifier's
    own rows. In forests, all classifiers share the trees. There, missing outcomes are replaced by predictions of a
    kernel regression.
    """
    if kind == "kernel":
        return KernelRegression.fit(embedded, targets, rng)
    if kind == "logistic":
        return LogisticRegressions.fit(embedded, targets)
    unknown = np.isnan(targets)
    if unknown.any():
        predicted = KernelRegression.fit(embedded, targets, rng).estimate(embedded)
        targets = np.where(unknown, predicted, targets)
    return RandomForest.fit(_select_directions(embedded), targets, int(rng.integers(2**31)))


def predict_success(regression: Regression, embedded: Singles) -> Floats:
    """Return the probability that each classifier is correct, (n, m), for (n, e) embeddings."""
    return regression.estimate(_select_directions(embedded) if isinstance(regression, RandomForest) else embedded)


def _select_directions(embedded: Singles) -> Singles:
    """Return the first directions of embeddings, (n, e); they suffice for forests."""
    return np.ascontiguousarray(embedded[:, :MAX_PLAIN_DIMENSIONS])
