"""Which of the decisions that were learned serve a limit that none was learned for: those that err least there.

Hard budgets and deadlines are learned for at a few limits. Between two of them the decisions for the smaller one keep
the limit, and those for a larger one may do better, or far worse, once what they would lead to is barred. So rows walk
by them at every limit at which one more set can be had, each decided for by the member that had not seen it, and what
errs least serves the limit. It is said to err as often as where the other parts of the rows chose it, and never more
often than at a smaller limit: what chance makes rise is levelled out (isotonic regression).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from models.arrays import Floats, Int16s, Int32s, Int64s
from solvers.policy.graph import Graph
from solvers.policy.hard_budgets import ROUNDING, apart, beyond
from solvers.policy.regression import least
from solvers.policy.rollout import walk

MOST_LIMITS = 64
"""Limits that are looked at, at most; of more, some that are ever farther apart."""
LARGER = 2
"""So many limits learned for above each are looked at."""
MOST_ROWS = 4_000
"""Rows that walk, spread over all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class ServedLimits:
    """limits: (G,) rising; places: (G,) of the limit learned for whose decisions serve each; errors: (G,) the share of
    items that these classify wrongly; best: (G,) the place of the least error up to each limit, of equals the last."""

    limits: Floats
    places: Int32s
    errors: Floats
    best: Int64s

    @classmethod
    def of(cls, learned: Floats, said: Floats, limits: Floats, places: Int32s, errors: Floats) -> "ServedLimits":
        """Read them of a plan; an older one has none, and those learned for, with the errors said, serve themselves."""
        if not len(limits):
            limits, places, errors = learned, np.arange(len(learned), dtype=np.int32), said
        best = np.arange(len(limits))
        for at in range(1, len(limits)):
            best[at] = at if errors[at] <= errors[best[at - 1]] else best[at - 1]
        return cls(limits, places, errors, best)

    def within(self, limit: float) -> int | None:
        """Find which limit up to this one is to be served: that of the fewest errors; None where there is none.

        >>> served = ServedLimits.of(np.array([1.0, 2.0, 4.0]), np.array([0.3, 0.2, 0.25]), *[np.empty(0)] * 3)
        >>> served.within(0.9), served.within(1.5), served.within(9.0)
        (None, 0, 1)
        """
        within = int(np.searchsorted(self.limits, limit * (1 + ROUNDING), side="right"))
        return int(self.best[within - 1]) if within else None


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Rows that judge what was learned. graph: what is kept of it; advantages: for each node (n, A, P) of its actions
    under the P limits learned for, of the member that had not seen the row; observed: (S, n) losses of stopping; folds:
    (n,)."""

    graph: Graph
    advantages: Sequence[Floats]
    observed: Floats
    folds: Int64s

    def errors(self, amounts: Floats, limit: float, place: int) -> Floats:
        """Walk within a limit by what was learned for the one at a place, amounts (S,) what sets use of it: (n,)."""
        walks = walk(self.graph, len(self.folds), partial(self._choose, amounts, limit, place))
        return np.asarray(self.observed[walks.ends, np.arange(len(self.folds))])

    def _choose(self, amounts: Floats, limit: float, place: int, node: int, rows: Int64s) -> Int16s:
        barred = beyond(amounts[self.graph.actions_of(node)], limit)
        return least(np.where(barred, np.inf, self.advantages[node][rows, :, place]))


def serve(judged: Judged, amounts: Floats, learned: Floats, met: Floats, first: int) -> ServedLimits:
    """Choose what serves each limit. amounts: (S,) what sets use; learned: (P',) rising, the limits learned for, the
    first of them at this place; met: (P', n) whether rows err under these, where others chose all that was chosen.
    O(G S n) for G limits."""
    from scipy.optimize import isotonic_regression  # here, so that a server starts without it

    limits = apart(np.concatenate([amounts[amounts >= learned[0]], learned]))
    if len(limits) > MOST_LIMITS:
        far = np.geomspace(limits[0], limits[-1], MOST_LIMITS - len(learned))
        limits = np.union1d(learned, limits[np.unique(np.abs(limits[:, None] - far).argmin(axis=0))])
    places, errors = [], []
    for limit in limits.tolist():
        below = int(np.searchsorted(learned, limit * (1 + ROUNDING), side="right")) - 1
        larger = range(below + 1, min(below + 1 + LARGER, len(learned)))
        tried = np.array([met[below], *(judged.errors(amounts, limit, first + at) for at in larger)])
        places.append(below + int(tried.mean(axis=1).argmin()))
        errors.append(float(_chosen_elsewhere(tried, judged.folds).mean()))
    level = np.clip(isotonic_regression(errors, increasing=False).x, 0.0, 1.0)
    return ServedLimits.of(learned, met.mean(axis=1), limits, np.array(places, dtype=np.int32), level)


def _chosen_elsewhere(tried: Floats, folds: Int64s) -> Floats:
    """Tell what each part of the rows met, tried (T, n), where the others chose which is tried: (n,).

    >>> _chosen_elsewhere(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), np.array([0, 0, 1, 1])).tolist()
    [1.0, 1.0, 0.0, 1.0]
    """
    met = np.empty(tried.shape[1])
    for fold in np.unique(folds).tolist():
        met[folds == fold] = tried[tried[:, folds != fold].mean(axis=1).argmin()][folds == fold]
    return met
