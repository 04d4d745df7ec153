"""The search for nearest items by L-infinity, compiled: what ``linf`` describes.

codes: (K, d + 2, s) uint16, row by row the coded coordinates of the s items of each of K samples; bounds: (s,) uint16,
what the rows compared so far say that codes of an item and of the query differ by at least; lows: (GROUPS,) uint16.
"""

from typing import Any

import numpy as np

from models.arrays import Int64s, Singles, UInt16s
from solvers.jit import njit

LARGEST = 65535
"""The largest code."""
STEP = 16
"""So many rows are compared before the items that remain are counted; then as many again as there were, and so on."""
FEW = 16
"""With so many items left, rather measure them than compare more rows."""
BLOCK = 64
"""Coordinates that are measured between two looks at whether to stop."""
GROUPS = 64
"""Items are passed over in so many groups."""


@njit(nogil=True, inline="always")
def gap(a: Any, b: Any) -> Any:
    """Give the difference of two codes."""
    return np.uint16(max(a, b) - min(a, b))


@njit(nogil=True)
def compare(bounds: UInt16s, codes: UInt16s, query: UInt16s, rows: Int64s, start: int, end: int) -> None:
    """Raise each item's bound to its largest difference in these rows, four at a time, the last one repeated."""
    last = end - 1
    for h in range(start, end, 4):
        a, b, c, d = rows[h], rows[min(h + 1, last)], rows[min(h + 2, last)], rows[min(h + 3, last)]
        row_a, row_b, row_c, row_d = codes[a], codes[b], codes[c], codes[d]
        at_a, at_b, at_c, at_d = query[a], query[b], query[c], query[d]
        for t in range(len(bounds)):
            bounds[t] = max(
                bounds[t],
                gap(row_a[t], at_a), gap(row_b[t], at_b), gap(row_c[t], at_c), gap(row_d[t], at_d),
            )  # fmt: skip


@njit(nogil=True)
def lows_of(bounds: UInt16s, lows: UInt16s) -> None:
    """Write the least bound of each group: of every GROUPS-th item, so that a vector of groups is one of items."""
    lows[:] = LARGEST
    whole = len(bounds) // GROUPS * GROUPS
    for start in range(0, whole, GROUPS):
        for group in range(GROUPS):
            bound = bounds[start + group]
            lows[group] = bound if bound < lows[group] else lows[group]
    for t in range(whole, len(bounds)):
        lows[t - whole] = min(lows[t - whole], bounds[t])


@njit(nogil=True)
def least(bounds: UInt16s, lows: UInt16s) -> Any:
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


@njit(nogil=True)
def within(bounds: UInt16s, limit: Any) -> Any:
    """Count the items with bounds up to the limit."""
    count = np.int32(0)
    for bound in bounds:
        count += np.int32(bound <= limit)
    return count


@njit(nogil=True)
def limit_of(radius: Any, per_unit: float) -> Any:
    """Give the largest difference of codes that values as far apart as radius can have."""
    steps = float(radius) * per_unit * (1 + 1e-6) + 1.01
    return np.uint16(steps) if steps < LARGEST else np.uint16(LARGEST)


@njit(nogil=True)
def beyond(query: Singles, item: Singles, radius: Any) -> bool:
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


# Inputs are finite, so that no difference is NaN, and a zero's sign changes no comparison: a maximum may be taken in
# any order, that is, in vectors.
@njit(nogil=True, fastmath={"nnan", "nsz"})
def farthest(query: Singles, item: Singles, start: int) -> Any:
    """Compute the distance in the coordinates from start on."""
    most = np.float32(0)
    for j in range(start, len(query)):
        most = max(most, abs(query[j] - item[j]))
    return most


@njit(nogil=True)
def measure(
    items: Singles, query: Singles, bounds: UInt16s, lows: UInt16s, best: int, radius: float, per_unit: float
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


@njit(nogil=True)
def nearest(
    items: Singles,
    codes: UInt16s,
    query: Singles,
    coded: UInt16s,
    rows: Int64s,
    per_unit: float,
    bounds: UInt16s,
    lows: UInt16s,
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


@njit(nogil=True, cache=True)
def search(
    samples: Singles,
    codes: UInt16s,
    queries: Singles,
    coded: UInt16s,
    order: Int64s,
    per_unit: float,
    indices: Int64s,
) -> None:
    """Search sample by sample, so that one stays in the processor's cache for all queries."""
    bounds = np.empty(samples.shape[1], np.uint16)
    lows = np.empty(GROUPS, np.uint16)
    for k in range(len(samples)):
        items, coarse = samples[k], codes[k]
        for i in range(len(queries)):
            indices[i, k] = nearest(items, coarse, queries[i], coded[i], order[i], per_unit, bounds, lows)
