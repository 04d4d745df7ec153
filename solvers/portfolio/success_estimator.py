"""The estimator (OCCAM, Section 4.1, Algorithm 1 lines 1 to 6): how likely each classifier is right about a query.

The estimate for a query is the mean over K samples of the success on the item that is nearest to it in each sample.
Embeddings are scaled so that each coordinate goes from 0 to 1 over the items; a coordinate that is the same for all of
them is only shifted. Queries may lie outside.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from models import Fault, InvalidRequest
from models.arrays import Floats, Int32s, Singles
from solvers.portfolio.neighbours import FoldedNeighbours


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Where coordinates begin and how far they go: low, span (d,) float64, span above 0."""

    low: Floats
    span: Floats

    @classmethod
    def of(cls, vectors: Singles) -> "Scaling":
        """Scale each coordinate of (n, d) vectors to [0, 1].

        >>> Scaling.of(np.array([[1, 5], [3, 5]], dtype=np.float32)).apply(np.array([[2.0, 6.0]])).tolist()
        [[0.5, 1.0]]
        """
        low, high = (each.astype(np.float64) for each in (vectors.min(axis=0), vectors.max(axis=0)))
        return cls(low, np.where(high > low, high - low, 1.0))

    @classmethod
    def none(cls, dimensions: int) -> "Scaling":
        """Leave vectors as they are."""
        return cls(np.zeros(dimensions), np.ones(dimensions))

    def apply(self, vectors: ArrayLike, where: str = "queries") -> Singles:
        """Scale (n, d) vectors; raises InvalidRequest if they have other dimensions or are not finite afterwards.

        where: the field that is told to be wrong.
        """
        given = np.asarray(vectors)
        if given.ndim != 2 or given.shape[1] != len(self.low):
            shape = " x ".join(map(str, given.shape))
            asked = f"are {shape} numbers, must be n x {len(self.low)} as the embeddings"
            raise InvalidRequest.at(Fault((where,), asked))
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = ((given - self.low) / self.span).astype(np.float32)
        bad = ~np.isfinite(scaled)
        if bad.any():
            row, column = (int(place[0]) for place in np.nonzero(bad))
            asked = f"must be finite numbers that can be scaled; row {row + 1}, column {column + 1} is not"
            raise InvalidRequest.at(Fault((where,), asked))
        return scaled


@dataclass(frozen=True, slots=True, eq=False)
class Estimator:
    """Labelled items in samples. items: (r, d), scaled; success: (r, m) how likely each of m classifiers is right about
    each item; samples: (K, s) places among the items; neighbours: their search."""

    scaling: Scaling
    items: Singles
    success: Singles
    samples: Int32s
    neighbours: FoldedNeighbours

    @classmethod
    def of(cls, scaling: Scaling, items: Singles, success: Singles, samples: Int32s) -> "Estimator":
        """Prepare the search. items: (r, d), scaled."""
        return cls(scaling, items, success, samples, FoldedNeighbours(items[samples]))

    def estimate(self, queries: ArrayLike, where: str = "queries") -> Floats:
        """Estimate for each of n queries, (n, d), how likely each classifier is right: (n, m), from 0 to 1.

        O(n K s d) time in the worst case, far less where coordinates tell items apart (``neighbours``); O(n (K + m))
        memory beside the samples.
        """
        return self.mean(self.nearest(queries, where))

    def nearest(self, queries: ArrayLike, where: str = "queries") -> Int32s:
        """Find the item nearest to each query in each sample: (n, K) places among the items."""
        indices = self.neighbours.search(self.scaling.apply(queries, where))
        places: Int32s = self.samples[np.arange(len(self.samples)), indices]
        return places

    def mean(self, places: Int32s) -> Floats:
        """Average the success on items, (n, K) places: (n, m)."""
        total = np.zeros((len(places), self.success.shape[1]))
        for column in places.T:
            total += self.success[column]
        return np.asarray(total / places.shape[1])
