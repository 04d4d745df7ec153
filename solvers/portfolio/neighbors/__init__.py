"""Exact nearest-neighbor search by L-infinity: the nearest item of each sample for each query (OCCAM, Section 4.1).

The estimate of a classifier's accuracy at a query is the mean, over K samples, of its accuracy on the query's nearest
item in each. The distance is OCCAM's default (Section 5.1).
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Int64s, Singles
from models.errors import Fault, InvalidRequest

MIN_THREADED_QUERIES = 16
"""From this many queries on, threads pay off."""
MAX_CHUNK = 1024
"""Maximum number of queries per chunk and thread, which bounds the memory."""


class NeighborSearch:
    """Thread-safe nearest-neighbor search over samples.

    Coordinates are sorted by falling variance: the first ones rule out most items.

    Args:
        samples: (K, s, d), converted to float32, each at least 1.
    Raises:
        InvalidRequest: other shapes, or numbers that are not finite in float32.
    Complexity: O(K s d) time and memory.

    >>> samples = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    >>> NeighborSearch(np.array(samples)).search(np.array([[0.9, 0.2], [0.1, 0.3]])).tolist()
    [[1, 0], [0, 0]]
    """

    __slots__ = ("_order", "_samples")

    def __init__(self, samples: ArrayLike) -> None:
        checked = _validate_array(samples, "samples", ("K", "s", "d"))
        self._order = np.argsort(-checked.var(axis=(0, 1), dtype=np.float64), kind="stable")
        self._samples = np.ascontiguousarray(checked[:, :, self._order])

    def search(self, queries: ArrayLike) -> Int64s:
        """Return the index of the nearest item for each query and sample: (n, K) int64.

        Ties go to the smallest index.

        Args:
            queries: (n, d), converted to float32; n at least 1.
        Raises:
            InvalidRequest: other shapes, or numbers that are not finite in float32.
        Complexity: O(n K s d) time in the worst case, on all processors from ``MIN_THREADED_QUERIES`` queries on;
            O(d) memory for each of at most ``MAX_CHUNK`` queries per thread.
        """
        import joblib

        from solvers.portfolio.neighbors import kernel  # lazy import: servers start without numba

        checked = _validate_array(queries, "queries", ("n", "d"))
        if checked.shape[1] != self._samples.shape[2]:
            raise InvalidRequest.from_faults(
                Fault(("queries",), f"must have {self._samples.shape[2]} coordinates, got {checked.shape[1]}")
            )
        checked = np.ascontiguousarray(checked[:, self._order])
        nearest = np.empty((len(checked), len(self._samples)), np.int64)
        threads = joblib.cpu_count() if len(checked) >= MIN_THREADED_QUERIES else 1
        length = ceil(len(checked) / (threads * ceil(len(checked) / (threads * MAX_CHUNK))))
        starts = range(0, len(checked), length)

        def search(start: int) -> None:
            kernel.search_nearest(self._samples, checked[start : start + length], nearest[start : start + length])

        if threads == 1:
            for start in starts:
                search(start)
            return nearest
        # A pool per search, so that searches do not block each other; the kernel releases the GIL. Some of Numba's own
        # threading layers abort the process when two threads use them at once.
        with ThreadPoolExecutor(threads) as pool:
            deque(pool.map(search, starts), maxlen=0)  # raises exceptions of the threads
        return nearest

    def warm_up(self) -> None:
        """Compile the search ahead of the first query; takes some seconds, once per process."""
        self.search(self._samples[0, :1])


def _validate_array(values: ArrayLike, name: str, axes: tuple[str, ...]) -> Singles:
    """Return a C-contiguous float32 array; raise InvalidRequest if it is not finite."""
    try:
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidRequest.from_faults(Fault((name,), f"must be numbers: {error}")) from None
    if array.ndim != len(axes) or not array.size:
        expected = f"({', '.join(axes)}), none 0"
        raise InvalidRequest.from_faults(Fault((name,), f"must have shape {expected}, got {array.shape}"))
    finite = np.isfinite(array)
    if not finite.all():
        first = np.unravel_index(int(finite.argmin()), finite.shape)
        count = int(finite.size - finite.sum())
        where = ", ".join(str(int(i)) for i in first)
        raise InvalidRequest.from_faults(
            Fault((name,), f"must be finite in float32; {count} of {array.size} are not, the first at [{where}]")
        )
    return array
