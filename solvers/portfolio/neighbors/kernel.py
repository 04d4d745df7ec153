"""Compiled kernel of the nearest-neighbor search by L-infinity."""

import numpy as np

from models.arrays import Int64s, Singles
from solvers.jit import compile_kernel

BLOCK = 32
"""Coordinates between two tests whether an item is already too far."""


# Inputs are finite, so no difference is NaN, and signs of zeros do not matter: fastmath vectorizes the maximum.
@compile_kernel(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def search_nearest(samples: Singles, queries: Singles, nearest: Int64s) -> None:
    """Write the nearest item of each sample (K, s, d) for queries (n, d) into nearest, (n, K)."""
    _, size, dims = samples.shape
    whole = dims // BLOCK * BLOCK
    for k in range(len(samples)):  # sample by sample, so that a sample stays in cache for all queries
        for i in range(len(queries)):
            best, query = np.float32(np.inf), queries[i]
            nearest[i, k] = 0
            for t in range(size):
                item, far, start = samples[k, t], np.float32(0), 0
                while start < whole and far < best:
                    for j in range(BLOCK):
                        far = max(far, abs(query[start + j] - item[start + j]))
                    start += BLOCK
                if far < best:
                    for j in range(whole, dims):
                        far = max(far, abs(query[j] - item[j]))
                if far < best:
                    best = far
                    nearest[i, k] = t
