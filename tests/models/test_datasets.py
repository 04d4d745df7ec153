"""Tables are checked once and completely: each refusal names the field and the first offending row."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from models import FeaturesSpec, FeatureTable, InvalidRequest, Trace, TraceSpec, dataset_from_columns

TWO = [{"name": "f", "columns": ["a", "b"], "cost": 1.0}, {"name": "g", "columns": ["c"], "cost": 2.0}]
SIZED = {"kind": "features", "label": "y", "unit": "ms", "size": ["width", "height"], "features": TWO}
FEATURES = FeaturesSpec.model_validate(SIZED)
CLASSIFIERS = [
    {"name": "K1", "cost": {"column": "ms"}, "prediction": "p1", "confidence": "c1", "group": "g"},
    {"name": "K2", "cost": 5.0, "prediction": "p2"},
]
TRACE = TraceSpec.model_validate({"kind": "trace", "label": "y", "unit": "ms", "classifiers": CLASSIFIERS})
Columns = dict[str, NDArray[Any]]


def features() -> Columns:
    return {
        "y": np.array(["no", "yes", "no", "yes"], dtype=object),
        "width": np.array([1, 2, 3, 4]),
        "height": np.array([1.0, 2.0, 3.0, 4.0]),
        "a": np.array([1, 0, 1, 0]),
        "b": np.array([0.5, -1.5, 2.0, 0.0]),
        "c": np.array([True, False, True, False]),
    }


def trace() -> Columns:
    return {
        "y": np.array(["cat", "dog", "cat", "dog"], dtype=object),
        "p1": np.array(["cat", "cat", "owl", "dog"], dtype=object),
        "c1": np.array([0.9, 0.4, 0.3, 0.8]),
        "ms": np.array([1.0, 2.0, 0.0, 1.5]),
        "p2": np.array(["cat", "dog", "cat", "ant"], dtype=object),
    }


def faults(spec: FeaturesSpec | TraceSpec, columns: Columns, embeddings: NDArray[Any] | None = None) -> dict[str, str]:
    """Give what is wrong with a table: from the fault's place, dotted, to its message."""
    with pytest.raises(InvalidRequest) as caught:
        dataset_from_columns(spec, columns, embeddings)
    return {".".join(map(str, fault.loc)): fault.msg for fault in caught.value.faults}


def text(*cells: object) -> NDArray[Any]:
    return np.array(cells, dtype=object)


def test_a_good_table_of_features_is_kept_in_the_order_of_the_spec() -> None:
    table = dataset_from_columns(FEATURES, features())
    assert isinstance(table, FeatureTable)
    assert (table.rows, table.classes, table.labels.tolist()) == (4, ("no", "yes"), [0, 1, 0, 1])
    assert table.values.tolist() == [[1.0, 0.5, 1.0], [0.0, -1.5, 0.0], [1.0, 2.0, 1.0], [0.0, 0.0, 0.0]]
    assert table.sizes.tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]


def test_a_good_trace_codes_true_classes_first_and_strangers_after_them() -> None:
    table = dataset_from_columns(TRACE, trace())
    assert isinstance(table, Trace)
    assert table.classes == ("cat", "dog", "ant", "owl")
    assert table.labels.tolist() == [0, 1, 0, 1]
    assert table.predictions.tolist() == [[0, 0], [0, 1], [3, 0], [1, 2]]
    assert table.quality.tolist() == [[True, True], [False, True], [False, True], [True, False]]
    assert table.costs.tolist() == [[1.0, 5.0], [2.0, 5.0], [0.0, 5.0], [1.5, 5.0]]
    assert table.confidences[:, 0].tolist() == [0.9, 0.4, 0.3, 0.8]
    assert np.isnan(table.confidences[:, 1]).all()
    assert table.embeddings.shape == (4, 0)
    given = trace()
    embeddings = np.asfortranarray(np.arange(8, dtype=np.float32).reshape(4, 2))
    traced, table_of_features = (
        Trace.from_columns(TRACE, given, embeddings),
        FeatureTable.from_columns(FEATURES, features()),
    )
    assert traced.embeddings.tolist() == embeddings.tolist()
    assert traced.embeddings.flags.c_contiguous
    for name, column in trace().items():
        assert given[name].tolist() == column.tolist()
        assert given[name].flags.writeable
    for array in (table_of_features.values, table_of_features.sizes, traced.confidences, traced.costs):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 7.0


def test_the_columns_of_a_spec_are_each_named_once() -> None:
    assert FEATURES.used_columns == ("y", "width", "height", "a", "b", "c")
    assert TRACE.used_columns == ("y", "p1", "c1", "ms", "p2")
    assert FEATURES.model_copy(update={"size": "width"}).size_columns == ("width",)
    spec = FEATURES.model_copy(update={"size": None})
    assert FeatureTable.from_columns(spec, features()).sizes.shape == (4, 0)
    assert spec.used_columns == ("y", "a", "b", "c")


@pytest.mark.parametrize(
    ("spec", "columns", "name"),
    [(spec, make, name) for spec, make in ((FEATURES, features), (TRACE, trace)) for name in make()],
)
def test_a_missing_column_is_named(spec: FeaturesSpec | TraceSpec, columns: Callable[[], Columns], name: str) -> None:
    given = {other: column for other, column in columns().items() if other != name}
    assert list(faults(spec, given)) == [f"table.{name}"]
    messages = faults(spec, {})
    assert set(messages) == {f"table.{each}" for each in columns()}
    assert messages["table.y"].endswith("none")
    empty = faults(spec, {each: column[:0] for each, column in columns().items()})
    assert set(empty) == set(messages)


CellCase = tuple[Callable[[], Columns], FeaturesSpec | TraceSpec, str, NDArray[Any], str]
BAD_CELLS: list[CellCase] = [
    (features, FEATURES, "a", text("1", "x", "3", "4"), "must hold numbers, got in row 2: 'x'"),
    (features, FEATURES, "a", text("1", "2", None, "4"), "must hold numbers, got in row 3: missing"),
    (features, FEATURES, "a", text("1", "2", "3", "1_0"), "must hold numbers, got in row 4: '1_0'"),
    (features, FEATURES, "b", np.array([0.0, 1.0, np.nan, np.nan]), "must be finite and not missing; row 3 is missing"),
    (features, FEATURES, "b", np.array([0.0, np.inf, 0.0, np.nan]), "must be finite and not missing; row 2 is inf"),
    (features, FEATURES, "width", np.array([1, 2, 0, -1]), "must be above 0; row 3 is 0"),
    (features, FEATURES, "height", np.array([1.0, -0.5, 1.0, 1.0]), "must be above 0; row 2 is -0.5"),
    (features, FEATURES, "height", np.array([1.0, 1.0, 1.0, -np.inf]), "must be finite and not missing; row 4 is -inf"),
    (features, FEATURES, "y", text("a", None, "b", ""), "must not be missing or infinite; row 2 is missing"),
    (features, FEATURES, "y", text("a", "b", "c", ""), "must not be missing or infinite; row 4 is missing"),
    (features, FEATURES, "y", np.array([0.0, 1.0, np.nan, 1.0]), "must not be missing or infinite; row 3 is missing"),
    (features, FEATURES, "y", text("a", "a", "a", "a"), "must have at least 2 classes, got 'a' in 4 rows"),
    (
        features,
        FEATURES,
        "y",
        text("a", "b", "x" * 201, "a"),
        "must hold classes of at most 200 characters; row 3 has 201",
    ),
    (trace, TRACE, "y", np.array([1, 1, 1, 1]), "must have at least 2 classes, got '1' in 4 rows"),
    (trace, TRACE, "ms", np.array([1.0, 2.0, 3.0, -0.25]), "must be at least 0; row 4 is -0.25"),
    (trace, TRACE, "ms", text("1", "2", "fast", "4"), "must hold numbers, got in row 3: 'fast'"),
    (trace, TRACE, "ms", np.array([0.5, 0.5, 0.5, np.inf]), "must be finite and not missing; row 4 is inf"),
    (trace, TRACE, "p1", np.array([0.0, np.inf, 1.0, 1.0]), "must not be missing or infinite; row 2 is inf"),
    (
        trace,
        TRACE,
        "p2",
        text("x", "y", "z", "z"),
        "must have a class of 'y': row 1 has 'x', classes are ['cat', 'dog']",
    ),
]


@pytest.mark.parametrize(("make", "spec", "name", "column", "message"), BAD_CELLS)
def test_a_bad_cell_is_refused_with_its_column_and_row(
    make: Callable[[], Columns], spec: FeaturesSpec | TraceSpec, name: str, column: NDArray[Any], message: str
) -> None:
    assert faults(spec, make() | {name: column}) == {f"table.{name}": message}


def test_all_faults_of_a_table_are_told_at_once() -> None:
    columns = features() | {
        "y": text("a", "b", None, "b"),
        "width": np.array([1, 0, 1, 1]),
        "a": text("x", "1", "2", "3"),
        "b": np.array([1.0, 1.0, 1.0, np.nan]),
    }
    del columns["c"]
    assert set(faults(FEATURES, columns)) == {"table.y", "table.width", "table.a", "table.b", "table.c"}
    columns = trace() | {
        "y": text("cat", "cat", "cat", "cat"),
        "c1": np.array([np.inf, 0.0, 0.0, 0.0]),
        "ms": np.array([-1.0, 0.0, 0.0, 0.0]),
        "p2": text("cat", "x" * 201, "cat", "cat"),
    }
    messages = faults(TRACE, columns, np.zeros((3, 2), dtype=np.float32))
    assert set(messages) == {"table.y", "table.c1", "table.ms", "table.p2", "embeddings"}
    good = np.zeros((4, 2), dtype=np.float32)
    assert list(faults(TRACE, trace() | {"y": text("cat", None, "cat", "dog")}, good)) == ["table.y"]
    assert list(faults(FEATURES, features(), good)) == ["embeddings"]
    own = change_features(label="a", size=None, features=[{"name": "f", "columns": ["a"], "cost": 1}])
    assert list(faults(FeaturesSpec.model_validate(own), features())) == ["spec.features"]


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (np.zeros((3, 2), dtype=np.float32), "must have 4 rows, like the table, got 3"),
        (np.zeros((5, 2), dtype=np.float32), "must have 4 rows, like the table, got 5"),
        (np.zeros((4, 2)), "must be float32 with two dimensions, got float64 of shape (4, 2)"),
        (np.zeros((4, 2), dtype=np.int32), "must be float32 with two dimensions, got int32 of shape (4, 2)"),
        (np.zeros(4, dtype=np.float32), "must be float32 with two dimensions, got float32 of shape (4,)"),
        (np.zeros((4, 0), dtype=np.float32), "must have at least 1 column"),
        (np.array([[0, 0], [0, 0], [0, np.nan], [np.inf, 0]], dtype=np.float32), "must be finite; row 3 is not"),
    ],
)
def test_embeddings_of_the_wrong_kind_are_refused(embeddings: NDArray[Any], message: str) -> None:
    assert faults(TRACE, trace(), embeddings) == {"embeddings": message}


def change_features(**changes: object) -> dict[str, Any]:
    return {**FEATURES.model_dump(), **changes}


def change_classifier(**changes: object) -> dict[str, Any]:
    spec = TRACE.model_dump()
    first, second = spec["classifiers"]
    return {**spec, "classifiers": [first, {**second, **changes}]}


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        *(
            (FeaturesSpec, change_features(features=[{"name": n, "columns": c, "cost": 1} for n, c in some]), message)
            for some, message in (
                ([("f", ["a"]), ("f", ["b"])], "feature name must be unique, got 'f' twice"),
                ([("f", ["a"]), ("g", ["a"])], "column must be unique, got 'a' twice"),
                ([("f", ["a", "a"])], "column must be unique, got 'a' twice"),
            )
        ),
        (TraceSpec, change_classifier(name="K1"), "classifier name must be unique, got 'K1' twice"),
        (TraceSpec, change_classifier(prediction="y"), "prediction of 'K2' must not be the label column 'y'"),
        (TraceSpec, change_classifier(cost=-1.0), "greater than or equal to 0"),
        (TraceSpec, change_classifier(cost=True), "valid number"),
        (TraceSpec, change_classifier(name=""), "at least 1 character"),
        (TraceSpec, change_classifier(surprise=1), "Extra inputs are not permitted"),
        (TraceSpec, {**TRACE.model_dump(), "classifiers": []}, "at least 1 item"),
        (FeaturesSpec, change_features(features=[]), "at least 1 item"),
        (FeaturesSpec, change_features(label=None), "valid string"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(kind: type[FeaturesSpec], spec: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        kind.model_validate(spec)


def labelled(column: NDArray[Any], **more: NDArray[Any]) -> FeatureTable:
    spec = FeaturesSpec.model_validate(
        {"kind": "features", "label": "y", "unit": "ms", "features": [{"name": "x", "columns": ["x"], "cost": 1}]}
    )
    columns: Mapping[str, NDArray[Any]] = {"y": column, "x": np.zeros(len(column)), **more}
    return FeatureTable.from_columns(spec, columns)


@pytest.mark.parametrize(
    ("column", "classes"),
    [
        (np.array([10, 9, -1, 10]), ("-1", "9", "10")),
        (np.array([10.0, 9.0, -1.0]), ("-1", "9", "10")),
        (np.array([2.5, 10.0, 1.0]), ("1", "2.5", "10")),
        (np.array([1e300, 2e300, 3.0]), ("3", "1e+300", "2e+300")),
        (np.array([True, False]), ("false", "true")),
        (np.array([3, 1], dtype=np.uint8), ("1", "3")),
        (np.array([0.5, 0.1], dtype=np.float32), ("0.1", "0.5")),
        (text("b", "B", "a", "é"), ("B", "a", "b", "é")),
        (text("10", "9", "x", "2"), ("2", "9", "10", "x")),
    ],
)
def test_classes_stand_in_numerical_or_else_alphabetical_order(column: NDArray[Any], classes: tuple[str, ...]) -> None:
    table = labelled(column)
    assert table.classes == classes
    assert len(table.labels) == len(column)
    assert table.labels.dtype == np.int32


@pytest.mark.parametrize(
    ("label", "answers"),
    [
        (np.array([1, 2, 1]), np.array([1.0, 2.0, 2.5])),
        (np.array([1.0, 2.0, 1.0]), np.array([1, 2, 3])),
        (np.array([1.0, 2.0, 1.5]), np.array([1, 2, 3])),
        (np.array([1, 2, 1]), text("1", "2", "unsure")),
    ],
)
def test_1_and_1_0_are_one_class(label: NDArray[Any], answers: NDArray[Any]) -> None:
    classifiers = [{"name": "K", "cost": 1.0, "prediction": "p"}]
    spec = TraceSpec.model_validate({"kind": "trace", "label": "y", "unit": "ms", "classifiers": classifiers})
    assert Trace.from_columns(spec, {"y": label, "p": answers}).quality[:, 0].tolist() == [True, True, False]


def differs_as_written(text: str) -> bool:
    """Whether a text is a class as it stands: not a whole number with decimals, and without what NumPy cuts off."""
    return "\x00" not in text and not re.fullmatch(r"[+-]?[0-9]+\.0+\n?", text)


@given(st.lists(st.text(min_size=1, max_size=5).filter(differs_as_written), min_size=2, unique=True))
def test_coding_loses_no_class(classes: list[str]) -> None:
    table = labelled(np.array(classes, dtype=object))
    assert sorted(table.classes) == sorted(classes)
    assert [table.classes[code] for code in table.labels] == classes


@given(st.lists(st.integers(-(2**53), 2**53), min_size=2, unique=True))
def test_whole_numbers_are_coded_by_value_whatever_their_type(values: list[int]) -> None:
    integers, floats = labelled(np.array(values, dtype=np.int64)), labelled(np.array(values, dtype=np.float64))
    assert integers.classes == floats.classes == tuple(map(str, sorted(values)))
    assert integers.labels.tolist() == floats.labels.tolist()
