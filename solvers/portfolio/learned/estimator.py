"""Fitted learned estimator: reduced embedding, regressions, and their mixture."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.learned.embedding import ReducedEmbedding
from solvers.portfolio.learned.mixture import RegressionMixture
from solvers.portfolio.learned.regressions import Regression, fit_regression, predict_success

MAX_ROWS_PER_CHUNK = 4096
"""Queries per batch, which fit into the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedEstimator:
    """Probability that each classifier is correct, by regressions on an embedding."""

    embedding: ReducedEmbedding
    regressions: dict[str, Regression]
    mixture: RegressionMixture

    @classmethod
    def fit(
        cls, vectors: Singles, right: Floats, mixture: RegressionMixture, rng: np.random.Generator
    ) -> "LearnedEstimator":
        """Fit to (n, d) embeddings and outcomes, (n, m)."""
        embedding = ReducedEmbedding.fit(vectors)
        inputs = embedding.apply(vectors)
        return cls(embedding, {kind: fit_regression(kind, inputs, right, rng) for kind in mixture.kinds}, mixture)

    def estimate(self, vectors: Singles) -> Floats:
        """Return the probability that each classifier is correct, (n, m), for queries (n, d)."""
        parts = [
            self._estimate_batch(vectors[start : start + MAX_ROWS_PER_CHUNK])
            for start in range(0, max(len(vectors), 1), MAX_ROWS_PER_CHUNK)
        ]
        return np.concatenate(parts)

    def _estimate_batch(self, vectors: Singles) -> Floats:
        inputs = self.embedding.apply(vectors)
        return self.mixture.apply({kind: predict_success(one, inputs) for kind, one in self.regressions.items()})
