"""Exact summation of costs: each is the sum of two floats, high and low.

Highs are multiples of a power of two that is so large that their sums do not round; lows are the rest. Sums of lows do
not round either unless costs differ by more than about 2^53 / n² for n of them, and then by about 2^-100 of a cost. The
budget test depends on the last bit, and equal sums must not depend on the order of additions.
"""

import math
from collections.abc import Iterable

import numpy as np

from models.arrays import Floats


def compute_room(budget: float, costs: Iterable[float]) -> tuple[float, float]:
    """Return the remaining budget as a float and its rounding error: exact to 106 bits.

    It includes half of the last digit, by which costs can exceed the budget and still round to it.

    >>> compute_room(1.0, [0.1] * 10)[0] >= 0, compute_room(0.9, [0.1] * 10)[0] >= 0
    (True, False)
    """
    terms = [budget, math.ulp(budget) / 2, *(-cost for cost in costs)]
    first = math.fsum(terms)
    return first, math.fsum([*terms, -first])


def compute_shortfall(budget: float) -> float:
    """Return the amount to subtract from the remaining budget before testing its sign.

    Costs exactly half way between two floats round to the even one. If that is not the budget, a remainder of 0 does
    not suffice, and the smallest float makes it negative without changing any other remainder.

    >>> compute_shortfall(1.0), compute_shortfall(1.0 + 2**-52)
    (0.0, 5e-324)
    """
    return math.ulp(0.0) if math.fsum((budget, math.ulp(budget) / 2)) > budget else 0.0


def choose_unit(total: float) -> float:
    """Return the unit of highs with exact sums up to ``total`` in magnitude."""
    return math.ldexp(1.0, math.frexp(total)[1] - 51)


def split_amounts(amounts: Floats, unit: float) -> tuple[Floats, Floats]:
    """Split amounts into multiples of the unit and the rest, exactly.

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
