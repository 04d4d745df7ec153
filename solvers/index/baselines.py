"""Size of the index compared with the paper's baseline Poly-Dom-Index-All, which stores every crossing.

Naive-Lookup is ``method="naive"`` of a plan's ``decide``.
"""

from dataclasses import dataclass

from solvers.index.crossings import SkylineIndex


@dataclass(frozen=True, slots=True)
class IndexSize:
    """Size of an index. points: stored breakpoints; entries: members of all skylines."""

    points: int
    entries: int


def measure_index_size(index: SkylineIndex) -> IndexSize:
    """Return the size of Poly-Dom's index, which stores skylines only where they change.

    >>> import numpy as np
    >>> measure_index_size(SkylineIndex(np.array([1.0]), np.array([0, 2]), np.array([0, 1], dtype=np.int32), 7, 19))
    IndexSize(points=1, entries=2)
    """
    return IndexSize(len(index.sizes), len(index.members))


def measure_full_size(index: SkylineIndex) -> IndexSize:
    """Return the size of Poly-Dom-Index-All, which stores a skyline at every crossing of two candidates.

    >>> import numpy as np
    >>> measure_full_size(SkylineIndex(np.array([1.0]), np.array([0, 2]), np.array([0, 1], dtype=np.int32), 7, 19))
    IndexSize(points=8, entries=19)
    """
    return IndexSize(index.crossings + 1, index.entries_if_all)
