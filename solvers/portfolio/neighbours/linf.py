"""The nearest item by L-infinity: exact, by filtering on 16-bit codes.

Beside the samples stands a second, coarse copy of them, coordinate by coordinate: each value as a whole number from 0
to 65535, all in one step width, counted from the least value of its coordinate. A distance is at least the difference
in any one coordinate, so a few rows of codes rule out most items, 32 to a vector instruction. Which rows: for each
query those where it differs most from the items (in mean square), the first ``STEP`` of them for all items, then more
until few items are left. After each step the item with the least bound is measured, and its distance limits the rest.
Survivors are measured on the samples themselves, each left as soon as one block of it is too far off.

Two rows more hold each item's largest and smallest entry: these, too, differ by no more than the distance. Among
softmax vectors they tell confident predictions from diffuse ones at once.

**Exactness.** The distance is the largest of |q_j - x_j|, each computed in float32; rounding keeps order, so the order
of coordinates makes no difference to it. UInt16s are rounded down, so two of them differ by at most 1 more than the
values do in steps; values beyond the ends count as the ends, which moves none away from any item. The limit on codes
adds this 1, and 1e-6 of it and 0.01 of a step for the rounding of float32 distances (6e-8 of them) and of float64 codes
(1e-11 steps). What the codes cannot tell apart is measured: one far outlier among the items, which makes steps wide,
costs time only.
"""

import numpy as np

from models.arrays import Floats, Int64s, Singles, UInt16s

LARGEST = 65535
"""The largest code."""
ROWS = 96
"""So many rows are compared at most."""


class Chebyshev:
    """Codes of samples, to search them by L-infinity. Several threads may search at once.

    samples: (K, s, d) float32, C-contiguous, finite, kept and not copied. The codes take (d + 2) / 2d of their memory.
    O(K s d) time to build.
    """

    __slots__ = ("_codes", "_lows", "_means", "_per_unit", "_samples", "_variances")

    def __init__(self, samples: Singles) -> None:
        self._samples = samples.view()
        self._samples.flags.writeable = False  # as what was read is: the search is compiled for one kind of array
        ends = [_extended(sample) for sample in (samples.min(axis=1), samples.max(axis=1))]
        self._lows = ends[0].min(axis=0)
        width = float((ends[1].max(axis=0) - self._lows).max())
        self._per_unit = LARGEST / width if width else 0.0
        count, size, dims = samples.shape
        self._codes = np.empty((count, dims + 2, size), np.uint16)
        for codes, sample in zip(self._codes, samples, strict=True):
            codes[:] = self._coded(sample).T
        moments = [(codes.mean(axis=1), codes.var(axis=1)) for codes in self._codes]
        means = np.array([mean for mean, _ in moments])
        self._means = means.mean(axis=0)
        self._variances = np.array([variance for _, variance in moments]).mean(axis=0) + means.var(axis=0)

    def search(self, queries: Singles, nearest: Int64s) -> None:
        """Write into nearest, (n, K), for each of the queries, (n, d), the nearest item of each sample, the first of
        equals. O(n K s d) time, on the data it is made for O(n K s); O(n d) memory. In this thread alone."""
        from solvers.portfolio.neighbours.linf_kernel import search  # here, so that a server starts without numba

        codes = self._coded(queries)
        order = self._order(codes)

        search(self._samples, self._codes, queries, codes, order, self._per_unit, nearest)

    def _coded(self, items: Singles) -> UInt16s:
        """Code items, (m, d), as (m, d + 2)."""
        steps = (_extended(items) - self._lows) * self._per_unit
        return np.asarray(np.clip(steps, 0, LARGEST, out=steps).astype(np.uint16))

    def _order(self, codes: UInt16s) -> Int64s:
        """Choose for each query the rows to compare, the one that promises most first."""
        promise = self._means - codes
        promise *= -promise
        promise -= self._variances
        if promise.shape[1] <= ROWS:
            return np.argsort(promise, axis=1)
        rows = np.argpartition(promise, ROWS, axis=1)[:, :ROWS]
        order = np.argsort(np.take_along_axis(promise, rows, axis=1), axis=1)
        return np.take_along_axis(rows, order, axis=1)


def _extended(items: Singles) -> Floats:
    """Append each item's largest and smallest entry, in float64, where differences do not overflow."""
    return np.column_stack((items, items.max(axis=1), items.min(axis=1))).astype(np.float64)
