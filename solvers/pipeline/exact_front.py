"""The exact Pareto front: every ordered partition of the features into at most k stages (EMSCO, Section 2).

All configurations of one stage are looked at, then of two, and so on: prefixes are walked again, which costs little,
and what few stages reach prunes much of what more stages could (``exact_front_kernel``, where the bounds are).
"""

import numpy as np

from models.arrays import Bools, Floats, UInt64s
from models.errors import Fault, InvalidRequest
from solvers.base import Progress, no_progress
from solvers.pipeline.bit_rows import pack_bits
from solvers.pipeline.configurations import Frontier, count_configurations
from solvers.pipeline.unit_costs import UnitCosts

MAX_FEATURES = 20
"""Features whose subsets all have a row: 2^20 of them."""
MAX_CONFIGURATIONS = 2**62
"""Configurations that can be counted, if not walked."""


def find_front(
    confident: Bools, correct: Bools, costs: Floats, max_stages: int, *, progress: Progress = no_progress
) -> Frontier:
    """Find all non-dominated configurations over coverage (Eq. 3), conclusive accuracy (Eq. 4) and mean cost.

    confident, correct: (2^n, rows) booleans; row = bit mask of the feature set, bit i = feature i; row 0, the empty
    set, is not looked at. A prediction counts as right where it is both confident and correct. costs: (n,) finite, at
    least 0. max_stages: k; every feature is in one of at most k stages, as Eq. 2 counts.

    Of configurations with equal objectives the one of fewest stages is kept, then the first in lexicographic order of
    the chromosome. Where no row is covered, accuracy is 0. Costs are exact if they have few decimals, else
    rounded to some 1e-12 of their sum (``unit_costs``).

    progress is told the configurations done, of all, and may raise to cancel. Raises InvalidRequest for arrays that do
    not fit, costs that are no costs, max_stages below 1, and more than 20 features.

    O(configurations · rows / 64) time less what bounds prune; memory for 4 · 2^n · rows bits and the list of what is
    not dominated.

    >>> alone = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    >>> front = find_front(alone, alone, np.array([1.0, 2.0]), 2)
    >>> front.coverage.tolist(), front.accuracy.tolist(), front.cost.tolist(), front.chromosomes.tolist()
    ([1.0], [1.0], [2.0], [[0, 1]])
    """
    n = _features(costs)
    by_set = [_checked(name, table, n) for name, table in (("confident", confident), ("correct", correct))]
    if by_set[0].shape != by_set[1].shape:
        raise InvalidRequest.from_faults(
            Fault(("correct",), f"has {by_set[1].shape[1]} rows, confident has {by_set[0].shape[1]}: must be as many")
        )
    packed = pack_bits(by_set[0]), pack_bits(by_set[0] & by_set[1])
    return find_packed_front(*packed, by_set[0].shape[1], costs, max_stages, progress=progress)


def find_packed_front(
    accepted: UInt64s, right: UInt64s, rows: int, costs: Floats, max_stages: int, *, progress: Progress = no_progress
) -> Frontier:
    """Do the same with packed rows (``bit_rows.pack``): accepted, and right, (2^n, ceil(rows / 64)) uint64."""
    n = _features(costs)
    shape = (1 << n, -(-rows // 64))
    for name, table in (("accepted", accepted), ("right", right)):
        if rows < 1 or table.shape != shape:
            raise InvalidRequest.from_faults(
                Fault((name,), f"has shape {table.shape}, must be {shape} for {rows} rows")
            )
    if max_stages < 1:
        raise InvalidRequest.from_faults(Fault(("max_stages",), f"is {max_stages}, must be at least 1"))
    stages = min(max_stages, n)
    total = count_configurations(n, stages)
    if total > MAX_CONFIGURATIONS:
        raise InvalidRequest.from_faults(
            Fault(("max_stages",), f"is {max_stages}: {total} configurations of {n} features are too many to count")
        )
    accepted = accepted & pack_bits(np.ones(rows, dtype=bool))
    from solvers.pipeline.exact_front_search import ExactFrontSearch  # here, so that only a search loads numba

    return ExactFrontSearch(accepted, right & accepted, rows, UnitCosts.from_costs(costs, rows), stages, total).run(
        progress
    )


def _features(costs: Floats) -> int:
    n = np.asarray(costs).size
    if n > MAX_FEATURES:
        raise InvalidRequest.from_faults(
            Fault(("costs",), f"has {n} features; all subsets can be enumerated up to {MAX_FEATURES}")
        )
    return n


def _checked(name: str, table: Bools, n: int) -> Bools:
    checked = np.asarray(table)
    if checked.ndim != 2 or checked.shape[0] != 1 << n or checked.shape[1] < 1:
        raise InvalidRequest.from_faults(
            Fault((name,), f"has shape {checked.shape}, must be ({1 << n}, rows): all subsets of {n} features")
        )
    if checked.dtype != np.bool_:
        raise InvalidRequest.from_faults(Fault((name,), f"has type {checked.dtype}, must be bool"))
    return checked
