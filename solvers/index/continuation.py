"""Going on: the best set that can still be reached when some features are computed and part of the budget is spent.

The paper leaves this any-time use to the future. What is computed costs nothing more, so the cheapest set now need not
be one of the candidates, which are chosen by the whole cost of a set. Only a subset surely costs no more, whatever is
computed; so a set never matters only if a subset of it is as accurate (``candidates.never_replaced``).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.index.costs import members_of

NEAR = 1e-9
"""Costs that differ from the budget by less than this share are computed again, as a decision's cost is."""


@dataclass(frozen=True, slots=True, eq=False)
class Continuation:
    """The sets to choose from, the most accurate first, then those of fewer features: masks and accuracies (m,);
    members (m, F): 1 for each feature that a set has, else 0."""

    masks: Int64s
    accuracies: Floats
    members: Floats

    @classmethod
    def of(cls, masks: Int64s, accuracies: Floats, features: int) -> "Continuation":
        """Order the sets, in any order and with repetitions, one that costs nothing among them.

        >>> reachable = Continuation.of(np.array([0, 1, 2, 3]), np.array([0.5, 0.7, 0.9, 0.9]), 2)
        >>> reachable.best(0b01, np.array([4.0, 2.0]), 5.5, None, lambda masks: np.array([0.0, 4.0, 2.0, 6.0])[masks])
        (1, 0.7, 0.0)
        """
        masks, first = np.unique(masks, return_index=True)
        accuracies = accuracies[first]
        order = np.lexsort((masks, np.bitwise_count(masks), -accuracies))
        masks = masks[order]
        return cls(masks, accuracies[order], (masks[:, None] >> np.arange(features) & 1).astype(np.float64))

    def best(
        self,
        computed: int,
        feature_costs: Floats,
        budget: float,
        spent: float | None,
        exact: Callable[[Int64s], Floats],
    ) -> tuple[int, float, float]:
        """Find the most accurate set whose features, with what was spent on those computed, cost at most the budget.

        feature_costs: (F,) of each feature for this item; spent: None for what the computed features were to cost;
        exact: the costs of sets, as decisions round them. Sets of computed features only are always within the budget.
        Among equally accurate sets the one that costs least more. Returns its mask, its accuracy and what is still to
        pay; O(m F) time.
        """
        owed = feature_costs.copy()
        owed[members_of(computed)] = 0.0
        costs = self.members @ owed
        paid = float(feature_costs[members_of(computed)].sum()) if spent is None else spent
        fits = (paid + costs <= budget) | (costs == 0)
        near = np.flatnonzero(np.abs(paid + costs - budget) <= NEAR * budget)
        costs[near] = exact(self.masks[near] & ~computed)
        whole = exact(self.masks[near] | computed) if spent is None else spent + costs[near]
        fits[near] = (whole <= budget) | (costs[near] == 0)
        first = int(np.argmax(fits))  # one that costs nothing fits
        last = int(np.searchsorted(-self.accuracies, -self.accuracies[first], side="right"))
        choice = first + int(np.argmin(np.where(fits[first:last], costs[first:last], np.inf)))
        return int(self.masks[choice]), float(self.accuracies[choice]), float(costs[choice])
