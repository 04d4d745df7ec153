"""Lower convex hull of cost and error, and random mixtures of two of its points.

A mixture of two points spends a budget exactly.
"""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from models.arrays import Floats


def lower_hull(costs: Floats, errors: Floats) -> list[int]:
    """Return the indices of the lower convex hull, by rising cost. O(P log P).

    >>> lower_hull(np.array([0.0, 1.0, 2.0, 2.0, 4.0]), np.array([0.5, 0.45, 0.1, 0.2, 0.1]))
    [0, 2]
    """
    hull: list[int] = []
    for i in np.lexsort((errors, costs)).tolist():
        if hull and errors[i] >= errors[hull[-1]]:
            continue
        while len(hull) > 1 and _is_above(costs, errors, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    return hull


def _is_above(costs: Floats, errors: Floats, left: int, middle: int, right: int) -> bool:
    """Return whether the middle point lies on or above the line from left to right."""
    rise = (errors[middle] - errors[left]) * (costs[right] - costs[left])
    return bool(rise >= (errors[right] - errors[left]) * (costs[middle] - costs[left]))


@dataclass(frozen=True, slots=True)
class Mixture:
    """Two points of the curve, and the share of items that use the second, more expensive point."""

    first: int
    second: int
    share: float

    @classmethod
    def from_budget(cls, costs: Floats, budget: float) -> "Mixture":
        """Mix the two points around a budget so that their mean cost equals the budget.

        Costs must rise. A budget above the last point's cost selects the last point. Raises ValueError for a budget
        below the first point's cost.

        >>> Mixture.from_budget(np.array([0.0, 2.0, 4.0]), 3.5)
        Mixture(first=1, second=2, share=0.75)
        """
        if budget < costs[0]:
            raise ValueError(f"budget must be at least {costs[0]:g}, got {budget:g}")
        first = int(np.searchsorted(costs, budget, side="right")) - 1
        if first == len(costs) - 1:
            return cls(first, first, 0.0)
        return cls(first, first + 1, float((budget - costs[first]) / (costs[first + 1] - costs[first])))


def tie_break_from_id(item: str) -> float:
    """Return a deterministic random tie-break in [0, 1) from an item's id.

    >>> tie_break_from_id("a") == tie_break_from_id("a"), tie_break_from_id("a") == tie_break_from_id("b")
    (True, False)
    """
    return int.from_bytes(sha256(item.encode("utf-8", "surrogatepass")).digest()[8:14]) / 2**48
