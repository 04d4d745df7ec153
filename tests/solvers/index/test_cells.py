"""Indexes of tables with categories and missing cells: as built from the same numbers by hand, and asked with cells."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from app.store import codec
from models import FeaturesSpec, FeatureTable, InvalidRequest, dataset_from_columns
from models.index import IndexEvaluateRequest, IndexOptions, IndexQuery
from parsimony.runs.index import run_index
from parsimony.runs.steps import CallResult, CallResults, RunAnswer
from solvers import BuildContext
from solvers.base import IN_PROCESS
from solvers.index import IndexPlan, fit
from solvers.index.run_decisions import make_decisions
from solvers.index.setting_replays import replay_settings
from solvers.running import run_with_local_decisions

COLOURS = ("blue", "green", "red")


def columns_of(rows: int, seed: int = 0) -> dict[str, Any]:
    """Draw a colour, a number that is missing in a fifth of the rows and says something by that, and noise; the class
    is told by all but the noise."""
    rng = np.random.default_rng(seed)
    colour, y = rng.integers(3, size=rows), rng.integers(2, size=rows)
    colour = np.where(rng.random(rows) < 0.5, np.where(y == 1, 2, rng.integers(2, size=rows)), colour)
    weight = y + rng.normal(0, 1.2, rows)
    weight[rng.random(rows) < np.where(y == 1, 0.3, 0.05)] = np.nan
    return {
        "colour": np.array(COLOURS, dtype=object)[colour],
        "weight": weight,
        "noise": rng.normal(size=rows),
        "y": np.where(y == 1, "yes", "no"),
    }


def table_of(columns: dict[str, Any], features: Mapping[str, tuple[str, ...]], **more: Any) -> FeatureTable:
    spec = {
        "kind": "features", "label": "y", "unit": "ms",
        "features": [{"name": name, "columns": own, "cost": 1.0} for name, own in features.items()],
    }  # fmt: skip
    made = dataset_from_columns(FeaturesSpec.model_validate(spec | more), columns)
    assert isinstance(made, FeatureTable)
    return made


def mixed(rows: int = 300, seed: int = 0) -> FeatureTable:
    features = {"colour": ("colour",), "weight": ("weight",), "noise": ("noise",)}
    return table_of(columns_of(rows, seed), features, categorical=["colour"], missing=True)


def by_hand(rows: int = 300, seed: int = 0, fill: float | None = None) -> tuple[FeatureTable, dict[str, Any]]:
    """Write the same table in numbers: a column for each colour, the median, and whether the number was missing."""
    columns = columns_of(rows, seed)
    absent = np.isnan(columns["weight"])
    fill = float(np.nanmedian(columns["weight"])) if fill is None else fill
    plain: dict[str, Any] = {name: (columns["colour"] == name).astype(float) for name in COLOURS}
    plain |= {"weight": np.where(absent, fill, columns["weight"]), "absent": absent.astype(float)}
    plain |= {"noise": columns["noise"], "y": columns["y"]}
    return table_of(plain, {"colour": COLOURS, "weight": ("weight", "absent"), "noise": ("noise",)}), plain


@cache
def built(*, hand: bool = False) -> IndexPlan:
    table = by_hand()[0] if hand else mixed()
    return fit(table, IndexOptions(alpha=0.0), np.random.default_rng(0), BuildContext()).plan


def items_of(columns: dict[str, Any], rows: int) -> list[dict[str, Any]]:
    """Write items as a caller would: null for what is missing."""
    cells = {name: column.tolist() for name, column in columns.items() if name != "y"}
    return [
        {name: None if column[row] != column[row] else column[row] for name, column in cells.items()}
        for row in range(rows)
    ]


def test_an_index_of_cells_is_that_of_the_same_numbers_written_by_hand() -> None:
    plan, plain = built(), built(hand=True)
    assert np.array_equal(plan.masks, plain.masks)
    assert plan.accuracies == pytest.approx(plain.accuracies)
    fresh = columns_of(80, seed=5)
    _, numbers = by_hand(80, seed=5, fill=float(np.nanmedian(columns_of(300)["weight"])))
    for budget in (0.0, 1.0, 2.0, 3.0):
        chosen, same = (each.decide(IndexQuery(budget=budget)) for each in (plan, plain))
        assert chosen.features == same.features
        predicted, wanted = plan.predict(chosen, items_of(fresh, 80)), plain.predict(same, items_of(numbers, 80))
        assert predicted.labels == wanted.labels


def test_what_cells_tell_is_used_and_whole_rows_are_classified_alike() -> None:
    plan, fresh = built(), mixed(600, seed=9)
    chosen = plan.decide(IndexQuery(budget=2.0))
    assert chosen.features == ("colour", "weight")
    codes = plan.classify(chosen.features, plan.encode_features(fresh))
    assert float((codes == fresh.labels).mean()) > 0.72
    predicted = plan.predict(chosen, items_of(columns_of(600, seed=9), 600))
    assert predicted.labels == tuple(plan.classes[code] for code in codes.tolist())
    dearest = replay_settings(plan, fresh)[-1].replay
    assert float(dearest.right.mean()) > 0.72


def test_a_colour_that_was_never_seen_is_none_of_them() -> None:
    plan = built()
    label, other = (plan.predict(("colour",), [{"colour": colour}]).probabilities for colour in ("mauve", None))
    assert label == other


def test_an_empty_text_is_a_missing_cell_as_in_a_table() -> None:
    for column, other in (("colour", {"weight": 1.0}), ("weight", {"colour": "red"})):
        empty, missing = (
            built().predict(("colour", "weight"), [{column: cell, **other}]).probabilities for cell in ("", None)
        )
        assert empty == missing


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"colour": "red"}, "items.0.weight: is required"),
        ({"colour": "red", "weight": "heavy"}, "items.0.weight: must be a number, got 'heavy'"),
        ({"colour": [["red"]], "weight": 1.0}, None),
    ],
)
def test_cells_that_cannot_stand_in_their_column_are_refused(item: dict[str, Any], message: str | None) -> None:
    if message is None:
        with pytest.raises(ValueError, match="colour"):
            IndexEvaluateRequest.model_validate({"budget": 1.0, "items": [{"values": item}]})
        return
    with pytest.raises(InvalidRequest, match=message):
        built().predict(("colour", "weight"), [item])


def test_an_index_of_complete_numbers_refuses_other_cells() -> None:
    plan = built(hand=True)
    for cell, value in ((None, "a missing value"), ("red", "'red'")):
        with pytest.raises(InvalidRequest, match=f"items.0.noise: must be a number, got {value}"):
            plan.predict(("noise",), [{"noise": cell}])
    with pytest.raises(InvalidRequest, match=r"dataset\.features: must have the columns"):
        plan.encode_features(mixed(20))
    with pytest.raises(InvalidRequest, match=r"dataset\.features: .*'colour'"):
        plan.encode_features(table_of(columns_of(20), {"noise": ("noise",)}))


def test_the_encoding_survives_the_archive_and_made_up_ones_are_refused() -> None:
    plan = built()
    again = codec.decode(codec.encode(plan, {}), IndexPlan)
    item = items_of(columns_of(3, seed=4), 3)
    assert again.predict(("colour", "weight"), item) == plan.predict(("colour", "weight"), item)
    changes: list[dict[str, Any]] = [
        {"cell_owners": plan.cell_owners[::-1].copy()},
        {"cell_fills": np.array([np.nan, 0.0, 0.0])},
        {"cell_offsets": plan.cell_offsets[:-1].copy()},
        {"cell_categories": COLOURS[:2]},
        {"cell_marks": np.zeros(3, dtype=np.bool_)},
    ]
    for change in changes:
        with pytest.raises(InvalidRequest, match="invalid index plan"):
            replace(plan, **change)


def test_of_many_features_those_left_out_need_no_encoding() -> None:
    """The categories stand among 21 features; rows of the whole table are classified by those that were kept."""
    rng = np.random.default_rng(2)
    columns = columns_of(150) | {f"n{at}": rng.normal(size=150) for at in range(19)}
    features = {name: (name,) for name in columns if name != "y"}
    table = table_of(columns, features, categorical=["colour"], missing=True)
    plan = fit(
        table, IndexOptions(alpha=2.0, max_models=24, any_time=False), np.random.default_rng(0), BuildContext()
    ).plan
    assert len(plan.left_out) == 2
    assert {"colour", "weight"} <= set(plan.features)
    kept = [[name for at, name in enumerate(plan.features) if mask >> at & 1] for mask in plan.masks[plan.model_sets]]
    items, values = items_of(columns, 150), plan.encode_features(table)
    for names in kept:
        predicted = plan.predict(names, items)
        assert predicted.labels == tuple(plan.classes[code] for code in plan.classify(names, values))


def run_features(plan: IndexPlan, features: Sequence[str], results: Sequence[CallResult]) -> RunAnswer:
    """Run an item whose decision is these features, and whose calls have these results."""
    steps = run_index({"features": features, "cost": 1.0}, remaining_seconds=1.0)
    runner = run_with_local_decisions(steps, make_decisions(plan, IndexQuery(budget=1e9), IN_PROCESS))
    assert next(runner).names == tuple(features)
    with pytest.raises(StopIteration) as ended:
        runner.send(CallResults(tuple(results), 1.0))
    answer: RunAnswer = ended.value.value
    return answer


def test_a_run_takes_a_name_from_a_feature_of_categories() -> None:
    plan = built()
    results = CallResult("colour", label="red"), CallResult("weight", values=(2.0,))
    answer = run_features(plan, ("colour", "weight"), results)
    wanted = plan.predict(("colour", "weight"), [{"colour": "red", "weight": 2.0}])
    assert (answer.label, answer.degraded) == (wanted.labels[0], None)


@pytest.mark.parametrize("nonsense", [CallResult("weight", label="heavy"), CallResult("weight", values=(1.0, 2.0))])
def test_a_run_does_without_a_number_that_is_none(nonsense: CallResult) -> None:
    plan = built()
    for features, left in ((("colour", "weight"), ("colour",)), (("weight",), ())):
        answer = run_features(plan, features, [*([CallResult("colour", label="red")] if left else []), nonsense])
        assert answer.label == plan.predict(left, [{"colour": "red"}]).labels[0]
        assert "other columns" in str(answer.degraded)


def test_a_run_of_features_that_no_model_is_left_for_gives_the_most_common_class() -> None:
    plan = replace(
        built(),
        model_sets=built().model_sets[-1:],
        model_offsets=built().model_offsets[-2:] - built().model_offsets[-2],
        model_numbers=built().model_numbers[built().model_offsets[-2] :],
    )
    results = (
        CallResult("colour", label="red"),
        CallResult("weight", label="heavy"),
        CallResult("noise", values=(0.1,)),
    )
    assert run_features(plan, plan.features, results).label == plan.predict((), [{}]).labels[0]
