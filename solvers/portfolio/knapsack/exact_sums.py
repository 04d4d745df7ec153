"""Costs that are added up without rounding: each as the sum of two floats, high and low.

Highs are multiples of a power of two that is so large that no sum of them rounds; lows are what is left. Sums of lows
do not round either unless costs differ by more than about 2^53 / n² for n of them, and then by 2^-100 of a cost or so.
Whether an assignment is within the budget is decided by the last bit, and what two ways to reach one sum of costs lead
to must not depend on the order of additions.
"""

import math
from collections.abc import Iterable

import numpy as np

from models.arrays import Floats


def compute_room(budget: float, costs: Iterable[float]) -> tuple[float, float]:
    """Give what is left of a budget as a float and what that is off by: exact to 106 bits.

    Counts the half of a last digit by which costs can exceed the budget and still be rounded to it.

    >>> compute_room(1.0, [0.1] * 10)[0] >= 0, compute_room(0.9, [0.1] * 10)[0] >= 0
    (True, False)
    """
    terms = [budget, math.ulp(budget) / 2, *(-cost for cost in costs)]
    first = math.fsum(terms)
    return first, math.fsum([*terms, -first])


def compute_shortfall(budget: float) -> float:
    """Give what must be taken from any room, so that costs are within the budget if it is not negative then.

    Costs exactly half way between two floats are rounded to the even one. If that is not the budget, a room of 0 is not
    enough, and the least there is makes it negative without changing any other.

    >>> compute_shortfall(1.0), compute_shortfall(1.0 + 2**-52)
    (0.0, 5e-324)
    """
    return math.ulp(0.0) if math.fsum((budget, math.ulp(budget) / 2)) > budget else 0.0


def choose_unit(total: float) -> float:
    """Choose the unit of highs, so that sums up to ``total`` in magnitude are exact."""
    return math.ldexp(1.0, math.frexp(total)[1] - 51)


def split_amounts(amounts: Floats, unit: float) -> tuple[Floats, Floats]:
    """Split amounts into multiples of the unit and the rest, without rounding.

    >>> high, low = split_amounts(np.array([5.75, 8.0]), 2.0)
    >>> high.tolist(), low.tolist()
    ([4.0, 8.0], [1.75, 0.0])
    """
    high = np.trunc(amounts / unit) * unit
    return high, amounts - high


def compute_residue(high: Floats, low: Floats, total: Floats) -> Floats:
    """Give what ``total``, their sum, lost by rounding: with it, sums can be put in order exactly (Knuth's two-sum)."""
    part = total - high
    return (high - (total - part)) + (low - part)
