"""Charts of an index over sizes and budgets: cost curves, their crossings, and a map of decisions.

Each cell of the map is a call of ``decide``. A skyline changes where two of its curves cross (Theorem 3.13). The
skylines on both sides of a breakpoint show which two curves cross there. If accuracies depend on size, they are
constant on regions of sizes. The skyline then also changes at the edges of regions, which are not crossings.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Floats, Int64s
from models.index import Crossing, CurvesQuery, FeatureSetCurve, IndexCurves, IndexQuery
from solvers.index.costs import evaluate_horner, list_members
from solvers.index.plan import IndexPlan

SIZE_FACTOR = 8.0
"""The default range is from the median size divided by this to the median size times this."""
DEFAULT_SIZES = (1.0, 1000.0)
"""The range if the index was built without sizes."""
MIN_BUDGET_SHARE = 1e-4
"""Lower bound of budgets, as a share of the largest."""


def sample_cost_curves(plan: IndexPlan, query: CurvesQuery) -> IndexCurves:
    """Return the curves, crossings, and map of an index over a range of sizes.

    Raises:
        InvalidRequest: sizes of several numbers, an empty or unsupported range, or a range where costs do not depend on
            size.
    Complexity: O(points · (c + budgets)) for c feature sets that are on skylines of the range.
    """
    sizes = _sizes(plan, query)
    at = sizes if len(sizes) else np.ones(1)
    on_skylines = _Sets.from_candidates(plan, _on_skylines(plan, float(at[0]), float(at[-1])))
    budgets = _budgets(plan, on_skylines.evaluate(at), query.budgets)
    winners = _winners(plan, sizes, budgets)
    sets = _Sets.from_candidates(plan, np.union1d(on_skylines.candidates, winners))
    place = {candidate: i for i, candidate in enumerate(sets.candidates.tolist())}
    return IndexCurves(
        sizes=sizes.tolist(),
        budgets=budgets.tolist(),
        feature_sets=tuple(
            FeatureSetCurve(features=_features(plan, candidate), accuracy=_accuracy(plan, candidate), costs=row)
            for candidate, row in zip(place, sets.evaluate(at).tolist(), strict=True)
        ),
        intersections=_intersections(plan, sizes, sets, place),
        winners=tuple(tuple(place[candidate] for candidate in row) for row in winners.tolist()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """Candidates, (m,), by rising accuracy, and their cost curves, (m, t).

    Of equally accurate candidates, the preferred one comes last.
    """

    candidates: Int64s
    curves: Floats

    @classmethod
    def from_candidates(cls, plan: IndexPlan, candidates: Int64s) -> "_Sets":
        ordered = candidates[np.lexsort((-candidates, plan.accuracies[plan.candidates[candidates]]))]
        masks = plan.masks[plan.candidates[ordered]]
        return cls(ordered, plan.set_costs.sum_features(masks))

    def evaluate(self, sizes: Floats) -> Floats:
        """Return the costs at sizes, rounded as in decisions: (m, sizes)."""
        return np.stack([evaluate_horner(self.curves, size) for size in sizes.tolist()], axis=1)


def _sizes(plan: IndexPlan, query: CurvesQuery) -> Floats:
    """Return sizes spaced evenly in their logarithms; none where costs do not depend on size."""
    dimensions = plan.powers.shape[1]
    if dimensions > 1:
        fault = f"must be one number for curves, got {dimensions}; request skylines or decisions"
        raise InvalidRequest.from_faults(Fault(("size",), fault))
    bounds = {"low": query.low, "high": query.high}
    if not dimensions:
        for name, value in bounds.items():
            if value is not None:
                raise InvalidRequest.from_faults(
                    Fault((name,), f"must be omitted: costs of this index do not depend on size, got {value:g}")
                )
        return np.empty(0)
    low, high = _range(plan, query)
    return np.array([low]) if low == high else np.clip(np.geomspace(low, high, query.points), low, high)


def _range(plan: IndexPlan, query: CurvesQuery) -> tuple[float, float]:
    median = plan.median_size[0]
    low, high = (median / SIZE_FACTOR, median * SIZE_FACTOR) if median > 1 else DEFAULT_SIZES
    largest = inf if plan.largest_size is None else plan.largest_size
    high = min(high, largest) if query.high is None else query.high
    low = min(max(low, 1.0), high) if query.low is None else query.low
    if high > largest:
        raise InvalidRequest.from_faults(Fault(("high",), f"must be at most {largest:g}, got {high:g}"))
    if low > high:
        raise InvalidRequest.from_faults(Fault(("low",), f"must be at most high ({high:g}), got {low:g}"))
    return low, high


def _on_skylines(plan: IndexPlan, low: float, high: float) -> Int64s:
    """Return the candidates on the skylines of a range of sizes."""
    first = max(int(np.searchsorted(plan.sizes, low)) - 1, 0)
    last = int(np.searchsorted(plan.sizes, high, side="right")) - 1
    return np.unique(plan.members[plan.offsets[first] : plan.offsets[last + 1]]).astype(np.int64)


def _budgets(plan: IndexPlan, table: Floats, count: int) -> Floats:
    """Return budgets spaced evenly in their logarithms, from the smallest nonzero cost to the largest."""
    if plan.fixed_budget is not None:
        return np.array([plan.fixed_budget])
    most = float(table.max())
    if most == 0:
        return np.zeros(1)
    least = max(float(table[table > 0].min()), most * MIN_BUDGET_SHARE)
    return np.array([most]) if least == most else np.clip(np.geomspace(least, most, count), least, most)


def _winners(plan: IndexPlan, sizes: Floats, budgets: Floats) -> Int64s:
    """Return the chosen candidate for each budget and size, (budgets, sizes)."""
    candidate = {_features(plan, i): i for i in range(len(plan.candidates) - 1, -1, -1)}
    requested_sizes: list[float | None] = [*sizes.tolist()] if len(sizes) else [None]
    return np.array(
        [
            [candidate[plan.decide(IndexQuery(size=size, budget=budget)).features] for size in requested_sizes]
            for budget in budgets.tolist()
        ]
    )


def _intersections(plan: IndexPlan, sizes: Floats, sets: _Sets, place: dict[int, int]) -> tuple[Crossing, ...]:
    """Return the crossings that change the skyline, by rising size."""
    if not len(sizes) or plan.fixed_budget is not None:
        return ()  # for one budget, skylines change where a set becomes unaffordable
    crossings = []
    inside = np.flatnonzero(
        (plan.sizes >= sizes[0]) & (plan.sizes <= sizes[-1]) & ~np.isin(plan.sizes, plan.size_edges)
    )
    for segment in inside[inside > 0].tolist():
        size = float(plan.sizes[segment])
        before, after = ({place[member] for member in _skyline(plan, i)} for i in (segment - 1, segment))
        both = np.array(sorted(before | after))
        costs = evaluate_horner(sets.curves[both], size)
        pairs = {_with_nearest(one, both, costs) for one in before ^ after}
        cost_of = dict(zip(both.tolist(), costs.tolist(), strict=True))
        crossings += [Crossing(size=size, cost=cost_of[one], first=one, second=two) for one, two in sorted(pairs)]
    return tuple(crossings)


def _skyline(plan: IndexPlan, segment: int) -> list[int]:
    members: list[int] = plan.members[plan.offsets[segment] : plan.offsets[segment + 1]].tolist()
    return members


def _with_nearest(one: int, places: Int64s, costs: Floats) -> tuple[int, int]:
    """Return a curve that joins or leaves, and the nearest curve, which it crosses.

    The smaller index comes first.

    >>> _with_nearest(5, np.array([2, 5, 7]), np.array([1.0, 2.0, 2.1]))
    (5, 7)
    """
    own = int(np.searchsorted(places, one))
    differences = np.abs(costs - costs[own])
    differences[own] = np.inf
    other = int(places[differences.argmin()])
    return min(one, other), max(one, other)


def _features(plan: IndexPlan, candidate: int) -> tuple[str, ...]:
    return tuple(plan.features[f] for f in list_members(int(plan.masks[plan.candidates[candidate]])))


def _accuracy(plan: IndexPlan, candidate: int) -> float:
    return float(plan.accuracies[plan.candidates[candidate]])
