"""The index drawn over sizes and budgets: every cell is a decision, every crossing is where two curves meet."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models import InvalidRequest
from models.index import CurvesQuery, IndexCurves, IndexOptions, IndexQuery
from solvers.index import IndexPlan, sample_cost_curves
from solvers.index.costs import SetCosts
from tests.solvers.index.known_accuracies import plan_without_models

QUERY = CurvesQuery(low=1.0, high=400.0, points=25, budgets=20)


def plan(coefficients: list[list[float]], size: float = 20.0, seed: int = 0, **options: Any) -> IndexPlan:
    """Index features with these costs, by rising power; accuracies rise with the set, by chance."""
    rng = np.random.default_rng(seed)
    gains = rng.random(len(coefficients))
    levels = [
        0.5 + 0.4 * math.tanh(sum(gains[f] for f in range(len(gains)) if mask >> f & 1))
        for mask in range(1 << len(gains))
    ]
    costs = SetCosts(
        np.arange(len(coefficients[0]))[:, None], np.array(coefficients), options.get("max_size", math.inf)
    )
    built = plan_without_models(lambda masks: [levels[m] for m in masks], costs, IndexOptions(**options), (size,))
    return built.plan


def random_plan(seed: int, **options: Any) -> IndexPlan:
    """Index five features of quadratic costs."""
    rng = np.random.default_rng(seed)
    table: NDArray[Any] = rng.random((5, 3)) * [20.0, 0.5, 0.005] * (rng.random((5, 3)) < 0.7)
    return plan(table.tolist(), seed=seed, **options)


def cost_of(drawn: IndexCurves, place: int, size: float, of: IndexPlan) -> float:
    """Compute what a feature set costs at a size, from the features."""
    rows = of.coefficients[[of.features.index(name) for name in drawn.feature_sets[place].features]]
    return float((rows * size ** np.arange(rows.shape[1])).sum())


@pytest.mark.parametrize("seed", range(6))
def test_every_cell_of_the_map_is_what_is_decided(seed: int) -> None:
    built = random_plan(seed)
    drawn = sample_cost_curves(built, QUERY)
    assert (len(drawn.budgets), len(drawn.sizes)) == (20, 25)
    for budget, row in zip(drawn.budgets, drawn.winners, strict=True):
        for size, place in zip(drawn.sizes, row, strict=True):
            decision = built.decide(IndexQuery(size=size, budget=budget))
            winner = drawn.feature_sets[place]
            assert (winner.features, winner.accuracy) == (decision.features, decision.accuracy)


@pytest.mark.parametrize("seed", range(6))
def test_curves_are_the_costs_of_all_sets_on_skylines(seed: int) -> None:
    built = random_plan(seed)
    drawn = sample_cost_curves(built, QUERY)
    known = {each.features for each in drawn.feature_sets}
    for at, size in enumerate(drawn.sizes):
        for item in built.list_skyline(size):
            assert item.features in known
        for place, each in enumerate(drawn.feature_sets):
            assert each.costs[at] == pytest.approx(cost_of(drawn, place, size, built))
    levels = [each.accuracy for each in drawn.feature_sets]
    assert levels == sorted(levels)


@pytest.mark.parametrize("seed", range(6))
def test_the_skyline_changes_where_two_curves_cross_and_nowhere_else(seed: int) -> None:
    built = random_plan(seed)
    drawn = sample_cost_curves(built, QUERY)
    for crossing in drawn.intersections:
        assert crossing.first < crossing.second
        for place in (crossing.first, crossing.second):
            assert cost_of(drawn, place, crossing.size, built) == pytest.approx(crossing.cost, rel=1e-6)
    sizes = sorted({crossing.size for crossing in drawn.intersections})
    ends = [1.0, *sizes, 400.0]
    for start, end in pairwise(ends):
        inner = np.linspace(start, end, 7)[1:-1].tolist() if end - start > 1e-9 * end else []
        assert len({tuple(item.features for item in built.list_skyline(size)) for size in inner}) <= 1
    for size in sizes:
        sides = [built.list_skyline(size * (1 + step)) for step in (-1e-6, 1e-6)]
        if size * (1 - 1e-6) > 1:
            assert [each.features for each in sides[0]] != [each.features for each in sides[1]]
    assert len(sizes) == np.sum((built.sizes > 1) & (built.sizes <= 400))


def test_some_curves_cross() -> None:
    assert sum(len(sample_cost_curves(random_plan(seed), QUERY).intersections) for seed in range(6)) > 5


def test_the_range_comes_from_the_median_size_and_the_largest() -> None:
    lines = [[1.0, 0.5], [8.0, 0.1]]
    drawn = sample_cost_curves(plan(lines, size=20.0), CurvesQuery())
    assert (drawn.sizes[0], drawn.sizes[-1], len(drawn.sizes), len(drawn.budgets)) == (2.5, 160.0, 40, 40)
    drawn = sample_cost_curves(plan(lines, size=20.0, max_size=100.0), CurvesQuery())
    assert (drawn.sizes[0], drawn.sizes[-1]) == (2.5, 100.0)
    drawn = sample_cost_curves(plan(lines, size=1.0), CurvesQuery())
    assert (drawn.sizes[0], drawn.sizes[-1]) == (1.0, 1000.0)
    drawn = sample_cost_curves(plan(lines), CurvesQuery(low=7.0, high=7.0))
    assert drawn.sizes == (7.0,)


def test_budgets_reach_from_the_least_cost_to_the_largest() -> None:
    drawn = sample_cost_curves(plan([[1.0, 0.5], [8.0, 0.1]]), QUERY)
    costs = [cost for each in drawn.feature_sets for cost in each.costs if cost > 0]
    assert (drawn.budgets[0], drawn.budgets[-1]) == (min(costs), max(costs))
    assert sample_cost_curves(plan([[0.0, 0.0], [0.0, 0.0]]), QUERY).budgets == (0.0,)
    drawn = sample_cost_curves(plan([[1e-9, 0.0], [8.0, 0.1]]), QUERY)
    assert drawn.budgets[0] == pytest.approx(1e-4 * drawn.budgets[-1])


def test_one_budget_gives_one_row() -> None:
    built = plan([[1.0, 0.5], [8.0, 0.1]], fixed_budget=9.5)
    drawn = sample_cost_curves(built, QUERY)
    assert (drawn.budgets, drawn.intersections) == ((9.5,), ())
    wanted = [built.decide(IndexQuery(size=size, budget=9.5)).features for size in drawn.sizes]
    assert [drawn.feature_sets[place].features for place in drawn.winners[0]] == wanted
    assert len(set(wanted)) > 1


def test_costs_that_do_not_depend_on_the_size_give_one_column() -> None:
    coefficients = np.array([[2.0], [5.0]])
    built = plan_without_models(
        lambda masks: [(0.5, 0.7, 0.8, 0.9)[m] for m in masks], SetCosts(np.zeros((1, 0), dtype=np.int64), coefficients)
    ).plan
    drawn = sample_cost_curves(built, CurvesQuery(budgets=30))
    assert (drawn.sizes, drawn.intersections) == ((), ())
    assert [each.costs for each in drawn.feature_sets] == [(0.0,), (2.0,), (5.0,), (7.0,)]
    for budget, row in zip(drawn.budgets, drawn.winners, strict=True):
        assert [drawn.feature_sets[place].features for place in row] == [
            built.decide(IndexQuery(budget=budget)).features
        ]
    with pytest.raises(InvalidRequest, match=r"^low: .* got 2$"):
        sample_cost_curves(built, CurvesQuery(low=2.0))


def test_what_cannot_be_drawn_is_refused() -> None:
    lines = [[1.0, 0.5], [8.0, 0.1]]
    with pytest.raises(InvalidRequest, match=r"^low: .*5.*, got 9$"):
        sample_cost_curves(plan(lines), CurvesQuery(low=9.0, high=5.0))
    with pytest.raises(InvalidRequest, match=r"^high: must be at most 100, got 101$"):
        sample_cost_curves(plan(lines, max_size=100.0), CurvesQuery(high=101.0))
    square = SetCosts(np.array([[0, 0], [1, 1]]), np.array([[1.0, 0.5], [2.0, 0.1]]))
    built = plan_without_models(lambda masks: [(0.5, 0.7, 0.8, 0.9)[m] for m in masks], square).plan
    with pytest.raises(InvalidRequest, match=r"^size: .* got 2"):
        sample_cost_curves(built, CurvesQuery())
