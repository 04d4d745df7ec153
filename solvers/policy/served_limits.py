"""Which of the decisions that were learned serve a limit that none was learned for: those that err least there.

Hard budgets and deadlines are learned for at a few limits. Between two of them the decisions for the smaller one keep
the limit, and those for a larger one may do better, or far worse, once what they would lead to is barred. So rows walk
by them at every limit at which one more set can be had, each decided for by the member that had not seen it, and what
errs least serves the limit, unless a smaller one serves it better, by a standard error. It is said to err as often as
what was learned for the smaller one, less what is gained where the other parts of the rows chose it, and never more
often than at a smaller limit: what chance makes rise is levelled out (isotonic regression).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from models.arrays import Floats, Int16s, Int32s, Int64s, Singles
from solvers.policy.graph import Graph
from solvers.policy.hard_budgets import ROUNDING, beyond, distinct
from solvers.policy.regression import least
from solvers.policy.rollout import walk
from solvers.statistics import standard_error_of_mean

MOST_LIMITS = 64
"""Limits that are looked at, at most; of more, some that are ever farther apart."""
LARGER = 2
"""So many limits learned for above each are looked at."""
TIED = 1e-9
"""Of a standard error, what rounding in another order of rows may make of it."""
MOST_ROWS = 4_000
"""Rows that walk, spread over all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedLimits:
    """limits: (G,) rising; places: (G,) of the limit learned for whose decisions serve each, and what lies before the
    next; errors: (G,) the share of items that these classify wrongly, falling."""

    limits: Floats
    places: Int32s
    errors: Floats

    @classmethod
    def of(cls, learned: Floats, said: Floats, limits: Floats, places: Int32s, errors: Floats) -> "ServedLimits":
        """Read them of a plan. An older one has none: those learned for serve themselves, where by the errors said of
        them no smaller one does as well."""
        if len(limits):
            return cls(limits, places, errors)
        better = np.flatnonzero(said < np.append(np.inf, np.minimum.accumulate(said))[: len(said)])
        return cls(learned[better], better.astype(np.int32), said[better])

    def within(self, limit: float) -> int | None:
        """Find which limit up to this one is served; None where there is none.

        >>> served = ServedLimits.of(np.array([1.0, 2.0, 4.0]), np.array([0.3, 0.2, 0.25]), *[np.empty(0)] * 3)
        >>> served.within(0.9), served.within(1.5), served.within(9.0)
        (None, 0, 1)
        """
        within = int(np.searchsorted(self.limits, limit * (1 + ROUNDING), side="right"))
        return within - 1 if within else None

    def keeping(self, limit: float) -> float:
        """Give the limit that is kept where one is asked for: the one that is served, or itself where none is."""
        place = self.within(limit)
        return limit if place is None else min(limit, float(self.limits[place]))


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Rows that judge what was learned. graph: what is kept of it; advantages: for each node (n, A, P) of its actions
    under the P limits learned for, of the member that had not seen the row; observed: (S, n) losses of stopping; folds:
    (n,); items: (n,) equal for rows of one item; None: no item repeats."""

    graph: Graph
    advantages: Sequence[Singles]
    observed: Floats
    folds: Int64s
    items: Int64s | None = None

    def errors(self, amounts: Floats, limit: float, place: int) -> Floats:
        """Walk within a limit by what was learned for the one at a place, amounts (S,) what sets use of it: (n,)."""
        walks = walk(self.graph, len(self.folds), partial(self._choose, amounts, limit, place))
        return np.asarray(self.observed[walks.ends, np.arange(len(self.folds))])

    def _choose(self, amounts: Floats, limit: float, place: int, node: int, rows: Int64s) -> Int16s:
        barred = beyond(amounts[self.graph.actions_of(node)], limit)
        return least(np.where(barred, np.inf, self.advantages[node][rows, :, place]))


def serve(judged: Judged, amounts: Floats, learned: Floats, said: Floats, first: int) -> ServedLimits:
    """Choose what serves each limit. amounts: (S,) what sets use; learned: (P',) rising, the limits learned for, the
    first of them at this place; said: (P',) the errors said of these. A limit is left out, so that a smaller one serves
    it, where that errs less by a standard error of the difference. O(G S n) for G limits."""
    from scipy.optimize import isotonic_regression  # here, so that a server starts without it

    own = [judged.errors(amounts, limit, first + place) for place, limit in enumerate(learned.tolist())]
    entries, before = list[tuple[float, int, float]](), np.empty(0)
    for limit in _limits_of(amounts, learned):
        below = int(np.searchsorted(learned, limit * (1 + ROUNDING), side="right")) - 1
        larger = range(below + 1, min(below + 1 + LARGER, len(learned)))
        tried = np.array([own[below], *(judged.errors(amounts, limit, first + place) for place in larger)])
        best = int(tried.mean(axis=1).argmin())
        if entries and _is_surely_more(tried[best], before, judged.items):
            continue
        before = tried[best]
        gained = float(own[below].mean() - _chosen_elsewhere(tried, judged.folds).mean())
        entries.append((limit, below + best, float(said[below]) - gained))
    limits, places, errors = (np.array(each) for each in zip(*entries, strict=True))
    level = np.clip(isotonic_regression(errors, increasing=False).x, 0.0, 1.0)
    return ServedLimits(limits, places.astype(np.int32), level)


def _limits_of(amounts: Floats, learned: Floats) -> list[float]:
    """List the limits at which one more set can be had, from the first learned for on, and those learned for."""
    limits = distinct(np.concatenate([amounts[amounts >= learned[0]], learned]))
    if len(limits) > MOST_LIMITS:
        far = np.geomspace(limits[0], limits[-1], MOST_LIMITS - len(learned))
        limits = np.union1d(learned, limits[np.unique(np.abs(limits[:, None] - far).argmin(axis=0))])
    return [float(each) for each in limits]


def _is_surely_more(errors: Floats, others: Floats, items: Int64s | None) -> bool:
    """Tell whether rows err more often than under others, (n,) each, by a standard error of the difference."""
    more = errors - others
    return bool(more.mean() > standard_error_of_mean(more, items) * (1 + TIED))


def _chosen_elsewhere(tried: Floats, folds: Int64s) -> Floats:
    """Tell what each part of the rows met, tried (T, n), where the others chose which is tried: (n,).

    >>> _chosen_elsewhere(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), np.array([0, 0, 1, 1])).tolist()
    [1.0, 1.0, 0.0, 1.0]
    """
    met = np.empty(tried.shape[1])
    for fold in np.unique(folds).tolist():
        met[folds == fold] = tried[tried[:, folds != fold].mean(axis=1).argmin()][folds == fold]
    return met
