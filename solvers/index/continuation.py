"""Any-time prediction: the best feature set after some features were computed and part of the budget was spent.

The paper leaves any-time prediction to future work. Candidates are chosen by their total cost. But computed features
have no further cost, so the best reachable set is not always a candidate. Whatever was computed, only a subset of a set
is certain not to cost more. So a set is dropped only if one of its subsets is as accurate
(``candidates.choose_any_time_sets``).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.setup_groups import NO_GROUPS, SetupGroups

RECOMPUTE_SHARE = 1e-9
"""Costs within this share of the budget are recomputed in the rounding of decisions."""


@dataclass(frozen=True, slots=True, eq=False)
class ReachableSets:
    """Sets to choose from, by falling accuracy, then by fewer features.

    Attributes:
        masks: (m,).
        accuracies: (m,).
        members: (m, F + G), 1 for each feature of a set, and for each set-up group that it touches, else 0.
        groups: the features of each group.
    """

    masks: Int64s
    accuracies: Floats
    members: Floats
    groups: SetupGroups = NO_GROUPS

    @classmethod
    def from_sets(
        cls, masks: Int64s, accuracies: Floats, features: int, groups: SetupGroups = NO_GROUPS
    ) -> "ReachableSets":
        """Sort sets, which may be in any order and repeated; one set must be free.

        >>> reachable = ReachableSets.from_sets(np.array([0, 1, 2, 3]), np.array([0.5, 0.7, 0.9, 0.9]), 2)
        >>> costs = np.array([0.0, 4.0, 2.0, 6.0])
        >>> reachable.find_best(0b01, np.array([4.0, 2.0]), 5.5, None, lambda masks, known: costs[masks & ~known])
        (1, 0.7, 0.0)
        """
        masks, first = np.unique(masks, return_index=True)
        accuracies = accuracies[first]
        order = np.lexsort((masks, np.bitwise_count(masks), -accuracies))
        masks = masks[order]
        members = groups.append_groups((masks[:, None] >> np.arange(features) & 1).astype(np.bool_))
        return cls(masks, accuracies[order], members.astype(np.float64), groups)

    def find_best(
        self,
        computed: int,
        feature_costs: Floats,
        budget: float,
        spent: float | None,
        exact: Callable[[Int64s, int], Floats],
    ) -> tuple[int, float, float]:
        """Return mask, accuracy, and remaining cost of the most accurate set that fits the budget.

        Sets of only computed features always fit. Ties go to the least remaining cost.

        Args:
            computed: mask of the computed features.
            feature_costs: (F + G,), cost of each feature, and of each set-up group, for this item.
            spent: cost of the computed features; None: by ``feature_costs``.
            exact: returns costs of sets, rounded as in decisions, after the features of a mask.
        Complexity: O(m (F + G)).
        """
        known = (computed >> np.arange(self.members.shape[1] - len(self.groups)) & 1).astype(np.bool_)
        settled = np.flatnonzero(self.groups.append_groups(known))
        owed = feature_costs.copy()
        owed[settled] = 0.0
        costs = self.members @ owed
        paid = float(feature_costs[settled].sum()) if spent is None else spent
        fits = (paid + costs <= budget) | (costs == 0)
        near = np.flatnonzero(np.abs(paid + costs - budget) <= RECOMPUTE_SHARE * budget)
        costs[near] = exact(self.masks[near], computed)
        whole = exact(self.masks[near] | computed, 0) if spent is None else spent + costs[near]
        fits[near] = (whole <= budget) | (costs[near] == 0)
        first = int(np.argmax(fits))  # a free set fits
        last = int(np.searchsorted(-self.accuracies, -self.accuracies[first], side="right"))
        choice = first + int(np.argmin(np.where(fits[first:last], costs[first:last], np.inf)))
        return int(self.masks[choice]), float(self.accuracies[choice]), float(costs[choice])
