"""What an index looks like over sizes and budgets: cost curves, where they cross, and which feature set wins where.

The map asks ``decide`` for each of its cells, so it shows what decisions say. Where accuracies depend on the size, the
skyline also changes where a region of sizes begins, which is no crossing. A skyline changes where two of its curves
cross (Theorem 3.13): which two is read from the skylines on both sides of a breakpoint.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Floats, Int64s
from models.index import Crossing, CurvesQuery, FeatureSetCurve, IndexCurves, IndexQuery
from solvers.index.costs import Costs, horner, members_of
from solvers.index.plan import IndexPlan

AROUND = 8.0
"""Without a range, sizes go from the median divided by this to the median times this."""
UNKNOWN_SIZES = (1.0, 1000.0)
"""The range if the index was built without knowing any size."""
LEAST_SHARE = 1e-4
"""The least budget is no smaller a share of the largest."""


def draw(plan: IndexPlan, query: CurvesQuery) -> IndexCurves:
    """Draw the index over a range of sizes: O(points · (c + budgets)) for c feature sets that are on skylines there.

    Raises InvalidRequest for sizes of several numbers, for a range that ends before it starts or goes beyond what the
    index answers for, and for any range where costs do not depend on the size.
    """
    sizes = _sizes(plan, query)
    at = sizes if len(sizes) else np.ones(1)
    on_skylines = _Sets.of(plan, _on_skylines(plan, float(at[0]), float(at[-1])))
    budgets = _budgets(plan, on_skylines.costs(at), query.budgets)
    winners = _winners(plan, sizes, budgets)
    sets = _Sets.of(plan, np.union1d(on_skylines.candidates, winners))
    place = {candidate: i for i, candidate in enumerate(sets.candidates.tolist())}
    return IndexCurves(
        sizes=sizes.tolist(),
        budgets=budgets.tolist(),
        feature_sets=tuple(
            FeatureSetCurve(features=_features(plan, candidate), accuracy=_accuracy(plan, candidate), costs=row)
            for candidate, row in zip(place, sets.costs(at).tolist(), strict=True)
        ),
        intersections=_intersections(plan, sizes, sets, place),
        winners=tuple(tuple(place[candidate] for candidate in row) for row in winners.tolist()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """Some of the candidates, (m,), by rising accuracy, the preferred of equals last; their cost curves (m, t)."""

    candidates: Int64s
    curves: Floats

    @classmethod
    def of(cls, plan: IndexPlan, candidates: Int64s) -> "_Sets":
        ordered = candidates[np.lexsort((-candidates, plan.accuracies[plan.candidates[candidates]]))]
        masks = plan.masks[plan.candidates[ordered]]
        return cls(ordered, Costs(plan.powers, plan.coefficients).of_sets(masks))

    def costs(self, sizes: Floats) -> Floats:
        """Evaluate the curves at sizes, as decisions do: (m, sizes)."""
        return np.stack([horner(self.curves, size) for size in sizes.tolist()], axis=1)


def _sizes(plan: IndexPlan, query: CurvesQuery) -> Floats:
    """Spread the sizes evenly by their logarithms; there are none where costs do not depend on them."""
    dimensions = plan.powers.shape[1]
    if dimensions > 1:
        fault = f"has {dimensions} numbers in this index, curves are for sizes of one; ask for skylines or decisions"
        raise InvalidRequest.at(Fault(("size",), fault))
    given = {"low": query.low, "high": query.high}
    if not dimensions:
        for name, value in given.items():
            if value is not None:
                raise InvalidRequest.at(Fault((name,), f"is {value:g}, costs do not depend on the size in this index"))
        return np.empty(0)
    low, high = _range(plan, query)
    return np.array([low]) if low == high else np.clip(np.geomspace(low, high, query.points), low, high)


def _range(plan: IndexPlan, query: CurvesQuery) -> tuple[float, float]:
    median = plan.median_size[0]
    low, high = (median / AROUND, median * AROUND) if median > 1 else UNKNOWN_SIZES
    largest = inf if plan.largest_size is None else plan.largest_size
    high = min(high, largest) if query.high is None else query.high
    low = min(max(low, 1.0), high) if query.low is None else query.low
    if high > largest:
        raise InvalidRequest.at(Fault(("high",), f"is {high:g}, the index goes up to {largest:g}"))
    if low > high:
        raise InvalidRequest.at(Fault(("low",), f"is {low:g}, above the high end, {high:g}"))
    return low, high


def _on_skylines(plan: IndexPlan, low: float, high: float) -> Int64s:
    """List the candidates on the skyline of any size of a range, and on those that end where it begins."""
    first = max(int(np.searchsorted(plan.sizes, low)) - 1, 0)
    last = int(np.searchsorted(plan.sizes, high, side="right")) - 1
    return np.unique(plan.members[plan.offsets[first] : plan.offsets[last + 1]]).astype(np.int64)


def _budgets(plan: IndexPlan, table: Floats, count: int) -> Floats:
    """Spread budgets evenly by their logarithms from the least cost that is not 0 to the largest."""
    if plan.fixed_budget is not None:
        return np.array([plan.fixed_budget])
    most = float(table.max())
    if most == 0:
        return np.zeros(1)
    least = max(float(table[table > 0].min()), most * LEAST_SHARE)
    return np.array([most]) if least == most else np.clip(np.geomspace(least, most, count), least, most)


def _winners(plan: IndexPlan, sizes: Floats, budgets: Floats) -> Int64s:
    """Ask for every decision: the candidates that win, (budgets, sizes)."""
    candidate = {_features(plan, i): i for i in range(len(plan.candidates) - 1, -1, -1)}
    asked: list[float | None] = [*sizes.tolist()] if len(sizes) else [None]
    return np.array(
        [
            [candidate[plan.decide(IndexQuery(size=size, budget=budget)).features] for size in asked]
            for budget in budgets.tolist()
        ]
    )


def _intersections(plan: IndexPlan, sizes: Floats, sets: _Sets, place: dict[int, int]) -> tuple[Crossing, ...]:
    """Tell where in the range the skyline changes because two curves cross, by rising size."""
    if not len(sizes) or plan.fixed_budget is not None:
        return ()  # with one budget, skylines change where a set ceases to be affordable
    crossings = []
    inside = np.flatnonzero(
        (plan.sizes >= sizes[0]) & (plan.sizes <= sizes[-1]) & ~np.isin(plan.sizes, plan.size_edges)
    )
    for segment in inside[inside > 0].tolist():
        size = float(plan.sizes[segment])
        before, after = ({place[member] for member in _skyline(plan, i)} for i in (segment - 1, segment))
        both = np.array(sorted(before | after))
        costs = horner(sets.curves[both], size)
        pairs = {_with_nearest(one, both, costs) for one in before ^ after}
        cost_of = dict(zip(both.tolist(), costs.tolist(), strict=True))
        crossings += [Crossing(size=size, cost=cost_of[one], first=one, second=two) for one, two in sorted(pairs)]
    return tuple(crossings)


def _skyline(plan: IndexPlan, segment: int) -> list[int]:
    members: list[int] = plan.members[plan.offsets[segment] : plan.offsets[segment + 1]].tolist()
    return members


def _with_nearest(one: int, places: Int64s, costs: Floats) -> tuple[int, int]:
    """Pair a curve that joins or leaves with the one that is nearest there: the two cross. The smaller place first.

    >>> _with_nearest(5, np.array([2, 5, 7]), np.array([1.0, 2.0, 2.1]))
    (5, 7)
    """
    own = int(np.searchsorted(places, one))
    differences = np.abs(costs - costs[own])
    differences[own] = np.inf
    other = int(places[differences.argmin()])
    return min(one, other), max(one, other)


def _features(plan: IndexPlan, candidate: int) -> tuple[str, ...]:
    return tuple(plan.features[f] for f in members_of(int(plan.masks[plan.candidates[candidate]])))


def _accuracy(plan: IndexPlan, candidate: int) -> float:
    return float(plan.accuracies[plan.candidates[candidate]])
