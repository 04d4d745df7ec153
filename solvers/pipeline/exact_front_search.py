"""Loop of the exact search: allocates its arrays, and reports progress between kernel calls."""

import numpy as np

from models.arrays import Floats, Int8s, Int64s, UInt64s
from solvers.base import Progress
from solvers.pipeline.bit_packing import count_bits, pack_bits
from solvers.pipeline.configurations import Frontier, count_partitions
from solvers.pipeline.exact_front_kernel import (
    ALIVE,
    CHAIN,
    CORRECT,
    COVERED,
    DEPTH,
    LOOKED,
    PASSED,
    SIZE,
    STAGES,
    KnownFront,
    Lattice,
    SearchState,
    search_chains,
)
from solvers.pipeline.unit_costs import FixedPointCosts

CELLS = 1024
"""Cells of the table of least costs per dimension: 8 MiB."""
SEARCH_QUOTA = 5_000_000
"""Configurations between two progress reports: at most a tenth of a second."""


class ExactFrontSearch:
    """Arrays of one search, and its loop over stage counts and quotas.

    A quota is a number of configurations per kernel call.
    """

    def __init__(
        self, accepted: UInt64s, right: UInt64s, rows: int, unit_costs: FixedPointCosts, stages: int, total: int
    ) -> None:
        self._rows, self._unit_costs, self._stages, self._total = rows, unit_costs, stages, total
        self._lattice = make_lattice(accepted, right, unit_costs, stages)
        width = -(-(rows + 1) // CELLS)
        room, cells = 2 * len(accepted), rows // width + 1
        self._known = KnownFront(
            entries=np.zeros((room, CHAIN + stages - 1), dtype=np.int64),
            costs=np.zeros(room),
            least=np.full((cells, cells), np.inf),
            width=width,
            rows=rows,
        )

    def run(self, progress: Progress) -> Frontier:
        state = np.zeros(5, dtype=np.int64)
        search_chains(self._lattice, self._known, self._start_single_stage(state), 1, SEARCH_QUOTA)
        for stages in range(2, self._stages + 1):
            search = self._start(state)
            while state[DEPTH] >= 0:
                done = int(state[LOOKED] + state[PASSED])
                progress(done, self._total, f"configurations of {stages} stages")
                self._make_room(int(state[SIZE]))
                search_chains(self._lattice, self._known, search, stages, SEARCH_QUOTA)
        progress(self._total, self._total, "configurations")
        return self._result(state)

    def _start(self, state: Int64s) -> SearchState:
        """Return the initial state, at the empty set, and clear the table."""
        self._known.least.fill(np.inf)
        depths, word_count = self._stages, self._lattice.votes.shape[2]
        search = SearchState(
            nodes=np.zeros((depths, 5), dtype=np.int64),
            rest=np.zeros((depths, word_count), dtype=np.uint64),
            paid=np.zeros(depths),
            chain=np.zeros(depths, dtype=np.int64),
            state=state,
        )
        search.nodes[0, ALIVE] = self._rows
        search.rest[0] = pack_bits(np.ones(self._rows, dtype=bool))
        state[DEPTH] = 0
        return search

    def _start_single_stage(self, state: Int64s) -> SearchState:
        """Return the state at the configuration of one stage."""
        search = self._start(state)
        search.nodes[0, COVERED] = count_bits(self._lattice.votes[-1, 0])
        search.nodes[0, CORRECT] = count_bits(self._lattice.votes[-1, 1])
        search.paid[0] = self._lattice.unit_costs[-1] * self._rows
        return search

    def _make_room(self, size: int) -> None:
        if size + len(self._lattice.unit_costs) > len(self._known.costs):
            entries, costs = self._known.entries, self._known.costs
            self._known = self._known._replace(
                entries=np.concatenate((entries, np.zeros_like(entries))),
                costs=np.concatenate((costs, np.zeros_like(costs))),
            )

    def _result(self, state: Int64s) -> Frontier:
        entries, sums = self._known.entries[: state[SIZE]], self._known.costs[: state[SIZE]]
        covered, right = entries[:, COVERED], entries[:, CORRECT]
        order = np.lexsort((sums, -right, -covered))
        return Frontier(
            coverage=(covered / self._rows)[order],
            accuracy=(right / np.maximum(covered, 1))[order],
            cost=self._unit_costs.compute_mean(sums, self._rows)[order],
            chromosomes=_chromosomes(entries, len(self._unit_costs.by_feature))[order],
            examined=int(state[LOOKED]),
            pruned=int(state[PASSED]),
        )


def make_lattice(accepted: UInt64s, right: UInt64s, unit_costs: FixedPointCosts, stages: int) -> Lattice:
    """Precompute values over the supersets of each set, for the bounds.

    Complexity: O(n 2^n rows / 64).
    """
    n, sums = len(unit_costs.by_feature), unit_costs.sum_sets()
    own = np.stack((accepted, right), axis=1).astype(np.uint64, copy=False)
    ways = [[count_partitions(m, s) if s <= stages else 0 for s in range(stages + 1)] for m in range(n + 1)]
    return Lattice(
        votes=own,
        superset_votes=_unite_supersets(own, n),
        unit_costs=sums,
        cheapest=_find_cheapest_steps(sums, n),
        ways=np.array(ways, dtype=np.int64),
    )


def _find_cheapest_steps(sums: Floats, n: int) -> Floats:
    """Return the least cost of adding a feature to each set, (2^n,), from the costs of sets; 0 for the last set."""
    cheapest = np.full(len(sums), np.inf)
    for bit in range(n):
        of_bit, own = (each.reshape(-1, 2, 1 << bit) for each in (sums, cheapest))
        np.minimum(own[:, 0], of_bit[:, 1] - of_bit[:, 0], out=own[:, 0])
    cheapest[-1] = 0.0
    return cheapest


def _unite_supersets(table: UInt64s, n: int) -> UInt64s:
    """Return the union of the rows of all proper supersets of each set, (2^n, ...)."""
    whole, proper = table.copy(), np.zeros_like(table)
    for bit in range(n):
        halves = whole.reshape(-1, 2, 1 << bit, *table.shape[1:])
        halves[:, 0] |= halves[:, 1]
    for bit in range(n):
        halves = whole.reshape(-1, 2, 1 << bit, *table.shape[1:])
        proper.reshape(halves.shape)[:, 0] |= halves[:, 1]
    return proper


def _chromosomes(entries: Int64s, n: int) -> Int8s:
    """Convert chains to chromosomes: a feature's stage is the number of sets without it."""
    chains = entries[:, CHAIN:, None]
    lacking = (chains >> np.arange(n)) & 1 == 0
    real = np.arange(1, chains.shape[1] + 1)[:, None] < entries[:, STAGES, None, None]
    return np.asarray((lacking & real).sum(axis=1).astype(np.int8))
