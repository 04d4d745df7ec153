"""Exact Pareto front of all ordered partitions of the features into at most k stages (EMSCO, Section 2).

It is found by branch and bound with iterative deepening: configurations of one stage, then of two, and so on.
Configurations with few stages prune most configurations with more stages. ``exact_front_kernel`` documents the bounds.
"""

import numpy as np

from models.arrays import Bools, Floats, UInt64s
from models.errors import Fault, InvalidRequest
from solvers.base import Progress, no_progress
from solvers.pipeline.bit_packing import pack_bits
from solvers.pipeline.configurations import Frontier, count_configurations
from solvers.pipeline.unit_costs import FixedPointCosts
from solvers.setup_groups import NO_GROUPS, SetupGroups

MAX_FEATURES = 20
"""Maximum number of features: 2^20 subsets."""
MAX_CONFIGURATIONS = 2**62
"""Maximum number of configurations, so that counters do not overflow."""


def find_front(
    confident: Bools,
    correct: Bools,
    costs: Floats,
    max_stages: int,
    *,
    groups: SetupGroups = NO_GROUPS,
    progress: Progress = no_progress,
) -> Frontier:
    """Find all non-dominated configurations over coverage (Eq. 3), conclusive accuracy (Eq. 4), and mean cost.

    Of configurations with equal objectives, the one with the fewest stages is kept. Further ties go to the first
    chromosome in lexicographic order. If no row is covered, accuracy is 0. Costs are exact if they have few decimals,
    else rounded to about 1e-12 of their sum (``unit_costs``).

    Args:
        confident, correct: (2^n, rows); the row index is the mask of the feature set; row 0 is not used.
        costs: (n + G,), of features and then of set-up groups, finite and at least 0.
        max_stages: k; every feature is in one of at most k stages (Eq. 2).
        groups: the features of each set-up group; the first stage that touches a group pays for it.
        progress: may raise to cancel.
    Raises:
        InvalidRequest: for invalid shapes, costs, or max_stages, and for more than 20 features.
    Complexity: at most O(configurations · rows / 64) time; 4 · 2^n · rows bits of memory plus the front.

    >>> alone = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    >>> front = find_front(alone, alone, np.array([1.0, 2.0]), 2)
    >>> front.coverage.tolist(), front.accuracy.tolist(), front.cost.tolist(), front.chromosomes.tolist()
    ([1.0], [1.0], [2.0], [[0, 1]])
    """
    n = _count_features(costs, groups)
    by_set = [_check_table(name, table, n) for name, table in (("confident", confident), ("correct", correct))]
    if by_set[0].shape != by_set[1].shape:
        raise InvalidRequest.from_faults(
            Fault(("correct",), f"must have {by_set[0].shape[1]} rows like confident, got {by_set[1].shape[1]}")
        )
    packed = pack_bits(by_set[0]), pack_bits(by_set[0] & by_set[1])
    return find_packed_front(*packed, by_set[0].shape[1], costs, max_stages, groups=groups, progress=progress)


def find_packed_front(
    accepted: UInt64s,
    right: UInt64s,
    rows: int,
    costs: Floats,
    max_stages: int,
    *,
    groups: SetupGroups = NO_GROUPS,
    progress: Progress = no_progress,
) -> Frontier:
    """Find the front like ``find_front``, but from packed bit sets.

    The bit sets are the accepted and the correctly accepted rows, (2^n, ceil(rows / 64)).
    """
    n = _count_features(costs, groups)
    shape = (1 << n, -(-rows // 64))
    for name, table in (("accepted", accepted), ("right", right)):
        if rows < 1 or table.shape != shape:
            raise InvalidRequest.from_faults(
                Fault((name,), f"must have shape {shape} for {rows} rows, got {table.shape}")
            )
    if max_stages < 1:
        raise InvalidRequest.from_faults(Fault(("max_stages",), f"must be at least 1, got {max_stages}"))
    stages = min(max_stages, n)
    total = count_configurations(n, stages)
    if total > MAX_CONFIGURATIONS:
        raise InvalidRequest.from_faults(
            Fault(("max_stages",), f"{max_stages} gives {total} configurations; maximum is {MAX_CONFIGURATIONS}")
        )
    accepted = accepted & pack_bits(np.ones(rows, dtype=bool))
    from solvers.pipeline.exact_front_search import ExactFrontSearch  # here, so that only a search loads numba

    return ExactFrontSearch(
        accepted, right & accepted, rows, FixedPointCosts.from_costs(costs, rows, groups), stages, total
    ).run(progress)


def _count_features(costs: Floats, groups: SetupGroups) -> int:
    n = np.asarray(costs).size - len(groups)
    if n > MAX_FEATURES:
        raise InvalidRequest.from_faults(Fault(("costs",), f"must have at most {MAX_FEATURES} features, got {n}"))
    return n


def _check_table(name: str, table: Bools, n: int) -> Bools:
    checked = np.asarray(table)
    if checked.ndim != 2 or checked.shape[0] != 1 << n or checked.shape[1] < 1:
        raise InvalidRequest.from_faults(
            Fault((name,), f"must have shape ({1 << n}, rows), one row per subset, got {checked.shape}")
        )
    if checked.dtype != np.bool_:
        raise InvalidRequest.from_faults(Fault((name,), f"must have type bool, got {checked.dtype}"))
    return checked
