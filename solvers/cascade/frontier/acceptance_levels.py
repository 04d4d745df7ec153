"""Cascades with one acceptance level: an answer is taken if it is as likely right as the level says, whoever gives it.

For a level the rows that a set S of classifiers leaves are known, and with them what it costs to ask k next, how much
of what k then answers is wrong, and how wrong a last classifier is about what is left. So

    V(∅) = 0,   V(S) = min over k in S of  V(S less k) + price · cost of k + error of k, among what S less k leaves

is exact over all subsets and orders (``subset_search``, with an error), and V(S) + price · cost + error of the last
completes it. One level serves all classifiers, so it is learned from few rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int8s
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.groups.pareto import find_undominated
from solvers.cascade.subset_search import group_by_size

LEVEL_COUNT, PRICE_COUNT = 60, 50
Report = Callable[[str], None]
"""Hears what is being done; it raises Cancelled if that is to stop."""
COARSE_STEP = 5
"""Every so many levels and prices the best under every deadline is sought, too."""


def ignore_report(message: str) -> None:
    """Report to nobody."""


def find_candidates(rows: CalibratedRows, prices: Floats, report: Report = ignore_report) -> set[ThresholdCascade]:
    """Find, for each level and price, the best cascade; for some of them also the best under every deadline.
    ``report`` hears how far that is.

    O(L (N n + n² 2^n P)) time for N rows, n classifiers, L levels and P prices, O(n 2^n P) memory.
    """
    every: set[ThresholdCascade] = set()
    maxima = _set_maxima(rows).ravel()
    for at, i, solved in _solve_levels(rows, prices, report):
        ends = [solved.best]
        if at % COARSE_STEP == 0 and i % COARSE_STEP == 0:
            ends += find_undominated(maxima, solved.objective).tolist()
        every |= {solved.cascade(end) for end in ends}
    return every


def find_best_per_price(rows: CalibratedRows, prices: Floats, report: Report = ignore_report) -> list[ThresholdCascade]:
    """Find, for each price, the best cascade over all levels."""
    least = np.full(len(prices), np.inf)
    best = [ThresholdCascade((0,), ())] * len(prices)
    for _, i, solved in _solve_levels(rows, prices, report):
        end = solved.best
        if solved.objective[end] < least[i]:
            least[i], best[i] = solved.objective[end], solved.cascade(end)
    return best


@dataclass(frozen=True, slots=True, eq=False)
class _SolvedProgram:
    """The programme of one level at one price: error + price · cost of each set and last classifier, (2^n n,), and the
    member that is asked last in each set, (2^n,)."""

    objective: Floats
    previous: Int8s
    level: float

    @property
    def best(self) -> int:
        """The place of the least."""
        return int(self.objective.argmin())

    def cascade(self, end: int) -> ThresholdCascade:
        """Read a cascade from its end backwards: its set and its last classifier."""
        rest, last = divmod(end, len(self.objective) // len(self.previous))
        members = [last]
        while rest:
            members.append(int(self.previous[rest]))
            rest ^= 1 << members[-1]
        members.reverse()
        return ThresholdCascade(tuple(members), (self.level,) * (len(members) - 1))


def _solve_levels(rows: CalibratedRows, prices: Floats, report: Report) -> Iterator[tuple[int, int, _SolvedProgram]]:
    """Solve the programme of every level for every price: the places of both, and what comes of it."""
    levels = choose_levels(rows)
    for at, level in enumerate(levels):
        report(f"cascades of {at} of {len(levels)} acceptance levels are tried")
        programme = AcceptanceProgram.from_rows(rows, (rows.chances >= level) & rows.has_confidence)
        value, previous = programme.solve_values(prices)
        for i in range(len(prices)):
            objective = programme.add_last(value[:, i], float(prices[i])).ravel()
            yield at, i, _SolvedProgram(objective, previous[:, i], level)


def choose_levels(rows: CalibratedRows) -> list[float]:
    """Take levels between which the chances lie evenly."""
    chances = rows.chances[:, rows.has_confidence]
    return np.unique(np.quantile(chances, np.linspace(0, 1, LEVEL_COUNT))).tolist() if chances.size else [1.0]


def choose_prices(rows: CalibratedRows, count: int = PRICE_COUNT) -> Floats:
    """Take prices of cost, from one at which nothing is too dear to one at which only the cheapest is bought."""
    means = np.sort(rows.costs.mean(axis=0))
    told_apart = np.concatenate((means, np.diff(means)))
    least = float(told_apart[told_apart > 0].min()) if np.any(told_apart > 0) else 1.0
    return np.geomspace(1e-3 / max(float(means.max()), least), 1 / least, count)


@dataclass(frozen=True, slots=True, eq=False)
class AcceptanceProgram:
    """Means over rows, (n, 2^n) each, of what classifier k does with the rows that all of a set S leave: what it costs,
    how wrong its accepted answers are, and how wrong all of its answers are."""

    cost: Floats
    wrong: Floats
    wrong_as_last: Floats

    @classmethod
    def from_rows(cls, rows: CalibratedRows, accepts: Bools) -> "AcceptanceProgram":
        """Count for all sets at once: rows are sorted by the classifiers that leave them, and summed over supersets."""
        n = accepts.shape[1]
        left_by = (~accepts * (1 << np.arange(n))).sum(axis=1)
        weights = (rows.costs, rows.wrong * accepts, rows.wrong)
        sums = [
            np.stack([np.bincount(left_by, weight[:, k], 1 << n) for k in range(n)]) / len(left_by)
            for weight in weights
        ]
        for each in sums:
            for j in range(n):
                halves = each.reshape(n, -1, 2, 1 << j)
                halves[:, :, 0] += halves[:, :, 1]
        return cls(*sums)

    def solve_values(self, prices: Floats) -> tuple[Floats, Int8s]:
        """V of every set at P prices, (2^n, P), and the member that is asked last."""
        n = len(self.cost)
        value = np.full((1 << n, len(prices)), np.inf)
        value[0] = 0.0
        previous = np.zeros(value.shape, dtype=np.int8)
        for sets in group_by_size(n)[1:]:
            for k in range(n):
                having = sets[(sets >> k) & 1 == 1]
                without = having ^ (1 << k)
                asked = value[without] + self.cost[k, without, None] * prices + self.wrong[k, without, None]
                better = asked < value[having]
                value[having] = np.where(better, asked, value[having])
                previous[having] = np.where(better, k, previous[having])
        return value, previous

    def add_last(self, value: Floats, price: float) -> Floats:
        """Add each classifier as the last, (2^n, n); infinite where it was asked already."""
        whole = value[:, None] + (price * self.cost + self.wrong_as_last).T
        whole[_membership(len(self.cost))] = np.inf
        return np.asarray(whole)


def _membership(n: int) -> Bools:
    """Tell which sets hold which member, (2^n, n)."""
    return np.asarray((np.arange(1 << n)[:, None] >> np.arange(n)) & 1 == 1)


def _set_maxima(rows: CalibratedRows) -> Floats:
    """Add up what a deadline counts, of each set and each last classifier, (2^n, n)."""
    holds = _membership(len(rows.worst))
    return np.asarray((holds @ rows.worst)[:, None] + rows.worst)
