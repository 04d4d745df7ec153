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
of coordinates makes no difference to it. Codes are rounded down, so two of them differ by at most 1 more than the
values do in steps; values beyond the ends count as the ends, which moves none away from any item. The limit on codes
adds this 1, and 1e-6 of it and 0.01 of a step for the rounding of float32 distances (6e-8 of them) and of float64 codes
(1e-11 steps). What the codes cannot tell apart is measured: one far outlier among the items, which makes steps wide,
costs time only.
"""

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Codes = NDArray[np.uint16]
Ints = NDArray[np.int64]
F = TypeVar("F")

LARGEST = 65535
"""The largest code."""
STEP = 16
"""So many rows are compared before the items that remain are counted; then as many again as there were, and so on."""
ROWS = 96
"""So many rows are compared at most."""
FEW = 16
"""With so many items left, rather measure them than compare more rows."""
BLOCK = 64
"""Coordinates that are measured between two looks at whether to stop."""
GROUPS = 64
"""Items are passed over in so many groups."""


class _Jit(Protocol):
    def __call__(self, function: F, /) -> F: ...


class Chebyshev:
    """Codes of samples, to search them by L-infinity. Several threads may search at once.

    samples: (K, s, d) float32, C-contiguous, finite, kept and not copied. The codes take (d + 2) / 2d of their memory.
    O(K s d) time to build.
    """

    __slots__ = ("_codes", "_lows", "_means", "_per_unit", "_samples", "_variances")

    def __init__(self, samples: Floats) -> None:
        self._samples = samples
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

    def search(self, queries: Floats, found: Ints) -> None:
        """Write into found, (n, K), for each of the queries, (n, d), the nearest item of each sample, the first of
        equals. O(n K s d) time, on the data it is made for O(n K s); O(n d) memory. In this thread alone."""
        codes = self._coded(queries)
        order = self._order(codes)
        _compiled()(self._samples, self._codes, queries, codes, order, self._per_unit, found)

    def _coded(self, items: Floats) -> Codes:
        """Code items, (m, d), as (m, d + 2)."""
        steps = (_extended(items) - self._lows) * self._per_unit
        return np.asarray(np.clip(steps, 0, LARGEST, out=steps).astype(np.uint16))

    def _order(self, codes: Codes) -> Ints:
        """Choose for each query the rows to compare, the one that promises most first."""
        promise = self._means - codes
        promise *= -promise
        promise -= self._variances
        if promise.shape[1] <= ROWS:
            return np.argsort(promise, axis=1)
        rows = np.argpartition(promise, ROWS, axis=1)[:, :ROWS]
        order = np.argsort(np.take_along_axis(promise, rows, axis=1), axis=1)
        return np.take_along_axis(rows, order, axis=1)


def _extended(items: Floats) -> NDArray[np.float64]:
    """Append each item's largest and smallest entry, in float64, where differences do not overflow."""
    return np.column_stack((items, items.max(axis=1), items.min(axis=1))).astype(np.float64)


@cache
def _compiled() -> Callable[..., None]:
    """Compile the kernel, in memory, when it is first needed: takes a few seconds."""
    jit = partial(import_module("numba").njit, nogil=True)
    # Inputs are finite, so that no difference is NaN, and a zero's sign changes no comparison: a maximum may be
    # taken in any order, that is, in vectors.
    return _build(jit, partial(jit, inline="always"), partial(jit, fastmath={"nnan", "nsz"}))


def _build(jit: _Jit, inline: _Jit, any_order: _Jit) -> Callable[..., None]:
    """Make the kernel, compiled or not: the same source either way."""

    @inline
    def apart(a: Any, b: Any) -> Any:
        return np.uint16(max(a, b) - min(a, b))

    @jit
    def compare(bounds: Codes, codes: Codes, query: Codes, rows: Ints, start: int, end: int) -> None:
        """Raise each item's bound to its largest difference in these rows, four at a time, the last one repeated."""
        last = end - 1
        for h in range(start, end, 4):
            a, b, c, d = rows[h], rows[min(h + 1, last)], rows[min(h + 2, last)], rows[min(h + 3, last)]
            row_a, row_b, row_c, row_d = codes[a], codes[b], codes[c], codes[d]
            at_a, at_b, at_c, at_d = query[a], query[b], query[c], query[d]
            for t in range(len(bounds)):
                bounds[t] = max(
                    bounds[t],
                    apart(row_a[t], at_a), apart(row_b[t], at_b), apart(row_c[t], at_c), apart(row_d[t], at_d),
                )  # fmt: skip

    @jit
    def lows_of(bounds: Codes, lows: Codes) -> None:
        """Write the least bound of each group: of every GROUPS-th item, so that a vector of groups is one of items."""
        lows[:] = LARGEST
        whole = len(bounds) // GROUPS * GROUPS
        for start in range(0, whole, GROUPS):
            for group in range(GROUPS):
                bound = bounds[start + group]
                lows[group] = bound if bound < lows[group] else lows[group]
        for t in range(whole, len(bounds)):
            lows[t - whole] = min(lows[t - whole], bounds[t])

    @jit
    def least(bounds: Codes, lows: Codes) -> Any:
        """Find an item with the least bound."""
        low = lows[0]
        for each in lows:
            low = each if each < low else low
        item = 0
        while lows[item] > low:
            item += 1
        while bounds[item] > low:
            item += GROUPS
        return item

    @jit
    def within(bounds: Codes, limit: Any) -> Any:
        """Count the items with bounds up to the limit."""
        count = np.int32(0)
        for bound in bounds:
            count += np.int32(bound <= limit)
        return count

    @jit
    def limit_of(radius: Any, per_unit: float) -> Any:
        """Give the largest difference of codes that values as far apart as radius can have."""
        steps = float(radius) * per_unit * (1 + 1e-6) + 1.01
        return np.uint16(steps) if steps < LARGEST else np.uint16(LARGEST)

    @jit
    def beyond(query: Floats, item: Floats, radius: Any) -> bool:
        """Say whether an item is farther off than the radius, from the first block of coordinates that tells."""
        start = 0
        while start + BLOCK <= len(query):
            far = np.int32(0)
            for j in range(start, start + BLOCK):
                far |= np.int32(abs(query[j] - item[j]) > radius)
            if far:
                return True
            start += BLOCK
        return bool(farthest(query, item, start) > radius)

    @any_order
    def farthest(query: Floats, item: Floats, start: int) -> Any:
        """Compute the distance in the coordinates from start on."""
        most = np.float32(0)
        for j in range(start, len(query)):
            most = max(most, abs(query[j] - item[j]))
        return most

    @jit
    def measure(
        items: Floats, query: Floats, bounds: Codes, lows: Codes, best: int, radius: float, per_unit: float
    ) -> Any:
        """Measure all items that may be nearer than the best so far, or as near and before it."""
        limit = limit_of(radius, per_unit)
        for group in range(GROUPS):
            if lows[group] > limit:
                continue
            for t in range(group, len(bounds), GROUPS):
                if bounds[t] > limit or t == best or (t > best >= 0 and radius == 0):
                    continue
                if not beyond(query, items[t], radius):
                    distance = farthest(query, items[t], 0)
                    if best < 0 or distance < radius or t < best:
                        best, radius, limit = t, distance, limit_of(distance, per_unit)
        return best

    @jit
    def nearest(
        items: Floats,
        codes: Codes,
        query: Floats,
        coded: Codes,
        rows: Ints,
        per_unit: float,
        bounds: Codes,
        lows: Codes,
    ) -> Any:
        """Find the first nearest item of one sample; bounds and lows are room to compute in."""
        bounds[:] = 0
        lows[:] = 0
        best, done, left = -1, 0, len(bounds)
        radius: Any = np.float32(np.inf)
        limit: Any = np.uint16(LARGEST)
        while done < len(rows) and left > FEW:
            end = min(max(2 * done, STEP), len(rows))
            compare(bounds, codes, coded, rows, done, end)
            done = end
            lows_of(bounds, lows)
            t = least(bounds, lows)
            distance = farthest(query, items[t], 0) if t != best else radius
            if best < 0 or distance < radius:
                best, radius, limit = t, distance, limit_of(distance, per_unit)
            left = within(bounds, limit)
        return measure(items, query, bounds, lows, best, radius, per_unit)

    @jit
    def search(
        samples: Floats, codes: Codes, queries: Floats, coded: Codes, order: Ints, per_unit: float, found: Ints
    ) -> None:
        """Search sample by sample, so that one stays in the processor's cache for all queries."""
        bounds = np.empty(samples.shape[1], np.uint16)
        lows = np.empty(GROUPS, np.uint16)
        for k in range(len(samples)):
            items, coarse = samples[k], codes[k]
            for i in range(len(queries)):
                found[i, k] = nearest(items, coarse, queries[i], coded[i], order[i], per_unit, bounds, lows)

    return search
