"""For each query the nearest item of each sample (OCCAM, Section 4.1), exactly.

The estimate of a classifier's accuracy at a query is the mean, over K samples, of its accuracy at the query's nearest
item in each. The distance is OCCAM's default, L-infinity (Section 5.1).
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Int64s, Singles
from models.errors import Fault, InvalidRequest

MIN_THREADED_QUERIES = 16
"""From this many queries on, starting threads costs less than it saves."""
MAX_CHUNK = 1024
"""So many queries are searched at once in each thread, which bounds the memory beside the result."""


class NeighborSearch:
    """Samples that can be searched, by any number of threads at once.

    samples: (K, s, d), K, s and d at least 1, copied as float32, the coordinates that vary most first: these rule out
    most items, and the largest difference is the same in any order. O(K s d) time and memory. Raises InvalidRequest for
    other shapes and what is no finite float32.

    >>> samples = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    >>> NeighborSearch(np.array(samples)).search(np.array([[0.9, 0.2], [0.1, 0.3]])).tolist()
    [[1, 0], [0, 0]]
    """

    __slots__ = ("_order", "_samples")

    def __init__(self, samples: ArrayLike) -> None:
        checked = _checked(samples, "samples", ("K", "s", "d"))
        self._order = np.argsort(-checked.var(axis=(0, 1), dtype=np.float64), kind="stable")
        self._samples = np.ascontiguousarray(checked[:, :, self._order])

    def search(self, queries: ArrayLike) -> Int64s:
        """Give the index of the nearest item for each query and sample, of equally near ones the least: (n, K) int64.

        queries: (n, d), n at least 1, converted to float32, which rounds float64. Distances are the largest of |q - x|
        in float32. O(n K s d) time at worst, on all processors from ``SEVERAL`` queries on. Memory beside the result:
        O(d) for each of at most ``CHUNK`` queries per thread. Raises InvalidRequest for other shapes and what is no
        finite float32.
        """
        import joblib

        from solvers.portfolio.neighbors import kernel  # here, so that a server starts without numba

        checked = _checked(queries, "queries", ("n", "d"))
        if checked.shape[1] != self._samples.shape[2]:
            raise InvalidRequest.at(
                Fault(("queries",), f"have {checked.shape[1]} coordinates, the samples have {self._samples.shape[2]}")
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
        # Threads of its own for each search, so that searches do not wait for each other; the kernel releases the
        # interpreter's lock. Numba's own threads would do as well, but some of its threading layers end the process
        # when two threads use them at once.
        with ThreadPoolExecutor(threads) as pool:
            deque(pool.map(search, starts), maxlen=0)  # raises what was raised there
        return nearest

    def warm_up(self) -> None:
        """Load and compile now what the first search would: takes some seconds, once in a process."""
        self.search(self._samples[0, :1])


def _checked(values: ArrayLike, name: str, axes: tuple[str, ...]) -> Singles:
    """Convert to C-contiguous float32 and check that all is finite."""
    try:
        with np.errstate(over="ignore"):
            array = np.ascontiguousarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidRequest.at(Fault((name,), f"must be numbers: {error}")) from None
    if array.ndim != len(axes) or not array.size:
        expected = f"({', '.join(axes)}), none of them 0"
        raise InvalidRequest.at(Fault((name,), f"have shape {array.shape}, must be {expected}"))
    finite = np.isfinite(array)
    if not finite.all():
        first = np.unravel_index(int(finite.argmin()), finite.shape)
        count = int(finite.size - finite.sum())
        where = ", ".join(str(int(i)) for i in first)
        raise InvalidRequest.at(
            Fault((name,), f"{count} of {array.size} are not finite in float32, the first at [{where}]")
        )
    return array
