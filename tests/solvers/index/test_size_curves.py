"""Accuracy over the item's size: what is promised holds at every size, and choices differ by size."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from models import FeaturesSpec, FeatureTable, InvalidRequest
from models.errors import Infeasible
from models.index import IndexOptions, IndexQuery
from solvers.base import BuildContext
from solvers.index import fit
from solvers.index.assemble import join_region_indexes
from solvers.index.crossings import SkylineIndex
from solvers.index.plan import IndexPlan
from solvers.index.size_curves import choose_knots, spline_basis
from solvers.statistics import wilson_interval
from tests.support.cases import first_quick

SIGNALS = {"head": (1.5, 0.0), "words": (0.4, 100.0), "pairs": (0.2, 300.0)}
"""Each feature's noise for large items, and the size below which its noise grows."""


def table(rows: int, seed: int, *, depends: bool = True, dimensions: int = 1) -> FeatureTable:
    """Make items of 10 to 10,000 bytes whose features are more informative for large ones, or not."""
    rng = np.random.default_rng(seed)
    label, size = rng.integers(3, size=rows), np.exp(rng.uniform(np.log(10), np.log(10_000), rows))
    columns = {"kind": np.array(["a", "b", "c"])[label]}
    for name, (noise, at) in SIGNALS.items():
        spread = noise + (at / size) ** 0.5 if depends else noise + 1
        columns[name] = label + spread * rng.normal(size=rows)
    share = rng.uniform(0.2, 0.8, rows)
    sizes = {"bytes": size} if dimensions == 1 else {"wide": size**share, "high": size ** (1 - share)}
    costs = {"head": [0.05], "words": [0.01, 0.001], "pairs": [0.01, 0.004]}
    spec = {
        "kind": "features",
        "label": "kind",
        "unit": "ms",
        "size": list(sizes) if dimensions > 1 else "bytes",
        "features": [{"name": n, "columns": [n], "cost": cost_of(costs[n], dimensions)} for n in SIGNALS],
    }
    return FeatureTable.from_columns(FeaturesSpec.model_validate(spec), columns | sizes)


def cost_of(factors: list[float], dimensions: int) -> dict[str, object]:
    """Write a cost that is linear in the product of the size's numbers."""
    if dimensions == 1:
        return {"polynomial": factors}
    return {"terms": [{"coefficient": factor, "powers": [power, power]} for power, factor in enumerate(factors)]}


@cache
def built(*, depends: bool = True, dimensions: int = 1, **options: float) -> IndexPlan:
    """Build from 3,000 rows."""
    dataset = table(3000, 1, depends=depends, dimensions=dimensions)
    fitted = fit(dataset, IndexOptions.model_validate(options), np.random.default_rng(0), BuildContext())
    assert fitted.summary["size_regions"] == fitted.plan.size_edges.tolist()
    return fitted.plan


def replay(plan: IndexPlan, fresh: FeatureTable, **query: Any) -> tuple[NDArray[np.float64], list[tuple[float, int]]]:
    """Give which fresh rows are answered correctly at their own size, and what each was promised."""
    asked = [IndexQuery(size=float(size), **query) for size in fresh.sizes[:, 0]]
    decisions = [plan.decide(each) for each in asked]
    chosen, values = np.array([" ".join(each.features) for each in decisions]), plan.encode_features(fresh)
    right = np.zeros(fresh.rows)
    for features in np.unique(chosen):
        rows = np.flatnonzero(chosen == features)
        right[rows] = np.equal(plan.classify(features.split(), values[rows]), fresh.labels[rows])
    return right, [plan.estimate_accuracy(each, decision) for each, decision in zip(asked, decisions, strict=True)]


@pytest.mark.parametrize("budget", first_quick([100.0, 0.5, 3.0]))
def test_promises_hold_in_each_tenth_of_the_sizes(budget: float) -> None:
    """Intervals of the median size hold in four tenths of five, and no tenth is off by more than 3 points."""
    plan, fresh = built(), table(20_000, 2)
    right, promises = replay(plan, fresh, budget=budget)
    sizes = fresh.sizes[:, 0]
    held = []
    for part in np.array_split(np.argsort(sizes), 10):
        true, promised = right[part].mean(), np.mean([promises[row][0] for row in part])
        assert promised == pytest.approx(true, abs=0.04)
        middle, rows = promises[part[len(part) // 2]]
        low, high = wilson_interval(middle, float(rows))
        held.append(low <= true <= high)
    assert np.mean(held) >= 0.8
    assert budget < 100 or right[sizes < 30].mean() < right[sizes > 5000].mean() - 0.15


def test_what_is_promised_of_an_accuracy_that_was_asked_for_holds_where_it_was_asked() -> None:
    """An accuracy that large items reach is refused for small ones."""
    plan, fresh = built(), table(20_000, 3)
    large = fresh.take(np.flatnonzero(fresh.sizes[:, 0] > 3000))
    right, promises = replay(plan, large, budget=100.0, min_accuracy=0.7)
    assert np.mean([promised for promised, _ in promises]) == pytest.approx(right.mean(), abs=0.04)
    assert right.mean() > 0.7
    with pytest.raises(Infeasible):
        plan.decide(IndexQuery(size=20.0, budget=100.0, min_accuracy=0.7))


def test_the_features_of_choice_differ_by_size_though_any_can_be_paid() -> None:
    plan = built()
    small, large = (plan.decide(IndexQuery(size=size, budget=1e6)).accuracy for size in (15.0, 8000.0))
    assert small < large - 0.15
    assert len(plan.size_edges) >= 5


@pytest.mark.parametrize("dimensions", [1, 2])
def test_the_index_finds_what_a_scan_of_all_candidates_finds(dimensions: int) -> None:
    """At sizes in every region, at its edges, and within every budget."""
    plan, rng = built(dimensions=dimensions), np.random.default_rng(4)
    edges = [*plan.size_edges.tolist(), *np.nextafter(plan.size_edges, 0).tolist()]
    for extent in [1.0, *edges, *np.exp(rng.uniform(0, 10, 200)).tolist()]:
        size = extent if dimensions == 1 else (extent**0.5, extent**0.5)
        for budget in (0.0, 0.06, float(np.exp(rng.uniform(-4, 4))), 1e9):
            found, scanned = (
                plan.decide(IndexQuery(size=size, budget=budget, method=method)) for method in ("poly-dom", "naive")
            )
            assert (found.accuracy, found.cost) == (scanned.accuracy, scanned.cost)
            assert found.cost <= budget
        items = plan.list_skyline(size)
        assert [item.accuracy for item in items] == sorted({item.accuracy for item in items})


def test_where_accuracies_do_not_depend_on_size_the_index_is_one_for_all_sizes() -> None:
    """No knots, no regions: the plan promises the same at each size."""
    plan = built(depends=False)
    assert (len(plan.size_knots), len(plan.size_edges), plan.size_levels.shape) == (0, 0, (3, 0, 0))
    answers = {plan.decide(IndexQuery(size=size, budget=1e6)).accuracy for size in (10.0, 500.0, 10_000.0)}
    assert len(answers) == 1


def test_an_index_for_one_size_promises_what_holds_there() -> None:
    low, high = (built(fixed_size=size) for size in (15.0, 8000.0))
    promised = [plan.estimate_accuracy(query := IndexQuery(budget=1e6), plan.decide(query))[0] for plan in (low, high)]
    fresh = table(20_000, 5)
    for plan, size, said in ((low, 15.0, promised[0]), (high, 8000.0, promised[1])):
        near = fresh.take(np.flatnonzero(np.abs(np.log(fresh.sizes[:, 0] / size)) < 0.2))
        features = plan.decide(IndexQuery(budget=1e6)).features
        true = np.equal(plan.classify(features, plan.encode_features(near)), near.labels).mean()
        assert said == pytest.approx(true, abs=0.06)
    assert promised[0] < promised[1] - 0.15


def test_knots_are_chosen_where_they_predict_rows_that_were_left_out() -> None:
    """None for one accuracy, some for a slope, more for a valley."""
    rng = np.random.default_rng(6)
    extents = np.exp(rng.uniform(0, 8, 4000))
    at = np.log(extents) / 8
    shares = (np.full(4000, 0.7), 0.5 + 0.4 * at, 0.9 - 0.8 * np.abs(np.cos(np.pi * at)) ** 0.5)
    flat, slope, valley = (
        len(choose_knots(rng.random((3, 4000)) < share, extents, np.arange(4000))) for share in shares
    )
    assert (flat, slope > 0, valley > 2) == (0, True, True)
    assert len(choose_knots(rng.random((3, 150)) < shares[1][:150], extents[:150], np.arange(150))) == 0
    assert spline_basis(np.array([0.0, 1.0, 3.0]), np.linspace(-1, 4, 11)).sum(axis=1) == pytest.approx(1)


def test_joined_indexes_take_each_region_from_its_own() -> None:
    first = SkylineIndex(
        np.array([1.0, 5.0, 20.0]), np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1], dtype=np.int32), 2, 4
    )
    second = SkylineIndex(np.array([1.0, 30.0]), np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32), 1, 2)
    joined = join_region_indexes([first, second], [np.array([0, 1]), np.array([1, 0])], np.array([10.0]))
    assert joined.sizes.tolist() == [1.0, 5.0, 10.0, 30.0]
    assert joined.offsets.tolist() == [0, 1, 3, 4, 5]
    assert joined.members.tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("size_knots", lambda array: array[::-1]),
        ("size_edges", lambda array: array + 0.5),
        ("size_centers", lambda array: array[1:]),
        ("size_levels", lambda array: array * 2),
        ("size_covariance", lambda array: array[:2]),
        ("size_covariance", lambda array: array * 0),
        ("size_optimism", lambda array: array[:, 1:]),
        ("size_spread", lambda array: -1 - array),
        ("size_knots", lambda array: np.zeros(0)),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(name: str, change: object) -> None:
    plan = built()
    with pytest.raises(InvalidRequest):
        replace(plan, **{name: change(getattr(plan, name))})  # type: ignore[operator]
