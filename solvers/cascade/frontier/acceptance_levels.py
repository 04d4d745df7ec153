"""Cascades with one acceptance level: accept an answer if its calibrated confidence reaches the level.

At a given level, the rows that a set S of classifiers leaves unanswered do not depend on the order of calls. The cost
of calling classifier k on these rows, the error of k's accepted answers, and the error of a last classifier do not
depend on it either. So the recurrence

    V(∅) = 0,   V(S) = min over k in S of  V(S less k) + price · cost of k + error of k, among rows that S less k leaves
    unanswered

finds the optimum over all subsets and orders (as in ``subset_search``, with an additional error). The objective of a
cascade is V(S) plus price · cost and the error of its last classifier. All classifiers share the level, so few rows
suffice to learn it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from models.arrays import Bools, Floats, Int8s, Int64s
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.groups.pareto import find_undominated
from solvers.cascade.subset_search import group_by_size, mark_members

LEVEL_COUNT, PRICE_COUNT = 60, 50
"""Number of levels, and of prices."""
Report = Callable[[str], None]
"""Receives progress messages; raises Cancelled to stop."""
COARSE_STEP = 5
"""At every so many levels and prices the best cascade within every deadline is searched, too."""


def ignore_report(message: str) -> None:
    """Discard progress messages."""


def find_candidates(rows: CalibratedRows, prices: Floats, report: Report = ignore_report) -> set[ThresholdCascade]:
    """Return the best cascade for each level and price.

    For some levels and prices, also return the best cascade within every deadline.

    Complexity: O(L (N n + n^2 2^n P)) time for N rows, n classifiers, L levels, and P prices; O(n 2^n P) memory.
    """
    every: set[ThresholdCascade] = set()
    maxima = _set_maxima(rows).ravel()
    for at, i, solved in _solve_levels(rows, prices, report):
        ends = [solved.best]
        if at % COARSE_STEP == 0 and i % COARSE_STEP == 0:
            ends += find_undominated(maxima, solved.objective).tolist()
        every |= {solved.trace_cascade(end) for end in ends}
    return every


def find_best_per_price(rows: CalibratedRows, prices: Floats, report: Report = ignore_report) -> list[ThresholdCascade]:
    """Return the best cascade over all levels for each price."""
    least = np.full(len(prices), np.inf)
    best = [ThresholdCascade((0,), ())] * len(prices)
    for _, i, solved in _solve_levels(rows, prices, report):
        end = solved.best
        if solved.objective[end] < least[i]:
            least[i], best[i] = solved.objective[end], solved.trace_cascade(end)
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _SolvedProgram:
    """Solution for one level and price.

    objective: (2^n n,), error + price · cost of each set and last classifier; previous: (2^n,), the member called last.
    """

    objective: Floats
    previous: Int8s
    level: float

    @property
    def best(self) -> int:
        """Index of the least objective."""
        return int(self.objective.argmin())

    def trace_cascade(self, end: int) -> ThresholdCascade:
        """Return the set and the last classifier of the cascade that ends at an index."""
        rest, last = divmod(end, len(self.objective) // len(self.previous))
        members = [last]
        while rest:
            members.append(int(self.previous[rest]))
            rest ^= 1 << members[-1]
        members.reverse()
        return ThresholdCascade(tuple(members), (self.level,) * (len(members) - 1))


def _solve_levels(rows: CalibratedRows, prices: Floats, report: Report) -> Iterator[tuple[int, int, _SolvedProgram]]:
    """Yield the indices of every level and price, with the solved program."""
    levels = choose_levels(rows)
    for at, level in enumerate(levels):
        report(f"acceptance levels: {at} of {len(levels)} done")
        program = AcceptanceProgram.from_rows(rows, (rows.confidences >= level) & rows.has_confidence)
        value, previous = program.solve_values(prices)
        for i in range(len(prices)):
            objective = program.add_last(value[:, i], float(prices[i])).ravel()
            yield at, i, _SolvedProgram(objective, previous[:, i], level)


def choose_levels(rows: CalibratedRows) -> list[float]:
    """Return levels at evenly spaced quantiles of calibrated confidences."""
    confidences = rows.confidences[:, rows.has_confidence]
    return np.unique(np.quantile(confidences, np.linspace(0, 1, LEVEL_COUNT))).tolist() if confidences.size else [1.0]


def choose_prices(rows: CalibratedRows, count: int = PRICE_COUNT) -> Floats:
    """Return prices (errors per unit of cost), rising.

    The first price allows every classifier, the last only the cheapest.
    """
    means = np.sort(rows.costs.mean(axis=0))
    differences = np.concatenate((means, np.diff(means)))
    least = float(differences[differences > 0].min()) if np.any(differences > 0) else 1.0
    return np.geomspace(1e-3 / max(float(means.max()), least), 1 / least, count)


@dataclass(frozen=True, slots=True, eq=False)
class AcceptanceProgram:
    """Mean costs and errors, (n, 2^n), of each classifier k after each set S of classifiers.

    Entry (k, S) is a mean over all rows, but only rows that every member of S leaves unanswered contribute.


    Attributes:
        cost: cost of calling k; members of S have set up their groups.
        wrong: error of k's accepted answers.
        wrong_as_last: error of all answers of k, as the last classifier.
    """

    cost: Floats
    wrong: Floats
    wrong_as_last: Floats

    @classmethod
    def from_rows(cls, rows: CalibratedRows, accepts: Bools) -> "AcceptanceProgram":
        """Compute the means of all sets at once.

        Bins rows by the set of classifiers that leave them unanswered, then sums the bins over supersets.
        """
        n = accepts.shape[1]
        left_by = (~accepts * (1 << np.arange(n))).sum(axis=1)
        cost, wrong, wrong_as_last = (
            _sum_over_sets(left_by, weight, n) for weight in (rows.costs, rows.wrong * accepts, rows.wrong)
        )
        for group, shared in zip(rows.setup.groups.members, rows.setup.costs.T, strict=True):
            is_set_up = (_membership(n) & group).any(axis=1)
            cost[group] -= is_set_up * _sum_over_sets(left_by, shared[:, None], n)
        return cls(cost, wrong, wrong_as_last)

    def solve_values(self, prices: Floats) -> tuple[Floats, Int8s]:
        """Return the least objective of every set of called classifiers at P prices, (2^n, P), and the last one called.

        The minimum is over the orders of calls.
        """
        n = len(self.cost)
        value = np.full((1 << n, len(prices)), np.inf)
        value[0] = 0.0
        previous = np.zeros(value.shape, dtype=np.int8)
        for sets in group_by_size(n)[1:]:
            for k in range(n):
                having = sets[(sets >> k) & 1 == 1]
                without = having ^ (1 << k)
                candidate = value[without] + self.cost[k, without, None] * prices + self.wrong[k, without, None]
                better = candidate < value[having]
                value[having] = np.where(better, candidate, value[having])
                previous[having] = np.where(better, k, previous[having])
        return value, previous

    def add_last(self, value: Floats, price: float) -> Floats:
        """Return the objective of each set with each last classifier: (2^n, n).

        It is infinite if the set contains the last classifier.
        """
        whole = value[:, None] + (price * self.cost + self.wrong_as_last).T
        whole[_membership(len(self.cost))] = np.inf
        return np.asarray(whole)


def _sum_over_sets(left_by: Int64s, weights: Floats, n: int) -> Floats:
    """Return the means of weights, (N, w), over the rows that each set leaves unanswered: (w, 2^n)."""
    sums = np.stack([np.bincount(left_by, weight, 1 << n) for weight in weights.T]) / len(left_by)
    for j in range(n):
        halves = sums.reshape(len(sums), -1, 2, 1 << j)
        halves[:, :, 0] += halves[:, :, 1]
    return np.asarray(sums)


@cache
def _membership(n: int) -> Bools:
    """Return which sets contain which classifier, (2^n, n)."""
    return mark_members(np.arange(1 << n), n)


def _set_maxima(rows: CalibratedRows) -> Floats:
    """Return the worst-case time of each set and each last classifier, (2^n, n)."""
    holds = _membership(len(rows.worst))
    alone = (holds @ rows.worst)[:, None] + rows.worst
    if not len(rows.setup):
        return np.asarray(alone)
    return alone - rows.setup.sum_saved_worst(holds[:, None] | np.eye(len(rows.worst), dtype=bool))
