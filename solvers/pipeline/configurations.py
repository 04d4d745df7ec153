"""Pipeline configurations as chromosomes (EMSCO, Sections 2.1 and 3.1).

A chromosome has, for each feature, the stage that acquires it.

A chromosome of n genes in {0, ..., k - 1} assigns a stage to each feature; -1 means never acquired. A chromosome
without gaps represents an ordered partition: each of its stages 0 to s - 1 has features. Compression closes gaps. The
classifier of stage j uses the features of stages 0 to j, as a bit mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from models.arrays import Floats, Int8s, Int64s, UInt64s
from models.errors import Fault, InvalidRequest
from solvers.setup_groups import SetupGroups

REMOVED = -1
"""The gene of a feature that no stage acquires."""
MAX_FEATURES = 63
"""Number of features in a mask."""
MAX_STAGES = 127
"""Number of stages that a gene can represent."""


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Pareto front, by decreasing coverage, then accuracy, without duplicates.

    Attributes:
        coverage, accuracy, cost: (f,), conclusive accuracy and mean cost.
        chromosomes: (f, n).
        examined, pruned: numbers of configurations evaluated and pruned; their sum is the number of all.
    """

    coverage: Floats
    accuracy: Floats
    cost: Floats
    chromosomes: Int8s
    examined: int
    pruned: int


def count_partitions(n: int, k: int) -> int:
    """Count the ordered partitions of n features into exactly k stages (Eq. 1).

    >>> count_partitions(4, 2)
    14
    """
    return sum((-1) ** (k - i) * comb(k, i) * i**n for i in range(k + 1))


def count_configurations(n: int, k: int) -> int:
    """Count the ordered partitions of n features into at most k stages (Eq. 2).

    >>> count_configurations(14, 4), count_configurations(12, 4), count_configurations(8, 4)
    (254152083, 15199275, 46875)
    """
    return sum(count_partitions(n, j) for j in range(1, min(n, k) + 1))


def check_chromosomes(chromosomes: Int8s) -> Int8s:
    """Return chromosomes as int8; raises InvalidRequest unless they are (c, n) integers in range."""
    genes = np.asarray(chromosomes)
    if genes.ndim != 2 or genes.dtype.kind not in "iu":
        raise InvalidRequest.from_faults(
            Fault(("chromosomes",), f"must be (c, n) integers, got shape {genes.shape} and type {genes.dtype}")
        )
    if not 1 <= genes.shape[1] <= MAX_FEATURES:
        raise InvalidRequest.from_faults(
            Fault(("chromosomes",), f"must have 1 to {MAX_FEATURES} features, got {genes.shape[1]}")
        )
    if genes.size and not (genes.min() >= REMOVED and genes.max() < MAX_STAGES):
        raise InvalidRequest.from_faults(
            Fault(("chromosomes",), f"genes must be from -1 to {MAX_STAGES - 1}, got {genes.min()} to {genes.max()}")
        )
    return genes.astype(np.int8, copy=False)


def make_single_stage(features: Sequence[int], n: int) -> Int8s:
    """Return the chromosome of n genes that acquires these features in one stage.

    >>> make_single_stage([0, 2], 3).tolist()
    [0, -1, 0]
    """
    genes = np.full(n, REMOVED, dtype=np.int8)
    genes[list(features)] = 0
    return genes


def count_stages(chromosomes: Int8s) -> Int64s:
    """Count the stages of compressed chromosomes, (c, n) to (c,).

    >>> count_stages(np.array([[0, 1, 1], [0, 0, -1]], dtype=np.int8)).tolist()
    [2, 1]
    """
    return np.asarray(chromosomes.max(axis=1).astype(np.int64) + 1)


def compress_chromosomes(chromosomes: Int8s) -> Int8s:
    """Close the gaps between stages, in order (Section 3.1.1). Complexity: O(c (n + k)).

    >>> compress_chromosomes(np.array([[0, 0, 0, 2], [3, -1, 1, 3]], dtype=np.int8)).tolist()
    [[0, 0, 0, 1], [1, -1, 0, 1]]
    """
    stages = int(chromosomes.max(initial=REMOVED)) + 1
    used = count_stage_features(chromosomes, stages) > 0
    removed = np.full(len(used), REMOVED)  # the last column, which -1 takes
    indices: Int64s = np.column_stack((np.cumsum(used, axis=1) - 1, removed))
    return np.take_along_axis(indices, chromosomes.astype(np.intp) % (stages + 1), axis=1).astype(np.int8)


def count_stage_features(chromosomes: Int8s, stages: int) -> Int64s:
    """Count the features of each stage, (c, n) to (c, stages).

    >>> count_stage_features(np.array([[0, 1, 1, -1]], dtype=np.int8), 3).tolist()
    [[1, 2, 0]]
    """
    c = len(chromosomes)
    columns = chromosomes.astype(np.intp) % (stages + 1) + np.arange(c)[:, None] * (stages + 1)
    counts = np.bincount(columns.ravel(), minlength=c * (stages + 1))
    return counts.reshape(c, stages + 1)[:, :stages].astype(np.int64, copy=False)


def append_group_stages(chromosomes: Int8s, groups: SetupGroups) -> Int8s:
    """Append the first stage that touches each set-up group, or -1: (c, n) to (c, n + G).

    >>> groups = SetupGroups(np.array([[True, True, False], [False, False, True]]))
    >>> append_group_stages(np.array([[2, 1, -1]], dtype=np.int8), groups).tolist()
    [[2, 1, -1, 1, -1]]
    """
    if not len(groups):
        return chromosomes
    genes = chromosomes[:, None, :]
    first = np.where(groups.members & (genes >= 0), genes, MAX_STAGES).min(axis=2)
    return np.column_stack((chromosomes, np.where(first < MAX_STAGES, first, REMOVED))).astype(np.int8)


def make_stage_masks(chromosomes: Int8s, stages: int) -> UInt64s:
    """Return masks of the features known at each stage, (c, n) to (c, stages).

    Bit i is feature i. After a chromosome's last stage, its masks stay the same. Complexity: O(c n stages).

    >>> make_stage_masks(np.array([[1, 0, -1], [0, 0, 0]], dtype=np.int8), 2).tolist()
    [[2, 3], [7, 7]]
    """
    known = (chromosomes[:, None, :] <= np.arange(stages)[:, None]) & (chromosomes >= 0)[:, None, :]
    octets = np.zeros((*known.shape[:2], 8), dtype=np.uint8)
    packed = np.packbits(known, axis=-1, bitorder="little")
    octets[..., : packed.shape[-1]] = packed
    return octets.view(np.dtype("<u8"))[..., 0].astype(np.uint64)
