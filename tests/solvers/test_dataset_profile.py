"""What the rows of a dataset tell, held against loops over the rows."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import FeaturesSpec, FeatureTable, Trace, TraceSpec, dataset_from_columns
from models.cost import cost_function
from models.dataset_profile import FeaturesProfile, TraceProfile
from models.errors import InvalidRequest
from solvers.dataset_profile import calibration_bins, profile_dataset
from tests.support.samples import FEATURES_SPEC, TRACE_SPEC, feature_columns, trace_columns


def trace(**changed: Any) -> Trace:
    """Make the sample trace, some of its columns replaced."""
    columns = {name: np.array(cells) for name, cells in {**trace_columns(200), **changed}.items()}
    dataset = dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), columns)
    assert isinstance(dataset, Trace)
    return dataset


def features(costs: list[Any], size: str | list[str] | None = None, **columns: list[float]) -> FeatureTable:
    """Make a table of features of one column each, with these costs."""
    listed = [{"name": f"f{i}", "columns": [f"f{i}"], "cost": cost} for i, cost in enumerate(costs)]
    spec = {"kind": "features", "label": "y", "unit": "ms", "size": size, "features": listed}
    cells = {**{f"f{i}": [1.0, 2.0, 3.0] for i in range(len(costs))}, "y": ["a", "b", "a"], **columns}
    dataset = dataset_from_columns(
        FeaturesSpec.model_validate(spec), {name: np.array(column) for name, column in cells.items()}
    )
    assert isinstance(dataset, FeatureTable)
    return dataset


def of_trace(dataset: Trace) -> TraceProfile:
    """Profile a trace."""
    profiled = profile_dataset(dataset)
    assert isinstance(profiled, TraceProfile)
    return profiled


def of_features(dataset: FeatureTable) -> FeaturesProfile:
    """Profile a table of features."""
    profiled = profile_dataset(dataset)
    assert isinstance(profiled, FeaturesProfile)
    return profiled


def test_classifiers_are_counted_row_by_row() -> None:
    says = trace_columns(200)["fast_says"]
    says[:30] = ["pass"] * 30
    profiled, columns = of_trace(trace(fast_says=says)), {**trace_columns(200), "fast_says": says}
    assert (profiled.rows, profiled.unit) == (200, "ms")
    assert {c.name: c.rows for c in profiled.classes} == {
        name: columns["truth"].count(name) for name in ("cat", "dog", "owl", "pass")
    }
    for classifier in profiled.classifiers:
        right = sum(a == b for a, b in zip(columns[f"{classifier.name}_says"], columns["truth"], strict=True))
        assert classifier.accuracy == right / 200
    fast, middle, strong = profiled.classifiers
    assert (fast.no_class, middle.no_class) == (0.15, 0.0)
    assert (fast.mean_cost, middle.mean_cost) == (1.0, 3.0)
    assert strong.mean_cost == pytest.approx(sum(columns["strong_ms"]) / 200)
    assert fast.mean_confidence == pytest.approx(sum(columns["fast_confidence"]) / 200)
    assert (strong.mean_confidence, strong.calibration, strong.group) == (None, (), None)


def test_agreement_is_counted_row_by_row() -> None:
    dataset = trace(strong_says=trace_columns(200)["truth"])
    agreement, names = of_trace(dataset).agreement, ("fast", "middle", "strong")
    right = dataset.quality.tolist()
    for i in range(3):
        for j in range(3):
            among = [row for row in right if not row[j]]
            both = sum(row[i] for row in among)
            assert (agreement.wrong[j], agreement.right[i][j]) == (len(among), both)
            assert agreement.share[i][j] == (both / len(among) if among else None)
    assert agreement.classifiers == names
    assert agreement.wrong[2] == 0


@given(st.lists(st.tuples(st.sampled_from([-3.0, 0.1, 0.25, 0.5, 1.0, 7e307, 1.5e308]), st.booleans()), min_size=1))
def test_bins_hold_every_item_once_and_equal_confidences_together(items: list[tuple[float, bool]]) -> None:
    confidences, correct = np.array([sure for sure, _ in items]), np.array([right for _, right in items])
    bins = calibration_bins(confidences, correct)
    assert sum(each.rows for each in bins) == len(items)
    assert len(bins) <= 10
    for one, next_one in pairwise(bins):
        assert one.high < next_one.low
    for each in bins:
        inside = [(sure, right) for sure, right in items if each.low <= sure <= each.high]
        assert len(inside) == each.rows
        assert each.accuracy == pytest.approx(sum(right for _, right in inside) / each.rows)
        assert each.confidence == pytest.approx(sum(sure / each.rows for sure, _ in inside))


@pytest.mark.parametrize("rows", [1, 9, 10, 11, 200])
def test_different_confidences_fill_ten_bins_about_equally(rows: int) -> None:
    counts = [each.rows for each in calibration_bins(np.arange(rows) / rows, np.ones(rows, dtype=bool))]
    assert len(counts) == min(rows, 10)
    assert max(counts) - min(counts) <= 1


def test_costs_are_those_of_the_spec_over_the_sizes_there_are() -> None:
    columns = {name: np.array(cells) for name, cells in feature_columns(60).items()}
    dataset = dataset_from_columns(FeaturesSpec.model_validate(FEATURES_SPEC), columns)
    assert isinstance(dataset, FeatureTable)
    profiled = of_features(dataset)
    assert (profiled.dimensions, len(profiled.sizes)) == (1, 40)
    assert (profiled.sizes[0], profiled.sizes[-1]) == (64.0, 256.0)
    assert list(profiled.sizes) == sorted(set(profiled.sizes))
    assert {c.name: c.rows for c in profiled.classes} == {str(k): int((columns["outcome"] == k).sum()) for k in (0, 1)}
    for profiled_feature, feature in zip(profiled.features, dataset.spec.features, strict=True):
        function, _ = cost_function(feature.cost)
        assert profiled_feature.columns == feature.columns
        wanted = [float(function([size] if function.dimensions else [])) for size in profiled.sizes]
        assert profiled_feature.costs == pytest.approx(wanted)
    assert [each.cost for each in profiled.features] == [3.0, None, None]
    assert [(each.size, each.cost) for each in profiled.features[2].timings] == [(64, 1.1), (128, 4.2), (256, 9.0)]


def test_costs_that_are_numbers_have_no_sizes() -> None:
    profiled = of_features(features([2.0, {"polynomial": [0.5]}, {"timings": [[4, 1.5]], "degree": 0}]))
    assert (profiled.dimensions, profiled.sizes) == (0, ())
    assert [each.cost for each in profiled.features] == [2.0, 0.5, 1.5]
    assert [each.costs for each in profiled.features] == [()] * 3
    assert len(profiled.features[2].timings) == 1


def test_without_any_size_the_range_is_the_documented_one() -> None:
    profiled = of_features(features([{"polynomial": [0.0, 2.0]}]))
    assert (profiled.sizes[0], profiled.sizes[-1], profiled.features[0].costs[-1]) == (1.0, 1000.0, 2000.0)


def test_of_several_dimensions_the_diagonal_is_drawn() -> None:
    costs = [{"terms": [{"coefficient": 0.5, "powers": [1, 1]}]}, {"timings": [[2, 3, 9.0], [4, 4, 8.0]], "degree": 0}]
    profiled = of_features(features(costs, ["w", "h"], w=[2.0, 8.0, 4.0], h=[4.0, 16.0, 4.0]))
    assert (profiled.dimensions, profiled.sizes[0], profiled.sizes[-1]) == (2, 2.0, 16.0)
    assert profiled.features[0].costs == pytest.approx([0.5 * size**2 for size in profiled.sizes])
    assert [(each.size, each.cost) for each in profiled.features[1].timings] == [(4.0, 8.0)]


def test_one_size_gives_one_point_and_what_cannot_be_computed_is_left_out() -> None:
    profiled = of_features(features([{"polynomial": [0.0] * 15 + [1.0]}], "s", s=[1e90, 1e90, 1e90]))
    assert (profiled.sizes, profiled.features[0].costs) == ((1e90,), (None,))


def test_a_confidence_near_the_largest_number_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        of_trace(trace(fast_confidence=[1.7e308] * 200))
