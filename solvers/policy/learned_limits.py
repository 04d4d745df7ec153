"""Hard limits per item (budgets and deadlines).

This module selects the limits to learn decisions for, and the learned limit of a request.

At each node, the cost of its sensors at mean prices, their maximum time, and the remaining budget are known. So
decisions for a limit are learned like decisions for a trade-off, backward over the DAG. The difference is that actions
beyond the limit are excluded. A small trade-off breaks ties.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s

RELATIVE_TOLERANCE = 1e-12
"""Relative tolerance of sums of costs, which depend on the order of addition."""
BUDGET_COUNTS, DEADLINE_COUNTS = (7, 14), (6, 10)
"""Number of smallest hard budgets, and of deadlines, that are all learned for, and the maximum number of each."""


def select_limits(sets: Floats, counts: tuple[int, int], best: Int64s) -> Floats:
    """Return the limits to learn for, rising.

    Costs of Pareto-optimal sets are selected first, because a limit just below such a cost loses all of the set's gain.
    Other costs follow, up to the maximum number. If there are too many, the smallest are kept, then others at growing
    distances.

    Args:
        sets: (S,), costs or times.
        counts: number of smallest limits that are always kept, and maximum number of limits.
        best: indices of Pareto-optimal sets.

    >>> select_limits(np.array([0.0, 1.0, 3.0, 4.0]), BUDGET_COUNTS, np.array([3])).tolist()
    [1.0, 3.0, 4.0]
    >>> select_limits(np.arange(7.0), (1, 2), np.array([4])).tolist()
    [1.0, 4.0]
    """
    limits, first = distinct_amounts(sets), _thin_out(distinct_amounts(sets[best]), counts)
    if len(limits) <= counts[1]:
        return limits
    others = np.setdiff1d(_thin_out(limits, counts), first)
    return np.union1d(first, others[: counts[1] - len(first)])


def mean_log_losses(judged: Sequence[Floats], labels: Int32s) -> Floats:
    """Return the mean out-of-fold log-loss of each node's classifier, (S,)."""
    of_truth = (each[np.arange(len(labels)), labels] for each in judged)
    return np.array([-np.log(np.maximum(chances, 1e-12)).mean() for chances in of_truth])


def find_pareto_sets(amounts: Floats, log_losses: Floats) -> Int64s:
    """Return the indices of sets that have a lower loss than all cheaper (or faster) sets.

    amounts: (S,), costs or times.


    >>> find_pareto_sets(np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.7, 0.6, 0.5, 0.55])).tolist()
    [0, 2]
    """
    order = np.lexsort((log_losses, amounts))
    before = np.minimum.accumulate(np.append(np.inf, log_losses[order][:-1]))
    return np.asarray(order[log_losses[order] < before])


def _thin_out(limits: Floats, counts: tuple[int, int]) -> Floats:
    """Keep the smallest of rising limits, then other limits at growing distances."""
    small, most = counts
    if len(limits) <= most:
        return limits
    far = np.geomspace(limits[small - 1], limits[-1], most - small + 1)
    places = np.unique(np.abs(limits[:, None] - far).argmin(axis=0))
    return np.union1d(limits[:small], limits[places])


def distinct_amounts(sets: Floats) -> Floats:
    """Return positive amounts that differ by more than rounding, rising.

    >>> distinct_amounts(np.array([3.0, 0.0, 1.0, 1.0 + 1e-15])).tolist()
    [1.0, 3.0]
    """
    limits = np.unique(sets)
    limits = limits[limits > 0]
    return np.asarray(limits[np.diff(limits, prepend=0.0) > RELATIVE_TOLERANCE * limits])


def exceeds_limits(sets: Floats, limits: Floats | float) -> Bools:
    """Return whether amounts, (A,), exceed limits, (L,): shape (A, L), or (A,) for a single limit.

    >>> exceeds_limits(np.array([1.0, 3.0]), np.array([np.inf, 2.0])).tolist()
    [[False, False], [False, True]]
    """
    columns = sets[:, None] if np.ndim(limits) else sets
    return np.asarray(columns > np.asarray(limits) * (1 + RELATIVE_TOLERANCE))


@dataclass(frozen=True, slots=True, eq=False)
class LearnedLimits:
    """Learned limits, each with a lower error rate than all smaller ones.

    Each limit also serves requests up to the next limit.

    Attributes:
        limits: (G,), rising.
        places: (G,), index of each among all learned limits.
        errors: (G,), error rates, falling.
    """

    limits: Floats
    places: Int64s
    errors: Floats

    @classmethod
    def from_errors(cls, learned: Floats, errors: Floats) -> "LearnedLimits":
        """Select limits by their error rates.

        learned: (P,), all learned limits, rising. errors: (P,).
        """
        better = np.flatnonzero(errors < np.append(np.inf, np.minimum.accumulate(errors))[: len(errors)])
        return cls(learned[better], better, errors[better])

    def find_largest_within(self, limit: float) -> int | None:
        """Return the index of the largest learned limit up to the given limit; None if there is none.

        >>> served = LearnedLimits.from_errors(np.array([1.0, 2.0, 4.0]), np.array([0.3, 0.2, 0.25]))
        >>> [served.find_largest_within(limit) for limit in (0.9, 1.5, 9.0)]
        [None, 0, 1]
        """
        within = int(np.searchsorted(self.limits, limit * (1 + RELATIVE_TOLERANCE), side="right"))
        return within - 1 if within else None

    def effective_limit(self, limit: float) -> float:
        """Return the learned limit that serves a requested limit; the request itself if there is none."""
        place = self.find_largest_within(limit)
        return limit if place is None else min(limit, float(self.limits[place]))
