"""Embeddings as regressions take them: centred, scaled, and in their most telling directions where they are many."""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles
from solvers.principal_directions import principal_directions

MAX_PLAIN_DIMENSIONS, MAX_DIRECTIONS = 64, 128
"""Coordinates that are kept as they are, and principal directions that are kept of more; only kernels see these all,
other regressions as many as there are coordinates at most that are kept as they are."""
MAX_COORDINATE = 1e6
"""Coordinates beyond, some of a million times the usual spread, are as far as this."""


@dataclass(frozen=True, slots=True, eq=False)
class ReducedEmbedding:
    """centre: (d,) what is taken off; axes: (d, e) what is multiplied with then."""

    centre: Floats
    axes: Floats

    @classmethod
    def fit(cls, vectors: Singles) -> "ReducedEmbedding":
        """Fit to (n, d) vectors: each coordinate by its own spread, or, of many, the principal directions by that of
        the first. O(n d min(n, d)) for those.

        >>> ReducedEmbedding.fit(np.array([[1, 5], [3, 5]], dtype=np.float32)).apply(np.array([[3.0, 6.0]])).tolist()
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
        """Place (n, d) vectors: (n, e)."""
        placed = (vectors.astype(np.float64) - self.centre) @ self.axes
        return np.clip(placed, -MAX_COORDINATE, MAX_COORDINATE).astype(np.float32)
