"""Fixed-point costs of features and set-up groups: sums are exact, and do not depend on the order.

Floating-point sums of the same costs in another order may differ in the last bit. Then one of two configurations with
equal cost would seem to dominate the other. So costs are rounded to integer multiples of a unit. The unit is the last
decimal place if costs have few decimals, else a power of two. All rows together pay at most 2^50 units. For a thousand
rows, the rounding error is 1e-12 of the sum of all costs.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import fsum, ldexp, log2

import numpy as np

from models.arrays import Floats
from models.errors import Fault, InvalidRequest
from solvers.setup_groups import NO_GROUPS, SetupGroups

DECIMALS = 9
"""Maximum number of exact decimals."""
EXACT = 2**50
"""Maximum sum: exact in float64, and different sums have different means."""
MAX_UNITS = 1000
"""Units are at least 2^-1000, so that the number of units per 1 is a float64."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedPointCosts:
    """Costs in whole units.

    Attributes:
        by_feature: (n,).
        units: the number of units per 1.
        by_group: (G,), of set-up groups.
        groups: the features of each group.
    """

    by_feature: Floats
    units: float
    by_group: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    groups: SetupGroups = field(default=NO_GROUPS, repr=False)

    @classmethod
    def from_costs(cls, costs: Floats, rows: int, groups: SetupGroups = NO_GROUPS) -> "FixedPointCosts":
        """Convert costs, (n + G,), of features and then of groups, to units whose sums over ``rows`` rows are exact.

        Raises InvalidRequest unless costs are finite and at least 0.

        >>> FixedPointCosts.from_costs(np.array([0.1, 0.25, 3]), 100)
        FixedPointCosts(by_feature=array([ 10.,  25., 300.]), units=100.0)
        """
        checked = _check_costs(costs)
        shares = [Fraction(repr(cost)) for cost in checked.tolist()]
        for units in (10**d for d in range(DECIMALS + 1)):
            scaled = [share * units for share in shares]
            if sum(scaled) * rows > EXACT:
                break
            if all(number.denominator == 1 for number in scaled):
                return cls._split(np.array([float(number) for number in scaled]), float(units), groups)
        return cls._split(*_round_costs(checked, rows), groups)

    @classmethod
    def _split(cls, costs: Floats, units: float, groups: SetupGroups) -> "FixedPointCosts":
        n = len(costs) - len(groups)
        return cls(costs[:n], units, costs[n:], groups)

    @property
    def extended_costs(self) -> Floats:
        """Costs of features, then of groups, (n + G,), in the dataset's unit."""
        return np.asarray(np.concatenate((self.by_feature, self.by_group)) / self.units)

    def sum_sets(self) -> Floats:
        """Return the cost of each feature set by mask, (2^n,).

        >>> FixedPointCosts.from_costs(np.array([1.0, 2.0, 4.0]), 10).sum_sets().tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        """
        sums = np.zeros(1)
        for price in self.by_feature:
            sums = np.concatenate((sums, sums + price))
        masks = np.arange(len(sums))
        for own, price in zip(self.groups.masks, self.by_group, strict=True):
            sums += price * ((masks & own) != 0)
        return sums

    def compute_mean(self, sums: Floats, rows: int) -> Floats:
        """Convert sums over all rows, in units, to mean costs."""
        return sums / rows / self.units


def _round_costs(costs: Floats, rows: int) -> tuple[Floats, float]:
    """Round costs to a power of two, and return the units per 1; each may change by up to half a unit."""
    largest = float(costs.max())
    total = log2(largest) + log2(fsum((costs / largest).tolist()))
    finest = int(np.floor(log2(EXACT / rows - len(costs)) - total)) - 1
    units = ldexp(1.0, min(finest, MAX_UNITS))
    return np.rint(costs * units), units


def _check_costs(costs: Floats) -> Floats:
    checked = np.array(costs, dtype=np.float64, ndmin=1)
    if checked.ndim != 1 or len(checked) == 0:
        raise InvalidRequest.from_faults(Fault(("costs",), f"must have shape (features,), got {checked.shape}"))
    bad = np.flatnonzero(~(np.isfinite(checked) & (checked >= 0)))
    if len(bad):
        faults = [Fault(("costs", i), f"must be finite and at least 0, got {checked[i]}") for i in bad.tolist()]
        raise InvalidRequest.from_faults(*faults)
    return checked
