"""Exact nearest-neighbor search by L-infinity distance (OCCAM, Section 4.1).

In each of K samples, the item nearest to the query is searched. The estimate of a classifier's accuracy for the query
is the mean of its accuracies on these items. The distance is OCCAM's default (Section 5.1). Samples overlap, so their
union is searched once.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.arrays import Floats, Int32s, Singles
from models.errors import Fault, InvalidRequest

T = TypeVar("T", bound=np.generic)
MIN_THREADED_QUERIES = 16
"""From this many queries on, threads pay off."""
MAX_CHUNK = 1024
"""Maximum number of queries per chunk and thread, which bounds the memory."""


class NeighborSearch:
    """Thread-safe nearest-neighbor search over samples of items.

    Coordinates are sorted by falling variance, because the first ones then rule out most items.

    Args:
        items: (r, d), converted to float32, each at least 1.
        samples: (K, s), indices of items, each at least 1.
    Raises:
        InvalidRequest: items of another shape, or numbers that are not finite in float32.
    Complexity: O(K s log(K s) + u d log u) time, and O(u d + K s) memory, for u items in at least one sample.

    >>> items = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    >>> search = NeighborSearch(items, np.array([[0, 1], [0, 2]], np.int32))
    >>> search.find_nearest(np.array([[0.9, 0.2], [0.1, 0.3]])).tolist()
    [[1, 0], [0, 0]]
    """

    __slots__ = ("_blocks", "_items", "_order", "_samples")

    def __init__(self, items: ArrayLike, samples: Int32s) -> None:
        from solvers.portfolio.neighbors.item_blocks import ItemBlocks

        self._items = _validate_array(items, "items", ("r", "d"))
        self._samples = _freeze(np.asarray(samples, np.int32))
        self._order = np.argsort(-self._items.var(axis=0, dtype=np.float64), kind="stable")
        self._blocks = ItemBlocks.from_samples(self._items[:, self._order], self._samples)

    def find_nearest(self, queries: ArrayLike) -> Int32s:
        """Return the nearest item of each sample for each query: (n, K).

        Ties go to the first item of the sample.

        Args:
            queries: (n, d), converted to float32; n at least 1.
        Raises:
            InvalidRequest: other shapes, or numbers that are not finite in float32.
        Complexity: O(n (u d + K s)) time in the worst case for u items in at least one sample, on all processors for
        ``MIN_THREADED_QUERIES`` queries or more; O(u + d) memory for each of at most ``MAX_CHUNK`` queries per thread.
        """
        checked = self._validate_queries(queries)
        nearest = np.empty((len(checked), len(self._samples)), np.int32)

        def search(chunk: slice) -> None:
            self._search(checked[chunk], nearest[chunk])

        _run_chunks(search, len(checked))
        return nearest

    def average_nearest(self, values: Singles, queries: ArrayLike) -> Floats:
        """Return the mean of values, (r, m), over the items of ``find_nearest``: (n, m).

        Complexity: as ``find_nearest``, and O(n K m) time.
        """
        checked = self._validate_queries(queries)
        means = np.empty((len(checked), values.shape[1]))

        def average(chunk: slice) -> None:
            nearest = np.empty((chunk.stop - chunk.start, len(self._samples)), np.int32)
            self._search(checked[chunk], nearest)
            means[chunk] = average_rows(values, nearest)

        _run_chunks(average, len(checked))
        return means

    def _validate_queries(self, queries: ArrayLike) -> Singles:
        checked, dimensions = _validate_array(queries, "queries", ("n", "d")), len(self._order)
        if checked.shape[1] != dimensions:
            fault = f"must have {dimensions} coordinates, got {checked.shape[1]}"
            raise InvalidRequest.from_faults(Fault(("queries",), fault))
        return checked

    def _search(self, queries: Singles, nearest: Int32s) -> None:
        from solvers.portfolio.neighbors import kernel  # lazy import: servers start without numba
        from solvers.portfolio.neighbors.item_blocks import pad_coordinates

        kernel.search_nearest(*self._blocks, self._samples, pad_coordinates(queries[:, self._order]), nearest)

    def warm_up(self, values: Singles) -> None:
        """Compile the search before the first query.

        The values have the types of those passed to ``average_nearest``. Takes some seconds, once per process.
        """
        self.average_nearest(values, self._items[:1])


def average_rows(values: Singles, indices: Int32s) -> Floats:
    """Return the mean of the values' rows, (r, m), at indices (n, K): (n, m)."""
    from solvers.portfolio.neighbors import kernel

    means = np.empty((len(indices), values.shape[1]))
    kernel.average_rows(_freeze(values), np.ascontiguousarray(indices), means)
    return means


def _freeze(array: NDArray[T]) -> NDArray[T]:
    """Return a read-only C-contiguous view.

    So kernels are compiled once, for the arrays of artifacts and of fits.
    """
    frozen = np.ascontiguousarray(array).view()
    frozen.flags.writeable = False
    return frozen


def _run_chunks(function: Callable[[slice], None], count: int) -> None:
    """Call a function for chunks of at most ``MAX_CHUNK`` of ``count`` queries, in threads if there are many."""
    import joblib

    threads = joblib.cpu_count() if count >= MIN_THREADED_QUERIES else 1
    length = ceil(count / (threads * ceil(count / (threads * MAX_CHUNK))))
    chunks = [slice(start, min(start + length, count)) for start in range(0, count, length)]
    if threads == 1:
        for chunk in chunks:
            function(chunk)
        return
    # A pool per search, so that searches do not block each other; the kernel releases the GIL. Some of Numba's own
    # threading layers abort the process when two threads use them at once.
    with ThreadPoolExecutor(threads) as pool:
        deque(pool.map(function, chunks), maxlen=0)  # raises exceptions of the threads


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
