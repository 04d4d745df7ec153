"""Embedding reduction: centering, scaling, and principal directions of wide embeddings."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles
from solvers.principal_directions import principal_directions

MAX_PLAIN_DIMENSIONS, MAX_DIRECTIONS = 64, 128
"""Maximum number of unprojected coordinates, and number of principal directions of wider embeddings.

Kernels use all directions, forests the first ``MAX_PLAIN_DIMENSIONS``.
"""
MAX_COORDINATE = 1e6
"""Coordinates are clipped to this magnitude."""


@dataclass(frozen=True, slots=True, eq=False)
class ReducedEmbedding:
    """Affine reduction of embeddings.

    centre: (d,), subtracted. axes: (d, e), projection.
    """

    centre: Floats
    axes: Floats

    @classmethod
    def fit(cls, vectors: Singles) -> "ReducedEmbedding":
        """Fit to vectors, (n, d): scale each coordinate, or project wide vectors.

        Wide vectors are projected to scaled principal directions.

        Complexity: O(n d min(n, d)) for wide vectors.

        >>> vectors = np.array([[1, 5], [3, 5]], dtype=np.float32)
        >>> ReducedEmbedding.fit(vectors).apply(np.array([[3.0, 6.0]])).tolist()
        [[1.0, 1.0]]
        """
        given = vectors.astype(np.float64)
        centre = given.mean(axis=0)
        if given.shape[1] <= MAX_PLAIN_DIMENSIONS:
            spread = given.std(axis=0)
            return cls(centre, np.diag(1 / np.where(spread > 0, spread, 1.0)))
        off = given - centre
        axes = principal_directions(off, MAX_DIRECTIONS)
        return cls(centre, axes / (float((off @ axes[:, :MAX_PLAIN_DIMENSIONS]).std()) or 1.0))

    def apply(self, vectors: Singles) -> Singles:
        """Return the reduced vectors, (n, e), of (n, d) vectors."""
        placed = (vectors.astype(np.float64) - self.centre) @ self.axes
        return np.clip(placed, -MAX_COORDINATE, MAX_COORDINATE).astype(np.float32)
