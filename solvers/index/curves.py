"""What an index looks like over sizes and budgets: cost curves, where they cross, and which feature set wins where.

The map asks ``decide`` for each of its cells, so it shows what decisions say. A skyline changes where two of its curves
cross (Theorem 3.13): which two is read from the skylines on both sides of a breakpoint.
"""

from math import inf

import numpy as np
from numpy.typing import NDArray

from models import Fault, InvalidRequest
from models.index import Crossing, CurvesQuery, FeatureSetCurve, IndexCurves, IndexQuery
from solvers.index.costs import Costs, horner, members_of
from solvers.index.plan import IndexPlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
    shown = _on_skylines(plan, float(at[0]), float(at[-1]))
    table = _costs(plan, shown, at)
    budgets = _budgets(plan, table, query.budgets)
    winners = _winners(plan, sizes, budgets)
    shown = np.union1d(shown, winners)
    shown = shown[np.lexsort((-shown, plan.accuracies[plan.candidates[shown]]))]
    place = {candidate: i for i, candidate in enumerate(shown.tolist())}
    return IndexCurves(
        sizes=sizes.tolist(),
        budgets=budgets.tolist(),
        feature_sets=tuple(
            FeatureSetCurve(features=_features(plan, candidate), accuracy=_accuracy(plan, candidate), costs=row)
            for candidate, row in zip(shown.tolist(), _costs(plan, shown, at).tolist(), strict=True)
        ),
        intersections=_intersections(plan, sizes, place),
        winners=tuple(tuple(place[candidate] for candidate in row) for row in winners.tolist()),
    )


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


def _on_skylines(plan: IndexPlan, low: float, high: float) -> Ints:
    """List the candidates on the skyline of any size of a range, and on those that end where it begins."""
    first = max(int(np.searchsorted(plan.sizes, low)) - 1, 0)
    last = int(np.searchsorted(plan.sizes, high, side="right")) - 1
    return np.unique(plan.members[plan.offsets[first] : plan.offsets[last + 1]]).astype(np.int64)


def _costs(plan: IndexPlan, candidates: Ints, sizes: Floats) -> Floats:
    """Evaluate candidates at sizes, as decisions do: (candidates, sizes)."""
    found = Costs(plan.powers, plan.coefficients).of_sets(plan.masks[plan.candidates[candidates]])
    table = np.stack([horner(found, size) for size in sizes.tolist()], axis=1)
    if not np.all(np.isfinite(table)):
        raise InvalidRequest.at(Fault(("high",), f"is {sizes[-1]:g}, where costs are beyond what can be computed"))
    return table


def _budgets(plan: IndexPlan, table: Floats, count: int) -> Floats:
    """Spread budgets evenly by their logarithms from the least cost that is not 0 to the largest."""
    if plan.fixed_budget is not None:
        return np.array([plan.fixed_budget])
    most = float(table.max())
    if most == 0:
        return np.zeros(1)
    least = max(float(table[table > 0].min()), most * LEAST_SHARE)
    return np.array([most]) if least == most else np.clip(np.geomspace(least, most, count), least, most)


def _winners(plan: IndexPlan, sizes: Floats, budgets: Floats) -> Ints:
    """Ask for every decision: the candidates that win, (budgets, sizes)."""
    candidate = {_features(plan, i): i for i in range(len(plan.candidates) - 1, -1, -1)}
    asked: list[float | None] = [*sizes.tolist()] if len(sizes) else [None]
    return np.array(
        [
            [candidate[plan.decide(IndexQuery(size=size, budget=budget)).features] for size in asked]
            for budget in budgets.tolist()
        ]
    )


def _intersections(plan: IndexPlan, sizes: Floats, place: dict[int, int]) -> tuple[Crossing, ...]:
    """Tell where in the range the skyline changes because two curves cross, by rising size."""
    if not len(sizes) or plan.fixed_budget is not None:
        return ()  # with one budget, skylines change where a set ceases to be affordable
    found = []
    inside = np.flatnonzero((plan.sizes >= sizes[0]) & (plan.sizes <= sizes[-1]))
    for segment in inside[inside > 0].tolist():
        size = float(plan.sizes[segment])
        before, after = (set(_skyline(plan, i).tolist()) for i in (segment - 1, segment))
        both = np.array(sorted(before | after))
        costs = dict(zip(both.tolist(), _costs(plan, both, np.array([size]))[:, 0].tolist(), strict=True))
        pairs = {tuple(sorted((place[one], place[_nearest(one, costs)]))) for one in before ^ after}
        cost_of = {place[candidate]: cost for candidate, cost in costs.items()}
        found += [
            Crossing(size=size, cost=cost_of[first], first=first, second=second) for first, second in sorted(pairs)
        ]
    return tuple(found)


def _skyline(plan: IndexPlan, segment: int) -> NDArray[np.int32]:
    return plan.members[plan.offsets[segment] : plan.offsets[segment + 1]]


def _nearest(one: int, costs: dict[int, float]) -> int:
    """Find the other curve that is nearest where one joins or leaves: the two cross there."""
    return min((abs(cost - costs[one]), other) for other, cost in costs.items() if other != one)[1]


def _features(plan: IndexPlan, candidate: int) -> tuple[str, ...]:
    return tuple(plan.features[f] for f in members_of(int(plan.masks[plan.candidates[candidate]])))


def _accuracy(plan: IndexPlan, candidate: int) -> float:
    return float(plan.accuracies[plan.candidates[candidate]])
