"""What features cost, in whole units, so that sums are exact and equal sums are equal numbers.

Two ways to add up the same costs may differ in their last bit, and then one configuration would seem to dominate
another that costs the same. So costs are counted in units of which all rows together pay at most 2^50, and float64 adds
exactly: in units of the last decimal if costs have few, else in a power of two, to which they are rounded. With a
thousand rows that is 1e-12 of the sum of all costs.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import fsum, ldexp, log2

import numpy as np

from models.arrays import Floats
from models.errors import Fault, InvalidRequest

DECIMALS = 9
"""So many decimals at most are counted exactly."""
EXACT = 2**50
"""Sums are at most this: float64 holds them exactly, and different ones have different means."""
FINEST = 1000
"""Costs are counted in units of 2^-1000 at least, so that the number of units to 1 is a float64."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitCosts:
    """of: (n,) float64, what each feature costs, in whole units; units: how many make 1."""

    by_feature: Floats
    units: float

    @classmethod
    def from_costs(cls, costs: Floats, rows: int) -> "UnitCosts":
        """Count costs, (n,), in units that stay exact in sums over so many rows.

        Raises InvalidRequest unless costs are finite and at least 0. O(n) time.

        >>> UnitCosts.from_costs(np.array([0.1, 0.25, 3]), 100)
        UnitCosts(by_feature=array([ 10.,  25., 300.]), units=100.0)
        """
        checked = _checked(costs)
        shares = [Fraction(repr(cost)) for cost in checked.tolist()]
        for units in (10**d for d in range(DECIMALS + 1)):
            scaled = [share * units for share in shares]
            if sum(scaled) * rows > EXACT:
                break
            if all(number.denominator == 1 for number in scaled):
                return cls(np.array([float(number) for number in scaled]), float(units))
        return cls._rounded(checked, rows)

    @classmethod
    def _rounded(cls, costs: Floats, rows: int) -> "UnitCosts":
        """Round to a power of two; each of the n may grow by half a unit."""
        largest = float(costs.max())
        total = log2(largest) + log2(fsum((costs / largest).tolist()))
        finest = int(np.floor(log2(EXACT / rows - len(costs)) - total)) - 1
        units = ldexp(1.0, min(finest, FINEST))
        return cls(np.rint(costs * units), units)

    def sum_sets(self) -> Floats:
        """Add up each of the 2^n feature sets, by mask: (2^n,) float64. O(2^n) time.

        >>> UnitCosts.from_costs(np.array([1.0, 2.0, 4.0]), 10).sum_sets().tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        """
        sums = np.zeros(1)
        for price in self.by_feature:
            sums = np.concatenate((sums, sums + price))
        return sums

    def compute_mean(self, sums: Floats, rows: int) -> Floats:
        """Turn sums over all rows, in units, into mean costs."""
        return sums / rows / self.units


def _checked(costs: Floats) -> Floats:
    checked = np.array(costs, dtype=np.float64, ndmin=1)
    if checked.ndim != 1 or len(checked) == 0:
        raise InvalidRequest.from_faults(
            Fault(("costs",), f"have shape {checked.shape}, must be one number for each feature")
        )
    bad = np.flatnonzero(~(np.isfinite(checked) & (checked >= 0)))
    if len(bad):
        faults = [Fault(("costs", i), f"is {checked[i]}, must be finite and at least 0") for i in bad.tolist()]
        raise InvalidRequest.from_faults(*faults)
    return checked
