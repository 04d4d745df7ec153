"""Cross-fitting of the frontier: outcomes of each operating point on rows that it was not fitted to.

The frontier of the plan is fitted to all rows. To measure it, a fold frontier is fitted without each fold in turn. Each
point of the plan is represented by a mixture of the fold frontier. The mixture has the point's mean cost and keeps the
point's maximum duration. It decides for the rows of the fold. If the fold frontier ends below the point's cost, the
point itself determines the costs. Single classifiers need no cross-fitting, because they are not fitted.

Source: Stone, *Cross-validatory choice and assessment of statistical predictions*, 1974.
"""

from dataclasses import dataclass, field

import numpy as np

from models.arrays import Floats, Int64s
from solvers.budget_mixture import Mixture, lower_hull
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade


@dataclass(frozen=True, slots=True, eq=False)
class PointOutcomes:
    """Outcomes of p points on the n measured rows.

    Attributes:
        rows: (n,), row indices in the trace, rising.
        right: (p, n), expected quality of each row's answer.
        costs: (p, n), expected cost.
    """

    rows: Int64s
    right: Floats
    costs: Floats


@dataclass(frozen=True, slots=True, eq=False)
class LearnedFrontier:
    """Cascades with raw thresholds fitted to some rows, and their results on these rows.

    Attributes:
        costs: (p,), mean cost.
        errors: (p,), penalized mean error.
        maxima: (p,), maximum duration.
    """

    cascades: tuple[ThresholdCascade, ...]
    costs: Floats
    errors: Floats
    maxima: Floats
    _hulls: dict[float, Int64s] = field(default_factory=dict)

    def find_mixture(self, cost: float, longest: float) -> tuple[int, int, float]:
        """Return two cascades and the share of the second, so that the mean cost is as given.

        Both cascades keep a maximum duration.

        If even the cheapest cascade costs more, it is returned alone.
        """
        hull = self._hulls.get(longest)
        if hull is None:
            within = np.flatnonzero(self.maxima <= longest)
            hull = within[lower_hull(self.costs[within], self.errors[within])]
            self._hulls[longest] = hull
        chosen = Mixture.from_budget(self.costs[hull], max(cost, float(self.costs[hull[0]])))
        return int(hull[chosen.first]), int(hull[chosen.second]), chosen.share


def cross_fit_points(
    plan: LearnedFrontier, folds: list[tuple[LearnedFrontier, CalibratedRows, Int64s]]
) -> PointOutcomes:
    """Return the outcomes of the plan's points on the rows of all folds.

    Args:
        folds: for each fold, the frontier fitted to the other rows, the rows of the fold, and their indices.
    Complexity: O(p n), and O(n) per call of a learned cascade.
    """
    parts = [_replay_fold(plan, learned, rows) for learned, rows, _ in folds]
    every = np.concatenate([where for _, _, where in folds])
    order = np.argsort(every, kind="stable")
    right, costs = (np.concatenate([part[k] for part in parts], axis=1)[:, order] for k in range(2))
    return PointOutcomes(every[order], right, costs)


def _replay_fold(plan: LearnedFrontier, learned: LearnedFrontier, rows: CalibratedRows) -> tuple[Floats, Floats]:
    """Return expected qualities and costs, (p, n) each, of the rows of a fold."""
    outcomes = dict[int, tuple[Floats, Floats]]()

    def replay(place: int) -> tuple[Floats, Floats]:
        if place not in outcomes:
            cost, wrong, _ = rows.replay_rows(learned.cascades[place])
            outcomes[place] = 1 - wrong, cost
        return outcomes[place]

    right, costs = (np.empty((len(plan.costs), len(rows.wrong))) for _ in range(2))
    for point, (cost, longest) in enumerate(zip(plan.costs.tolist(), plan.maxima.tolist(), strict=True)):
        if len(plan.cascades[point].members) == 1:
            paid, wrong, _ = rows.replay_rows(plan.cascades[point])
            right[point], costs[point] = 1 - wrong, paid
            continue
        first, second, share = learned.find_mixture(cost, longest)
        for mixed, one, other in zip((right, costs), replay(first), replay(second), strict=True):
            mixed[point] = one + share * (other - one)
        if cost > learned.costs[second]:
            costs[point] = rows.replay_rows(plan.cascades[point])[0]
    return right, costs
