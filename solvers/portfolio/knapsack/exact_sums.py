"""Exact summation of costs: each cost is split into two floats, high and low.

High parts are multiples of a power of two that is large enough for exact sums. Low parts are the remainders. Sums of
low parts are also exact, unless the ratio of costs exceeds about 2^53 / n² for n costs. Then the error is about 2^-100
of a cost. Exactness is necessary because the budget test depends on the last bit. Also, equal sums must not depend on
the order of additions.
"""

import math
from collections.abc import Iterable

import numpy as np

from models.arrays import Floats


def compute_room(budget: float, costs: Iterable[float]) -> tuple[float, float]:
    """Return the remaining budget as a rounded number and its rounding error.

    Together the two floats are exact to 106 bits. Half a unit in the budget's last place is added, because a sum that
    exceeds the budget by less rounds to the budget.

    >>> compute_room(1.0, [0.1] * 10)[0] >= 0, compute_room(0.9, [0.1] * 10)[0] >= 0
    (True, False)
    """
    terms = [budget, math.ulp(budget) / 2, *(-cost for cost in costs)]
    first = math.fsum(terms)
    return first, math.fsum([*terms, -first])


def compute_shortfall(budget: float) -> float:
    """Return the amount to subtract from the remaining budget before testing its sign.

    A sum exactly half way between two floats rounds to the one with an even mantissa. If the budget's mantissa is odd,
    such a sum rounds up and exceeds the budget, although its remainder is 0. Subtracting the smallest float makes this
    remainder negative and changes no other one.

    >>> compute_shortfall(1.0), compute_shortfall(1.0 + 2**-52)
    (0.0, 5e-324)
    """
    return math.ulp(0.0) if math.fsum((budget, math.ulp(budget) / 2)) > budget else 0.0


def choose_unit(total: float) -> float:
    """Return a unit whose multiples have exact sums up to a magnitude of ``total``."""
    return math.ldexp(1.0, math.frexp(total)[1] - 51)


def split_amounts(amounts: Floats, unit: float) -> tuple[Floats, Floats]:
    """Split amounts exactly into multiples of the unit and remainders.

    >>> high, low = split_amounts(np.array([5.75, 8.0]), 2.0)
    >>> high.tolist(), low.tolist()
    ([4.0, 8.0], [1.75, 0.0])
    """
    high = np.trunc(amounts / unit) * unit
    return high, amounts - high


def compute_residue(high: Floats, low: Floats, total: Floats) -> Floats:
    """Return the rounding error of ``total``, the sum of high and low (Knuth's two-sum)."""
    part = total - high
    return (high - (total - part)) + (low - part)
