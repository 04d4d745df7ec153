"""The learned estimator as it answers: an embedding, the regressions that are used, and their mixture."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.learned.embedding import Embedding
from solvers.portfolio.learned.mixture import Mixture
from solvers.portfolio.learned.regressions import KINDS, Regression, estimate, fit

AT_ONCE = 4096
"""Queries that are estimated together: what caches hold."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedEstimator:
    """How likely each classifier is right, by regressions of some kinds on an embedding."""

    embedding: Embedding
    regressions: dict[str, Regression]
    mixture: Mixture

    @classmethod
    def fit(cls, vectors: Singles, right: Floats, mixture: Mixture, rng: np.random.Generator) -> "LearnedEstimator":
        """Learn from (n, d) embeddings and how right each classifier was, (n, m)."""
        embedding = Embedding.of(vectors)
        inputs = embedding.apply(vectors)
        return cls(embedding, {kind: fit(kind, inputs, right, rng) for kind in KINDS}, mixture)

    def estimate(self, vectors: Singles) -> Floats:
        """Estimate for (n, d) queries: (n, m), from 0 to 1."""
        parts = [self._part(vectors[start : start + AT_ONCE]) for start in range(0, max(len(vectors), 1), AT_ONCE)]
        return np.concatenate(parts)

    def _part(self, vectors: Singles) -> Floats:
        inputs = self.embedding.apply(vectors)
        return self.mixture.apply({kind: estimate(one, inputs) for kind, one in self.regressions.items()})
