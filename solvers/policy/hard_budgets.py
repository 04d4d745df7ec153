"""Limits that no item exceeds, hard budgets and deadlines: which are learned for, and what they bar.

What a set of sensors costs at average prices, and how long it takes at most, is known at its node, and with it what is
left of a limit. So decisions for one are learned as those for a trade-off are, backwards over the DAG, where actions
that lead to a set beyond the limit are barred; a small trade-off decides among what is as good.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s

RELATIVE_TOLERANCE = 1e-12
"""Costs that were added up in another order may differ by so much of themselves."""
BUDGET_COUNTS, DEADLINE_COUNTS = (7, 14), (6, 10)
"""The smallest hard budgets, and deadlines, are learned for one by one, and at most so many of all."""


def select_limits(sets: Floats, counts: tuple[int, int], best: Int64s) -> Floats:
    """List limits to learn for, rising: first what the best sets cost, for a limit just below one of these loses all
    that it tells; as far as there is room what others cost. Of too many the cheapest, then such ever farther apart.
    sets: (S,) costs, or times; best: the places of those that lose less than all that cost less.

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
    """Tell the mean logarithmic loss of nodes' classifiers, by members that had not seen the rows: (S,)."""
    of_truth = (each[np.arange(len(labels)), labels] for each in judged)
    return np.array([-np.log(np.maximum(chances, 1e-12)).mean() for chances in of_truth])


def find_pareto_sets(amounts: Floats, log_losses: Floats) -> Int64s:
    """Find the sets that lose less than all that cost less, or take less long, amounts (S,): their places.

    >>> find_pareto_sets(np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.7, 0.6, 0.5, 0.55])).tolist()
    [0, 2]
    """
    order = np.lexsort((log_losses, amounts))
    before = np.minimum.accumulate(np.append(np.inf, log_losses[order][:-1]))
    return np.asarray(order[log_losses[order] < before])


def _thin_out(limits: Floats, counts: tuple[int, int]) -> Floats:
    """Keep the cheapest of rising limits, then such ever farther apart."""
    small, most = counts
    if len(limits) <= most:
        return limits
    far = np.geomspace(limits[small - 1], limits[-1], most - small + 1)
    places = np.unique(np.abs(limits[:, None] - far).argmin(axis=0))
    return np.union1d(limits[:small], limits[places])


def distinct_amounts(sets: Floats) -> Floats:
    """List what differs by more than rounding, rising, without 0.

    >>> distinct_amounts(np.array([3.0, 0.0, 1.0, 1.0 + 1e-15])).tolist()
    [1.0, 3.0]
    """
    limits = np.unique(sets)
    limits = limits[limits > 0]
    return np.asarray(limits[np.diff(limits, prepend=0.0) > RELATIVE_TOLERANCE * limits])


def exceeds_limits(sets: Floats, limits: Floats | float) -> Bools:
    """Tell which sets, (A,), are beyond which limits, (L,): (A, L); or beyond a single one, (A,).

    >>> exceeds_limits(np.array([1.0, 3.0]), np.array([np.inf, 2.0])).tolist()
    [[False, False], [False, True]]
    """
    columns = sets[:, None] if np.ndim(limits) else sets
    return np.asarray(columns > np.asarray(limits) * (1 + RELATIVE_TOLERANCE))


@dataclass(frozen=True, slots=True, eq=False)
class LearnedLimits:
    """Limits whose decisions serve, up to the next one: those that err less than all smaller ones. limits: (G,) rising;
    places: (G,) of each among all that were learned for; errors: (G,) the share of items that is classified wrongly,
    falling."""

    limits: Floats
    places: Int64s
    errors: Floats

    @classmethod
    def from_errors(cls, learned: Floats, errors: Floats) -> "LearnedLimits":
        """Choose them of all learned for, (P,) rising, by their errors, (P,)."""
        better = np.flatnonzero(errors < np.append(np.inf, np.minimum.accumulate(errors))[: len(errors)])
        return cls(learned[better], better, errors[better])

    def find_largest_within(self, limit: float) -> int | None:
        """Find the last of them up to a limit; None where there is none.

        >>> served = LearnedLimits.from_errors(np.array([1.0, 2.0, 4.0]), np.array([0.3, 0.2, 0.25]))
        >>> served.within(0.9), served.within(1.5), served.within(9.0)
        (None, 0, 1)
        """
        within = int(np.searchsorted(self.limits, limit * (1 + RELATIVE_TOLERANCE), side="right"))
        return within - 1 if within else None

    def effective_limit(self, limit: float) -> float:
        """Give the limit that is kept where one is asked for: the one that serves it, or itself where none does."""
        place = self.find_largest_within(limit)
        return limit if place is None else min(limit, float(self.limits[place]))
