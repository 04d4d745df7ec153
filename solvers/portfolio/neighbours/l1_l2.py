"""The nearest item by L1 or L2: faiss proposes in float32, float64 decides between those that rounding leaves close.

The relative error of a float32 sum of d terms, none negative, is at most about (d + 3) / 2^24 in whatever order they
are added, however close the items; sums that overflow or vanish are left to float64. For large batches, though, faiss
computes L2 as |x|^2 - 2 xy + |y|^2, whose error is relative to the norms and not to the distance, so it is given
batches too small for that. Where the last item proposed is still within rounding of the first, there may be more, and
more are asked for.
"""

from typing import Literal

import numpy as np

from models.arrays import Floats, Int64s, Singles

ASKED = (4, 32, 256)
"""How many items faiss proposes at first, and where that does not settle it; beyond, float64 compares all."""


class Sums:
    """Samples to search by L1 or L2, kept and not copied. Several threads may search at once.

    samples: (K, s, d) float32, C-contiguous, finite.
    """

    __slots__ = ("_metric", "_samples")

    def __init__(self, samples: Singles, metric: Literal["l1", "l2"]) -> None:
        self._samples = samples
        self._metric = metric

    def search(self, queries: Singles, nearest: Int64s) -> None:
        """Write into nearest, (n, K), for each of the queries, (n, d), the nearest item of each sample, the first of
        equals. O(n K s d) time, in this thread alone; O(n d + s d) memory beside the result."""
        import faiss  # here, so that a server that searches by L-infinity does not load it

        threads = faiss.omp_get_max_threads()  # of this thread: each has its own setting
        faiss.omp_set_num_threads(1)
        try:
            for k, sample in enumerate(self._samples):
                self._search_one(sample, queries, nearest[:, k])
        finally:
            faiss.omp_set_num_threads(threads)

    def _search_one(self, sample: Singles, queries: Singles, nearest: Int64s) -> None:
        import faiss

        # From so many values on, faiss computes L2 by norms and inner products: that many coordinates are not for it.
        most = faiss.cvar.distance_compute_blas_threshold - 1
        length = most // queries.shape[1]
        unsettled = np.arange(len(queries))
        for asked in ASKED:
            if asked < len(sample) and length and len(unsettled):
                unsettled = self._settle(sample, queries, unsettled, asked, length, nearest)
        for i in unsettled.tolist():
            nearest[i] = self._exact(sample, queries[i]).argmin()

    def _settle(
        self, sample: Singles, queries: Singles, which: Int64s, asked: int, length: int, nearest: Int64s
    ) -> Int64s:
        """Search for these queries, write what the items asked for can settle, and give the rest."""
        sums, items = self._proposed(queries[which], sample, asked, length)
        close = sums <= self._band(sums[:, :1].astype(np.float64), sample.shape[1])
        nearest[which] = items[:, 0]
        several = np.flatnonzero(close[:, 1] & ~close[:, -1])
        for row in several.tolist():
            those = np.sort(items[row, close[row]])
            nearest[which[row]] = those[self._exact(sample[those], queries[which[row]]).argmin()]
        return np.asarray(which[close[:, -1]])

    def _proposed(self, queries: Singles, sample: Singles, asked: int, length: int) -> tuple[Singles, Int64s]:
        """Ask faiss, for so many queries at a time, for the nearest items, the nearest first."""
        import faiss

        metric = faiss.METRIC_L1 if self._metric == "l1" else faiss.METRIC_L2
        batches = [queries[i : i + length] for i in range(0, len(queries), length)]
        answers = [faiss.knn(part, sample, asked, metric=metric) for part in batches]
        return np.concatenate([sums for sums, _ in answers]), np.concatenate([items for _, items in answers])

    def _band(self, least: Floats, dims: int) -> Floats:
        """Give up to which computed sum an item may be nearer than the one that faiss found nearest.

        Four times the bound on the error of both, and far more than d squares can lose that are too small for float32.
        """
        return np.asarray(least * (1 + (dims + 8) * 2.0**-21) + dims * 2.0**-120)

    def _exact(self, items: Singles, query: Singles) -> Floats:
        """Compute the sums in float64."""
        differences = items.astype(np.float64) - query
        return np.asarray((np.abs(differences) if self._metric == "l1" else differences * differences).sum(axis=1))
