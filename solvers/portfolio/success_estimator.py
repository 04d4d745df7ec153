"""Nearest-neighbor estimator of the probability that each classifier is correct.

The estimate for a query is the mean success on the nearest item of each of K samples (OCCAM, Section 4.1, Algorithm 1
lines 1-6). Embeddings are scaled so that each coordinate spans [0, 1] over the items; constant coordinates are only
shifted. Coordinates of queries may lie outside of [0, 1].
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models import Fault, InvalidRequest
from models.arrays import Floats, Int32s, Singles
from solvers.portfolio.neighbors import NeighborSearch, average_rows


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingScaling:
    """Linear scaling of embeddings.

    low, span: (d,) float64, span above 0.
    """

    low: Floats
    span: Floats

    @classmethod
    def from_vectors(cls, vectors: Singles) -> "EmbeddingScaling":
        """Scale each coordinate of (n, d) vectors to [0, 1].

        >>> vectors = np.array([[1, 5], [3, 5]], dtype=np.float32)
        >>> EmbeddingScaling.from_vectors(vectors).apply(np.array([[2.0, 6.0]])).tolist()
        [[0.5, 1.0]]
        """
        low, high = (each.astype(np.float64) for each in (vectors.min(axis=0), vectors.max(axis=0)))
        return cls(low, np.where(high > low, high - low, 1.0))

    @classmethod
    def without_scaling(cls, dimensions: int) -> "EmbeddingScaling":
        """Return the scaling that leaves vectors unchanged."""
        return cls(np.zeros(dimensions), np.ones(dimensions))

    def apply(self, vectors: ArrayLike, where: str = "queries") -> Singles:
        """Return scaled vectors, (n, d).

        Args:
            where: the field named in errors.
        Raises:
            InvalidRequest: other dimensions, or numbers that are not finite after scaling.
        """
        given = np.asarray(vectors)
        if given.ndim != 2 or given.shape[1] != len(self.low):
            shape = " x ".join(map(str, given.shape))
            fault = f"must have shape n x {len(self.low)}, got {shape}"
            raise InvalidRequest.from_faults(Fault((where,), fault))
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = ((given - self.low) / self.span).astype(np.float32)
        bad = ~np.isfinite(scaled)
        if bad.any():
            row, column = (int(place[0]) for place in np.nonzero(bad))
            fault = f"must be finite after scaling; row {row + 1}, column {column + 1} is not"
            raise InvalidRequest.from_faults(Fault((where,), fault))
        return scaled


@dataclass(frozen=True, slots=True, eq=False)
class NeighborEstimator:
    """Labeled items in samples.

    Attributes:
        scaling: the scaling of queries.
        items: (r, d), scaled.
        success: (r, m), probability that each classifier is correct on each item.
        samples: (K, s), indices of items.
        neighbors: the search over the samples.
    """

    scaling: EmbeddingScaling
    items: Singles
    success: Singles
    samples: Int32s
    neighbors: NeighborSearch

    @classmethod
    def from_items(
        cls, scaling: EmbeddingScaling, items: Singles, success: Singles, samples: Int32s
    ) -> "NeighborEstimator":
        """Prepare the search over items, (r, d), which are scaled."""
        return cls(scaling, items, success, samples, NeighborSearch(items, samples))

    def estimate(self, queries: ArrayLike, where: str = "queries") -> Floats:
        """Return the probability that each classifier is correct, (n, m), for queries (n, d).

        Complexity: O(n (u d + K (s + m))) time in the worst case for u items in at least one sample, much less if few
        coordinates separate items (``neighbors``); O(n (d + m)) memory in addition to the items.
        """
        return self.neighbors.average_nearest(self.success, self.scaling.apply(queries, where))

    def find_nearest(self, queries: ArrayLike, where: str = "queries") -> Int32s:
        """Return the index of the item nearest to each query in each sample: (n, K)."""
        return self.neighbors.find_nearest(self.scaling.apply(queries, where))

    def average_success(self, indices: Int32s) -> Floats:
        """Return the mean success, (n, m), over items given by indices (n, K)."""
        return average_rows(self.success, indices)
