"""Prepared columns against scikit-learn's ColumnTransformer, cell by cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from models.arrays import Bools, Floats
from solvers.learners.table_preparation import Preparation


def by_sklearn(training: Floats, values: Floats, categorical: Bools) -> Floats:
    """Prepare all columns by a pipeline each, in the order of the columns."""
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    names = make_pipeline(
        SimpleImputer(strategy="most_frequent", keep_empty_features=True),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    transformers = [(str(i), names if own else numbers, [i]) for i, own in enumerate(categorical.tolist())]
    return np.asarray(ColumnTransformer(transformers).fit(training).transform(values), dtype=np.float64)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 6), st.floats(0, 0.9))
def test_columns_are_those_of_a_column_transformer(seed: int, rows: int, columns: int, missing: float) -> None:
    """Numbers and categories, constant columns, missing cells up to whole columns, one row, unseen categories."""
    rng = np.random.default_rng(seed)
    categorical = rng.random(columns) < 0.5
    values = np.where(categorical, rng.integers(0, 6, (rows + 20, columns)), 1e3 * rng.standard_normal(columns))
    values = values + ~categorical * (rng.random(columns) < 0.7) * rng.standard_normal((rows + 20, columns))
    values[rng.random(values.shape) < missing] = np.nan
    made = Preparation.fit(values[:rows], categorical)
    expected = by_sklearn(values[:rows], values, categorical)
    assert made.apply(values).shape == expected.shape == (rows + 20, made.widths.sum())
    assert np.allclose(made.apply(values), expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("categorical", [[True, True], [False, False], [True, False]])
def test_one_kind_of_columns_is_enough(categorical: list[bool]) -> None:
    """No numbers, no categories, or both."""
    values = np.array([[0.0, 4.0], [1.0, 5.0], [1.0, np.nan], [2.0, 4.0]])
    flags = np.array(categorical)
    assert np.allclose(Preparation.fit(values, flags).apply(values), by_sklearn(values, values, flags))


def test_what_is_missing_is_the_median_or_the_most_frequent() -> None:
    """In either case of the training rows; of equally frequent categories the first."""
    training = np.array([[1.0, 3.0], [2.0, 3.0], [6.0, 1.0], [np.nan, 1.0]])
    made = Preparation.fit(training, np.array([False, True]))
    assert made.fills.tolist() == [2.0, 1.0]
    filled = made.apply(np.array([[np.nan, np.nan]]))
    assert np.array_equal(filled, made.apply(np.array([[2.0, 1.0]])))
    assert filled[0, 1:].tolist() == [1.0, 0.0]


def test_a_category_that_was_not_there_is_none_of_those_that_were() -> None:
    """Whether above, below or between those of the training rows."""
    made = Preparation.fit(np.array([[1.0], [3.0]]), np.array([True]))
    assert made.codes.tolist() == [1, 3]
    assert made.apply(np.array([[-1.0], [2.0], [9.0], [3.0]])).tolist() == [[0, 0], [0, 0], [0, 0], [0, 1]]


def test_a_column_that_is_all_missing_says_nothing() -> None:
    """As a number it is 0 in the middle of nothing, as a category the first one; later cells are taken as they are."""
    nothing = np.full((3, 2), np.nan)
    made = Preparation.fit(nothing, np.array([False, True]))
    assert made.apply(nothing).tolist() == [[0.0, 1.0]] * 3
    assert made.apply(np.array([[2.5, 4.0]])).tolist() == [[2.5, 0.0]]
    assert made.widths.tolist() == [1, 1]


def test_a_constant_column_is_0_everywhere() -> None:
    """Its scale is 1, not 0; 0.1 has no exact mean."""
    made = Preparation.fit(np.full((7, 1), 0.1), np.array([False]))
    assert np.abs(made.apply(np.full((2, 1), 0.1))).max() < 1e-15
    assert made.scales.tolist() == [1.0]


def test_only_the_training_rows_count() -> None:
    """What is prepared later does not change what was fitted, and the input stays as it is."""
    training = np.array([[0.0, 1.0], [2.0, 0.0], [np.nan, 1.0]])
    before = training.copy()
    made = Preparation.fit(training, np.array([False, True]))
    one = made.apply(np.array([[4.0, 0.0]]))
    many = made.apply(np.array([[4.0, 0.0], [1e9, 7.0]]))
    assert np.array_equal(one[0], many[0])
    assert np.array_equal(training, before, equal_nan=True)
    numbers = made.apply(training)[:, 0]
    assert np.allclose((numbers.mean(), numbers.std()), (0, 1))
