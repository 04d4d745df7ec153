"""The trade-off curve: which trade-offs are worth having, and how two of them spend a budget, item by item."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from models.arrays import Floats


def lower_hull(costs: Floats, errors: Floats) -> list[int]:
    """Find the points, by rising cost and falling error, below which no mixture of points lies. O(P log P).

    >>> lower_hull(np.array([0.0, 1.0, 2.0, 2.0, 4.0]), np.array([0.5, 0.45, 0.1, 0.2, 0.1]))
    [0, 2]
    """
    hull: list[int] = []
    for i in np.lexsort((errors, costs)).tolist():
        if hull and errors[i] >= errors[hull[-1]]:
            continue
        while len(hull) > 1 and _above(costs, errors, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    return hull


def _above(costs: Floats, errors: Floats, left: int, middle: int, right: int) -> bool:
    """Tell whether the middle point lies on or above the line from the left to the right one."""
    rise = (errors[middle] - errors[left]) * (costs[right] - costs[left])
    return bool(rise >= (errors[right] - errors[left]) * (costs[middle] - costs[left]))


@dataclass(frozen=True, slots=True)
class Mixture:
    """Two points of the curve, and the share of the items that the second, dearer one decides for."""

    first: int
    second: int
    share: float

    @classmethod
    def from_budget(cls, costs: Floats, budget: float) -> "Mixture":
        """Mix the points around a budget so that the mean of their costs, rising, is the budget.

        A budget beyond the last point takes the last one. Raises ValueError if not even the first is within it.

        >>> Mixture.from_budget(np.array([0.0, 2.0, 4.0]), 3.5)
        Mixture(first=1, second=2, share=0.75)
        """
        if budget < costs[0]:
            raise ValueError(f"{budget:g} is below {costs[0]:g}")
        first = int(np.searchsorted(costs, budget, side="right")) - 1
        if first == len(costs) - 1:
            return cls(first, first, 0.0)
        return cls(first, first + 1, float((budget - costs[first]) / (costs[first + 1] - costs[first])))


def tie_break_from_id(item: str) -> float:
    """Draw from 0 to below 1 for an item, by its id alone: equal ids draw alike, everywhere and always.

    >>> tie_break_from_id("a") == tie_break_from_id("a"), tie_break_from_id("a") == tie_break_from_id("b")
    (True, False)
    """
    return int.from_bytes(sha256(item.encode("utf-8", "surrogatepass")).digest()[8:14]) / 2**48
