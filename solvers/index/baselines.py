"""What the paper compares Poly-Dom with: indexing every crossing.

Naive-Lookup is ``method="naive"`` of a plan's ``decide``.
"""

from dataclasses import dataclass

from solvers.index.crossings import Index


@dataclass(frozen=True, slots=True)
class IndexSize:
    """How large an index is: points at which something is stored, and entries stored in all."""

    points: int
    entries: int


def size_of(index: Index) -> IndexSize:
    """Measure Poly-Dom's index: skylines at interesting points only.

    >>> import numpy as np
    >>> size_of(Index(np.array([1.0]), np.array([0, 2]), np.array([0, 1], dtype=np.int32), 7, 19))
    IndexSize(points=1, entries=2)
    """
    return IndexSize(len(index.sizes), len(index.members))


def size_if_all(index: Index) -> IndexSize:
    """Measure Poly-Dom-Index-All: a skyline at every crossing of two candidates, interesting or not.

    >>> import numpy as np
    >>> size_if_all(Index(np.array([1.0]), np.array([0, 2]), np.array([0, 1], dtype=np.int32), 7, 19))
    IndexSize(points=8, entries=19)
    """
    return IndexSize(index.crossings + 1, index.entries_if_all)
