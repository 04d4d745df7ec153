"""Categories and missing cells in a policy's table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import FeaturesSpec, FeatureTable, InvalidRequest
from models.policy import PolicyQuery, PolicyTarget
from solvers import BuildContext
from solvers.cell_encoding import MAX_CATEGORIES
from solvers.policy import PolicyPlan, fit
from solvers.policy.sensors import Sensors
from tests.solvers.policy.problems import QUICK


def table(columns: Mapping[str, Sequence[Any]], categorical: tuple[str, ...], *, missing: bool = True) -> FeatureTable:
    """Make a table of these columns beside a label, each a feature of cost 1."""
    names = [name for name in columns if name != "y"]
    spec = {
        "kind": "features",
        "label": "y",
        "unit": "ms",
        "missing": missing,
        "categorical": categorical,
        "features": [{"name": name, "columns": [name], "cost": 1.0} for name in names],
    }
    text = {*categorical, "y"}
    arrays = {name: np.array(cells, dtype=object if name in text else np.float64) for name, cells in columns.items()}
    return FeatureTable.from_columns(FeaturesSpec.model_validate(spec), arrays)


HAND: dict[str, list[Any]] = {
    "colour": ["red", "blue", None, "red"],
    "size": [1.0, None, 3.0, 8.0],
    "y": ["a", "b", "a", "b"],
}


def test_cells_become_numbers_as_by_hand() -> None:
    sensors = Sensors.from_dataset(table(HAND, ("colour",)))
    assert sensors.owners.tolist() == [0, 0, 1, 1]
    expected = [[0, 1, 1, 0], [1, 0, 3, 1], [0, 0, 3, 0], [0, 1, 8, 0]]
    assert sensors.read_cells(table(HAND, ("colour",))).tolist() == expected


def test_categories_of_another_table_go_by_their_names() -> None:
    sensors = Sensors.from_dataset(table(HAND, ("colour",)))
    other = table(HAND | {"colour": ["amber", "red", "blue", "zinc"]}, ("colour",))
    assert sensors.read_cells(other)[:, :2].tolist() == [[0, 0], [0, 1], [1, 0], [0, 0]]


def test_of_many_categories_the_most_frequent_have_columns() -> None:
    names = [f"c{place:02}" for place in range(MAX_CATEGORIES + 5) for _ in range(1 + (place >= 5))]
    columns: dict[str, list[Any]] = {"colour": names, "y": ["a", "b"] * (len(names) // 2) + ["a"] * (len(names) % 2)}
    sensors = Sensors.from_dataset(table(columns, ("colour",), missing=False))
    assert sensors.encoding is not None
    assert sensors.encoding.categories == tuple(f"c{place:02}" for place in range(5, MAX_CATEGORIES + 5))


def test_a_column_that_never_misses_has_no_mark_and_may_miss_later() -> None:
    sensors = Sensors.from_dataset(table(HAND | {"size": [1.0, 2.0, 3.0, 9.0]}, ("colour",)))
    assert sensors.owners.tolist() == [0, 0, 1]
    cells, known = sensors.read_answers({"size": None})
    assert (cells.tolist(), known.tolist()) == ([0, 0, 2.5], [False, True])


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["red", "blue", "7", None]), st.one_of(st.none(), st.floats(-9, 9))),
        min_size=4,
        max_size=12,
    )
)
def test_what_is_told_of_an_item_is_what_its_row_holds(rows: list[tuple[str | None, float | None]]) -> None:
    colours, sizes = zip(*rows, strict=True)
    columns: dict[str, list[Any]] = {"colour": [*colours, "red"], "size": [*sizes, 1.0], "y": ["a", "b"] * 6 + ["a"]}
    columns["y"] = columns["y"][: len(rows) + 1]
    made = table(columns, ("colour",))
    sensors = Sensors.from_dataset(made)
    cells = [sensors.read_answers({"colour": colour, "size": size})[0] for colour, size in rows]
    assert np.array_equal(np.array(cells), sensors.read_cells(made)[:-1])


def routed(rows: int, seed: int) -> FeatureTable:
    """Draw a table where a category tells which of three numbers counts, and that one may be missing."""
    rng = np.random.default_rng(seed)
    numbers, kind = rng.normal(size=(rows, 3)), rng.integers(3, size=rows)
    label = numbers[np.arange(rows), kind] > 0
    cells = np.where(rng.random((rows, 3)) < 0.05, np.nan, numbers)
    names = {f"n{place}": cells[:, place].tolist() for place in range(3)}
    return table(
        {"kind": [f"k{k}" for k in kind], **names, "y": ["yes" if each else "no" for each in label]}, ("kind",)
    )


@pytest.fixture(scope="module")
def plan() -> PolicyPlan:
    """Build a policy that must ask for the category first."""
    return fit(
        routed(900, 0),
        QUICK.model_copy(update={"trees": 40, "folds": 4}),
        np.random.default_rng(0),
        BuildContext(),
    ).plan


def test_a_category_says_which_number_to_buy(plan: PolicyPlan) -> None:
    fresh = routed(600, 1)
    ran = plan.run(plan.cells_of(fresh), [str(row) for row in range(600)], PolicyTarget(budget=2.0))
    assert (ran.labels == fresh.labels).mean() > 0.85
    assert ran.costs.mean() < 2.1
    for place in range(3):
        step = plan.decide(PolicyQuery(budget=2.0, item="i", acquired={"kind": f"k{place}"}))
        assert (step.action, getattr(step, "sensor", None)) == ("acquire", f"n{place}")


@pytest.mark.parametrize(
    ("acquired", "why"),
    [
        ({"kind": ["k0", "k1"]}, "acquired.kind: must have 1 values, got 2 values"),
        ({"n0": "three"}, "acquired.n0: must be a number, got 'three'"),
        ({"n0": [None, 1.0]}, "acquired.n0: must have 1 values, got 2 values"),
    ],
)
def test_what_a_feature_cannot_have_told_is_refused(plan: PolicyPlan, acquired: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        plan.decide(PolicyQuery(acquired=acquired))
    assert str(refused.value) == why


def test_a_missing_cell_is_refused_where_the_dataset_had_none() -> None:
    columns = {"colour": ["red", "blue"] * 2, "y": ["a", "b", "a", "b"]}
    sensors = Sensors.from_dataset(table(columns, ("colour",), missing=False))
    with pytest.raises(InvalidRequest, match="must not be missing"):
        sensors.read_answers({"colour": None})


def test_tables_of_other_kinds_of_columns_are_refused() -> None:
    encoded, plain = table(HAND, ("colour",)), table(HAND | {"colour": [1.0, 2.0, 3.0, 4.0]}, ())
    with pytest.raises(InvalidRequest, match="categorical columns"):
        Sensors.from_dataset(encoded).read_cells(plain)
    numbers = table({"colour": [1.0, 2.0], "size": [1.0, 2.0], "y": ["a", "b"]}, (), missing=False)
    with pytest.raises(InvalidRequest, match="must be complete numbers"):
        Sensors.from_dataset(numbers).read_cells(plain)


@pytest.mark.parametrize(
    "broken",
    [
        {"cell_owners": np.array([0, 1, 2], np.int32)},
        {"cell_offsets": np.array([0, 3, 3, 3, 2])},
        {"cell_categories": ("k0", "k1")},
        {"cell_marks": np.array([True, False, True, True])},
        {"cell_fills": np.array([0.0, np.inf, 0.0, 0.0])},
        {"cell_owners": np.array([0, 2, 1, 3], np.int32)},
    ],
)
def test_somebodys_bytes_that_encode_other_columns_are_refused(plan: PolicyPlan, broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        replace(plan, **broken)
