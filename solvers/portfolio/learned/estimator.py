"""The learned estimator as it answers: an embedding, the regressions that are used, and their mixture."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.learned.embedding import ReducedEmbedding
from solvers.portfolio.learned.mixture import RegressionMixture
from solvers.portfolio.learned.regressions import REGRESSION_KINDS, Regression, fit_regression, predict_success

ROWS_AT_ONCE = 4096
"""Queries that are estimated together: what caches hold."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedEstimator:
    """How likely each classifier is right, by regressions of some kinds on an embedding."""

    embedding: ReducedEmbedding
    regressions: dict[str, Regression]
    mixture: RegressionMixture

    @classmethod
    def fit(
        cls, vectors: Singles, right: Floats, mixture: RegressionMixture, rng: np.random.Generator
    ) -> "LearnedEstimator":
        """Learn from (n, d) embeddings and how right each classifier was, (n, m)."""
        embedding = ReducedEmbedding.fit(vectors)
        inputs = embedding.apply(vectors)
        return cls(embedding, {kind: fit_regression(kind, inputs, right, rng) for kind in REGRESSION_KINDS}, mixture)

    def estimate(self, vectors: Singles) -> Floats:
        """Estimate for (n, d) queries: (n, m), from 0 to 1."""
        parts = [
            self._part(vectors[start : start + ROWS_AT_ONCE]) for start in range(0, max(len(vectors), 1), ROWS_AT_ONCE)
        ]
        return np.concatenate(parts)

    def _part(self, vectors: Singles) -> Floats:
        inputs = self.embedding.apply(vectors)
        return self.mixture.apply({kind: predict_success(one, inputs) for kind, one in self.regressions.items()})
