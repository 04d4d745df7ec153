"""Compiled kernels of the nearest-neighbor search by L-infinity distance, and of means over items.

Inputs are finite, so no difference is NaN, and signs of zeros do not matter. So fastmath can vectorize the maximum. A
distance is a maximum of float32 differences, and rounding is monotone. So the order of coordinates does not matter, and
no item is nearer than its box.
"""

import numpy as np

from models.arrays import Floats, Int32s, Int64s, Singles
from solvers.jit import compile_kernel

BLOCK = 32
"""Items per block."""
STEP = 8
"""Coordinates per step; the number of coordinates is a multiple of it."""
MAX_MATH = {"nnan", "nsz"}
"""Options of LLVM that vectorize maxima."""


@compile_kernel(fastmath=MAX_MATH)
def bound_distances(low: Singles, high: Singles, query: Singles, bounds: Singles) -> int:
    """Write the distance to each box, (b, d), into ``bounds``, (b,); return the index of the nearest box."""
    nearest = 0
    for b in range(len(low)):
        bound = np.float32(0)
        for j in range(len(query)):
            bound = max(bound, max(low[b, j] - query[j], query[j] - high[b, j]))
        bounds[b] = bound
        if bound < bounds[nearest]:
            nearest = b
    return nearest


@compile_kernel(fastmath=MAX_MATH, inline="always")
def measure_block(block: Singles, query: Singles, limit: np.float32, far: Singles) -> bool:
    """Write distances to a block's items, (d, BLOCK), into ``far``.

    Return False if all distances are above the limit. The function is inlined before compilation, because LLVM
    vectorizes it only if it sees that ``far`` has no alias.
    """
    far[:] = 0
    for j in range(0, len(query), STEP):
        q0, q1, q2, q3 = query[j], query[j + 1], query[j + 2], query[j + 3]
        q4, q5, q6, q7 = query[j + 4], query[j + 5], query[j + 6], query[j + 7]
        for t in range(BLOCK):
            a = max(abs(q0 - block[j, t]), abs(q1 - block[j + 1, t]))
            b = max(abs(q2 - block[j + 2, t]), abs(q3 - block[j + 3, t]))
            c = max(abs(q4 - block[j + 4, t]), abs(q5 - block[j + 5, t]))
            d = max(abs(q6 - block[j + 6, t]), abs(q7 - block[j + 7, t]))
            far[t] = max(far[t], max(max(a, b), max(c, d)))
        least = far[0]
        for t in range(BLOCK):
            least = min(least, far[t])
        if least > limit:
            return False
    return True


@compile_kernel(fastmath=MAX_MATH)
def update_nearest(
    far: Singles, starts: Int64s, members: Int32s, limit: np.float32, best: Singles, places: Int32s
) -> np.float32:
    """Update the nearest item of each sample by a block's items.

    Return the largest of the best distances.

    Args:
        far: (BLOCK,), distances of the items.
        starts: (BLOCK + 1,), where each item's rows in ``members`` start.
        members: (e, 2), a sample that contains the item, and the item's index in the sample.
        limit: largest of the best distances so far.
        best, places: (K,), distance and index of the nearest item of each sample.
    """
    for t in range(BLOCK):
        if far[t] <= limit:
            for row in range(starts[t], starts[t + 1]):
                k, place = members[row, 0], members[row, 1]
                if far[t] < best[k] or (far[t] == best[k] and place < places[k]):
                    best[k], places[k] = far[t], place
    largest = np.float32(0)
    for k in range(len(best)):
        largest = max(largest, best[k])
    return largest


@compile_kernel(nogil=True, cache=True, fastmath=MAX_MATH)
def search_nearest(
    blocks: Singles,
    low: Singles,
    high: Singles,
    starts: Int64s,
    members: Int32s,
    samples: Int32s,
    queries: Singles,
    nearest: Int32s,
) -> None:
    """Write the item nearest to each query in each sample into ``nearest``, (n, K).

    Queries are (n, d), samples (K, s). Blocks are visited from the nearest one outward in the tree. Blocks whose box is
    too far are skipped.

    Args:
        blocks: (b, d, BLOCK), coordinates of all items.
        low, high: (b, d), the blocks' boxes.
        starts, members: (b * BLOCK + 1,), (e, 2), samples of each item, as ``update_nearest`` takes them.
    """
    far, bounds = np.empty(BLOCK, np.float32), np.empty(len(blocks), np.float32)
    best, places = np.empty(len(samples), np.float32), np.empty(len(samples), np.int32)
    width = 1
    while width < len(blocks):
        width *= 2
    for i in range(len(queries)):
        best[:], places[:] = np.inf, 0
        limit = np.float32(np.inf)
        first = bound_distances(low, high, queries[i], bounds)
        for step in range(width):
            b = first ^ step
            if b < len(blocks) and bounds[b] <= limit and measure_block(blocks[b], queries[i], limit, far):
                own = starts[b * BLOCK : (b + 1) * BLOCK + 1]
                limit = update_nearest(far, own, members, limit, best, places)
        for k in range(len(samples)):
            nearest[i, k] = samples[k, places[k]]


@compile_kernel(nogil=True, cache=True)
def average_rows(values: Singles, indices: Int32s, means: Floats) -> None:
    """Write the mean of the rows of values, (r, m), that indices, (n, K), select into ``means``, (n, m)."""
    n, count = indices.shape
    for i in range(n):
        means[i] = 0.0
        for k in range(count):
            for j in range(values.shape[1]):
                means[i, j] += values[indices[i, k], j]
        for j in range(values.shape[1]):
            means[i, j] /= count
