"""Lower bound, and heuristic, of the remaining expected duration of grouped classifiers, in closed form.

**Relaxation.** After K_a of a group, a more powerful K_b of the group costs only C_b - C_a instead of C_b. It can also
be called in parts, one for every member in between. Then a group is a chain of parts (cost, success probability), and
chains are independent.

**Optimal order of parts.** Cut each chain into blocks of least expected cost per
success probability, order blocks by this ratio, and stop when the ratio reaches the deterministic classifier's C_n (as
in Lemma 2, for blocks; Monma and Sidney's series-parallel sequencing).

**Bound.** Every cascade corresponds to an order of parts that costs no more, so the relaxed optimum is a lower bound.
If no group has two members, it equals the optimum (Lemma 2).

**Deadline.** A deadline limits success: a knapsack of parts of members, by worst-case time and -log(1 - p), bounds the
share u of items that remain unclassified. Leaving the share u costs at least as much as the blocks up to u, where the
last block may count in part. So the bound includes only these blocks.

**Heuristic.** It replaces the blocks of each group by its single member of the lowest ratio.

Complexity: O(n g^2) to build for n members in groups of at most g; O(s b) to evaluate for s states and b <= n g blocks.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int16s, Int64s
from solvers.cascade.groups.state_layout import StateLayout

_MIN_TIME_SHARE = 1e-9
"""Shares of C_n: minimum worst-case time of members, and extra time per group, inside the bound; it stays valid."""

_ChainPart = tuple[float, float]
"""Cost, and success probability given that it is reached."""


@dataclass(frozen=True, slots=True, eq=False)
class _EntryTable:
    """Entries (e,) in order of use; each applies to states in which ``group`` has ``digit``."""

    group: list[int]
    digit: list[int]
    rate: list[float]
    size: list[float]

    @classmethod
    def from_entries(cls, entries: Sequence[tuple[float, int, int, float]]) -> "_EntryTable":
        """Sort entries (rate, group, digit, size) by their rate."""
        rate, group, digit, size = zip(*sorted(entries), strict=True) if entries else ((), (), (), ())
        return cls(list(group), list(digit), list(rate), list(size))


@dataclass(frozen=True, slots=True, eq=False)
class RemainingDuration:
    """Estimate of the expected remaining duration of a state: a lower bound, or the heuristic.

    Attributes:
        blocks: parts of the groups in the order of use; ``rate`` is the cost per success probability, ``size`` the
            share of items that remain unclassified.
        slices: parts that bound the unclassified share within the spare time; ``rate`` is log(1 - p) per unit of
            worst-case time, ``size`` that time.
    """

    layout: StateLayout
    blocks: _EntryTable
    slices: _EntryTable

    def evaluate(self, states: Int64s, spare: Floats) -> Floats:
        """Return a lower bound on the expected remaining time of each of s states: (s,).

        Args:
            states: (s, w), encoded.
            spare: (s,), remaining worst-case time for IDK classifiers.
        """
        digits = np.ascontiguousarray(self.layout.decode_states(states).T.astype(np.int16))
        least = self._least_left(digits, spare)
        spent, left = np.zeros(len(states)), np.ones(len(states))
        table = self.blocks
        for group, digit, ratio, share in zip(table.group, table.digit, table.rate, table.size, strict=True):
            after = np.where(digits[group] == digit, np.maximum(left * share, least), left)
            spent += (left - after) * ratio
            left = after
        return spent + left * self.layout.problem.last.execution_time

    def _least_left(self, digits: Int16s, spare: Floats) -> Floats:
        """Return the least unclassified share that is possible within the spare time."""
        if np.all(np.isinf(spare)):
            return np.zeros(len(spare))
        rest = np.maximum(spare, 0.0) + _MIN_TIME_SHARE * self.layout.problem.last.execution_time * len(
            self.layout.radix
        )
        log_left = np.zeros(len(spare))
        table = self.slices
        for group, digit, rate, time in zip(table.group, table.digit, table.rate, table.size, strict=True):
            used = np.where(digits[group] == digit, np.minimum(rest, time), 0.0)
            log_left += rate * used
            rest -= used
        return np.asarray(np.exp(log_left))


def build_chain_bound(layout: StateLayout) -> RemainingDuration:
    """Build the lower bound."""
    return _build_tables(layout, _cut_blocks)


def build_single_guess(layout: StateLayout) -> RemainingDuration:
    """Build the heuristic that uses one classifier per group: the one of least cost per success probability."""
    return _build_tables(layout, _best_single)


def _build_tables(layout: StateLayout, cut: Callable[[Floats, Floats], list[_ChainPart]]) -> RemainingDuration:
    problem = layout.problem
    blocks: list[tuple[float, int, int, float]] = []
    slices: list[tuple[float, int, int, float]] = []
    for group, radix in enumerate(layout.radix.tolist()):
        members = np.flatnonzero(problem.groups == group)
        for digit in range(radix - 1):
            done = layout.powers[group, digit]
            later = members[digit:][problem.powers[members[digit:]] > done]
            success = (problem.powers[later] - done) / (1.0 - done)
            blocks += [(c / p, group, digit, 1.0 - p) for c, p in cut(problem.times[later], success)]
            worst = np.maximum(problem.worst[later], _MIN_TIME_SHARE * problem.last.execution_time)
            slices += [(rate, group, digit, time) for rate, time in _cut_slices(worst, success)]
    useful = [block for block in blocks if block[0] < problem.last.execution_time]
    return RemainingDuration(layout, _EntryTable.from_entries(useful), _EntryTable.from_entries(slices))


def _cut_blocks(times: Floats, success: Floats) -> list[_ChainPart]:
    """Cut a chain, members by increasing P, into blocks whose ratio of cost to success never falls."""
    blocks: list[_ChainPart] = []
    for cost, p in _chain_parts(times, success):
        while blocks and blocks[-1][0] * p > cost * blocks[-1][1]:
            before, classified = blocks.pop()
            cost, p = before + (1.0 - classified) * cost, classified + (1.0 - classified) * p
        blocks.append((cost, p))
    return blocks


def _chain_parts(times: Floats, success: Floats) -> list[_ChainPart]:
    """Return the parts of a chain; skip members that cost at least as much as a more powerful one."""
    chain: list[_ChainPart] = []
    paid, done = 0.0, 0.0
    for i, (time, p) in enumerate(zip(times.tolist(), success.tolist(), strict=True)):
        if p > done and not np.any(times[i + 1 :] <= time):
            chain.append((time - paid, (p - done) / (1.0 - done)))
            paid, done = time, p
    return chain


def _best_single(times: Floats, success: Floats) -> list[_ChainPart]:
    pairs = list(zip(times.tolist(), success.tolist(), strict=True))
    return [min(pairs, key=lambda part: part[0] / part[1])] if pairs else []


def _cut_slices(worst: Floats, success: Floats) -> list[tuple[float, float]]:
    """Cut the concave envelope of points (worst-case time, -log(1 - p)) into slices: rate, and time.

    The envelope includes (0, 0).
    """
    slices: list[tuple[float, float]] = []
    time, log_left = 0.0, 0.0
    points = [(w, math.log1p(-min(p, 1 - 1e-15))) for w, p in zip(worst.tolist(), success.tolist(), strict=True)]
    while points:
        rate, w, log_p = min(((g - log_left) / (w - time), w, g) for w, g in points)
        slices.append((rate, w - time))
        time, log_left = w, log_p
        points = [(w, g) for w, g in points if w > time and g < log_left]
    return slices
