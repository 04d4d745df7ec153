"""The exact Pareto front: every ordered partition of the features into at most k stages (EMSCO, Section 2).

All configurations of one stage are looked at, then of two, and so on: prefixes are walked again, which costs little,
and what few stages reach prunes much of what more stages could (``chains``, where the bounds are).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import Fault, InvalidRequest
from solvers.base import Progress, silent
from solvers.pipeline.bits import Flags, Words, count, pack
from solvers.pipeline.chains import (
    ALIVE,
    CHAIN,
    COVERED,
    DEPTH,
    LOOKED,
    PASSED,
    RIGHT,
    SIZE,
    STAGES,
    Known,
    Lattice,
    Place,
    compiled,
)
from solvers.pipeline.chromosomes import Chromosomes, configurations, partitions
from solvers.pipeline.prices import Prices

Floats = NDArray[np.float64]

MOST_FEATURES = 20
"""Features whose subsets all have a row: 2^20 of them."""
MOST_CONFIGURATIONS = 2**62
"""Configurations that can be counted, if not walked."""
CELLS = 1024
"""Cells of the table of least costs, each way: 8 MiB."""
QUOTA = 5_000_000
"""Configurations between two reports of progress: a tenth of a second or less."""


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The front, by falling coverage, then accuracy. coverage, accuracy (conclusive), cost (mean): (f,) float64, none
    dominated, no two alike; chromosomes: (f, n) int8. examined, pruned: how many configurations were looked at, and
    ruled out together; their sum is the number of all."""

    coverage: Floats
    accuracy: Floats
    cost: Floats
    chromosomes: Chromosomes
    examined: int
    pruned: int


def frontier(
    confident: Flags, correct: Flags, costs: Floats, max_stages: int, *, progress: Progress = silent
) -> Frontier:
    """Find all non-dominated configurations over coverage (Eq. 3), conclusive accuracy (Eq. 4) and mean cost.

    confident, correct: (2^n, rows) booleans; row = bit mask of the feature set, bit i = feature i; row 0, the empty
    set, is not looked at. A prediction counts as right where it is both confident and correct. costs: (n,) finite, at
    least 0. max_stages: k; every feature is in one of at most k stages, as Eq. 2 counts.

    Of configurations with equal objectives the one of fewest stages is kept, then the first in lexicographic order of
    the chromosome. Where no row is covered, accuracy is 0. Costs are exact if they have few decimals, else
    rounded to some 1e-12 of their sum (``prices``).

    progress is told the configurations done, of all, and may raise to cancel. Raises InvalidRequest for arrays that do
    not fit, costs that are no costs, max_stages below 1, and more than 20 features.

    O(configurations · rows / 64) time less what bounds prune; memory for 4 · 2^n · rows bits and the list of what is
    not dominated.

    >>> alone = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=bool)
    >>> found = frontier(alone, alone, np.array([1.0, 2.0]), 2)
    >>> found.coverage.tolist(), found.accuracy.tolist(), found.cost.tolist(), found.chromosomes.tolist()
    ([1.0], [1.0], [2.0], [[0, 1]])
    """
    n = _features(costs)
    tables = [_checked(name, table, n) for name, table in (("confident", confident), ("correct", correct))]
    if tables[0].shape != tables[1].shape:
        raise InvalidRequest.at(
            Fault(("correct",), f"has {tables[1].shape[1]} rows, confident has {tables[0].shape[1]}: must be as many")
        )
    words = pack(tables[0]), pack(tables[0] & tables[1])
    return frontier_of_words(*words, tables[0].shape[1], costs, max_stages, progress=progress)


def frontier_of_words(
    accepted: Words, right: Words, rows: int, costs: Floats, max_stages: int, *, progress: Progress = silent
) -> Frontier:
    """Do the same with packed rows (``bits.pack``): accepted, and right, (2^n, ceil(rows / 64)) uint64."""
    n = _features(costs)
    shape = (1 << n, -(-rows // 64))
    for name, table in (("accepted", accepted), ("right", right)):
        if rows < 1 or table.shape != shape:
            raise InvalidRequest.at(Fault((name,), f"has shape {table.shape}, must be {shape} for {rows} rows"))
    if max_stages < 1:
        raise InvalidRequest.at(Fault(("max_stages",), f"is {max_stages}, must be at least 1"))
    stages = min(max_stages, n)
    total = configurations(n, stages)
    if total > MOST_CONFIGURATIONS:
        raise InvalidRequest.at(
            Fault(("max_stages",), f"is {max_stages}: {total} configurations of {n} features are too many to count")
        )
    accepted = accepted & pack(np.ones(rows, dtype=bool))
    return _Search(accepted, right & accepted, rows, Prices.whole(costs, rows), stages, total).run(progress)


def _features(costs: Floats) -> int:
    n = np.asarray(costs).size
    if n > MOST_FEATURES:
        raise InvalidRequest.at(
            Fault(("costs",), f"has {n} features; all subsets can be enumerated up to {MOST_FEATURES}")
        )
    return n


def _checked(name: str, table: Flags, n: int) -> Flags:
    checked = np.asarray(table)
    if checked.ndim != 2 or checked.shape[0] != 1 << n or checked.shape[1] < 1:
        raise InvalidRequest.at(
            Fault((name,), f"has shape {checked.shape}, must be ({1 << n}, rows): all subsets of {n} features")
        )
    if checked.dtype != np.bool_:
        raise InvalidRequest.at(Fault((name,), f"has type {checked.dtype}, must be bool"))
    return checked


class _Search:
    """The arrays of one enumeration, and the loop over stage counts and quotas."""

    def __init__(self, accepted: Words, right: Words, rows: int, prices: Prices, stages: int, total: int) -> None:
        self._rows, self._prices, self._stages, self._total = rows, prices, stages, total
        self._lattice = lattice_of(accepted, right, prices, stages)
        width = -(-(rows + 1) // CELLS)
        room, cells = 2 * len(accepted), rows // width + 1
        self._known = Known(
            found=np.zeros((room, CHAIN + stages - 1), dtype=np.int64),
            costs=np.zeros(room),
            least=np.full((cells, cells), np.inf),
            width=width,
            rows=rows,
        )

    def run(self, progress: Progress) -> Frontier:
        walk = compiled()
        state = np.zeros(5, dtype=np.int64)
        walk(self._lattice, self._known, self._whole(state), 1, QUOTA)
        for stages in range(2, self._stages + 1):
            place = self._start(state)
            while state[DEPTH] >= 0:
                done = int(state[LOOKED] + state[PASSED])
                progress(done, self._total, f"configurations of {stages} stages")
                self._make_room(int(state[SIZE]))
                walk(self._lattice, self._known, place, stages, QUOTA)
        progress(self._total, self._total, "configurations")
        return self._result(state)

    def _start(self, state: NDArray[np.int64]) -> Place:
        """Begin a walk at the empty set, which accepts nothing, with an empty table."""
        self._known.least.fill(np.inf)
        depths, words = self._stages, self._lattice.own.shape[2]
        place = Place(
            nodes=np.zeros((depths, 5), dtype=np.int64),
            rest=np.zeros((depths, words), dtype=np.uint64),
            paid=np.zeros(depths),
            chain=np.zeros(depths, dtype=np.int64),
            state=state,
        )
        place.nodes[0, ALIVE] = self._rows
        place.rest[0] = pack(np.ones(self._rows, dtype=bool))
        state[DEPTH] = 0
        return place

    def _whole(self, state: NDArray[np.int64]) -> Place:
        """Place a walk at the one configuration of one stage."""
        place = self._start(state)
        place.nodes[0, COVERED] = count(self._lattice.own[-1, 0])
        place.nodes[0, RIGHT] = count(self._lattice.own[-1, 1])
        place.paid[0] = self._lattice.prices[-1] * self._rows
        return place

    def _make_room(self, size: int) -> None:
        """Let the list grow by what one node can lead to."""
        if size + len(self._lattice.prices) > len(self._known.costs):
            found, costs = self._known.found, self._known.costs
            self._known = self._known._replace(
                found=np.concatenate((found, np.zeros_like(found))), costs=np.concatenate((costs, np.zeros_like(costs)))
            )

    def _result(self, state: NDArray[np.int64]) -> Frontier:
        found, sums = self._known.found[: state[SIZE]], self._known.costs[: state[SIZE]]
        covered, right = found[:, COVERED], found[:, RIGHT]
        order = np.lexsort((sums, -right, -covered))
        return Frontier(
            coverage=(covered / self._rows)[order],
            accuracy=(right / np.maximum(covered, 1))[order],
            cost=self._prices.mean(sums, self._rows)[order],
            chromosomes=_chromosomes(found, len(self._prices.of))[order],
            examined=int(state[LOOKED]),
            pruned=int(state[PASSED]),
        )


def lattice_of(accepted: Words, right: Words, prices: Prices, stages: int) -> Lattice:
    """Add what bounds need to know of the supersets of each set: O(n 2^n rows / 64) time."""
    n = len(prices.of)
    cheapest = np.zeros(1)
    for price in prices.of:
        cheapest = np.concatenate((cheapest, np.minimum(cheapest, price)))
        cheapest[len(cheapest) // 2] = price
    own = np.stack((accepted, right), axis=1).astype(np.uint64, copy=False)
    ways = [[partitions(m, s) if s <= stages else 0 for s in range(stages + 1)] for m in range(n + 1)]
    return Lattice(
        own=own,
        ever=_of_supersets(own, n),
        prices=prices.of_sets(),
        cheapest=cheapest,
        ways=np.array(ways, dtype=np.int64),
    )


def _of_supersets(table: Words, n: int) -> Words:
    """Unite, for each set, the rows of all its proper supersets: (2^n, ...) words."""
    whole, proper = table.copy(), np.zeros_like(table)
    for bit in range(n):
        halves = whole.reshape(-1, 2, 1 << bit, *table.shape[1:])
        halves[:, 0] |= halves[:, 1]
    for bit in range(n):
        halves = whole.reshape(-1, 2, 1 << bit, *table.shape[1:])
        proper.reshape(halves.shape)[:, 0] |= halves[:, 1]
    return proper


def _chromosomes(found: NDArray[np.int64], n: int) -> Chromosomes:
    """Write chains as chromosomes: a feature's stage is the number of sets that lack it."""
    chains = found[:, CHAIN:, None]
    lacking = (chains >> np.arange(n)) & 1 == 0
    real = np.arange(1, chains.shape[1] + 1)[:, None] < found[:, STAGES, None, None]
    return np.asarray((lacking & real).sum(axis=1).astype(np.int8))
