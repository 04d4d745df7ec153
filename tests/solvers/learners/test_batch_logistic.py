"""Many logistic regressions at once, against scikit-learn's one at a time, and against the condition of a minimum."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from models.arrays import Floats, Int64s
from solvers.learners.batch_logistic import fit_sets, predict_probabilities

STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
CLOSE = 1e-6


def drawn(seed: int, rows: int, columns: int, classes: int = 2, noise: float = 1.0) -> tuple[Floats, Int64s]:
    """Draw standardised columns that depend on each other, and labels that depend on them; every class has a row."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((rows, columns)) @ (np.eye(columns) + 0.4 * rng.standard_normal((columns, columns)))
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    scores = table @ rng.standard_normal((columns, classes)) + noise * rng.gumbel(size=(rows, classes))
    labels = scores.argmax(axis=1)
    labels[:classes] = np.arange(classes)
    return table, labels


def by_sklearn(table: Floats, labels: Int64s, C: float) -> Floats:
    """Train one model to the end: (k, d + 1)."""
    model = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-13, max_iter=1000).fit(table, labels)
    return np.column_stack((model.coef_, model.intercept_))


def slopes(model: Floats, table: Floats, labels: Int64s, classes: int, C: float) -> Floats:
    """Differentiate the loss, written down once more: (k, d + 1), 0 at the minimum."""
    scores = table @ model[:, :-1].T + model[:, -1]
    scores = np.column_stack((np.zeros(len(table)), scores)) if len(model) == 1 else scores
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    off = shares / shares.sum(axis=1, keepdims=True) - np.eye(classes)[labels]
    off = off[:, 1:] if len(model) == 1 else off
    return np.column_stack((C * off.T @ table + model[:, :-1], C * off.sum(axis=0)))


def agree(ours: Floats, theirs: Floats) -> None:
    """Compare coefficients to 1e-6 of the largest, or of 1."""
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() <= CLOSE * max(1.0, np.abs(theirs).max())


def compare(table: Floats, labels: Int64s, classes: int, sets: Sequence[Sequence[int]], C: float) -> None:
    """Train all sets together; each must be what scikit-learn finds for it alone."""
    for columns, model in zip(sets, fit_sets(table, labels, classes, sets, C), strict=True):
        agree(model, by_sklearn(table[:, list(columns)], labels, C))


@pytest.mark.parametrize("C", STRENGTHS)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_coefficients_are_those_of_scikit_learn(classes: int, C: float) -> None:
    """Sets of all sizes in one call, from one column to all; few of them, so that each starts from nothing."""
    table, labels = drawn(1, 150, 6, classes)
    compare(table, labels, classes, [[3], [5, 0], [0, 1, 2, 3, 4, 5], [2]], C)


@pytest.mark.parametrize("C", STRENGTHS)
@pytest.mark.parametrize("classes", [2, 3])
def test_all_sets_together_are_those_of_scikit_learn(classes: int, C: float) -> None:
    """So many that the model of all columns is trained first and shows the others where to start."""
    table, labels = drawn(2, 120, 5, classes)
    compare(table, labels, classes, [each for size in range(1, 6) for each in combinations(range(5), size)], C)


@settings(max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(4, 60), st.integers(1, 8), st.integers(2, 4), st.floats(-2, 3), st.floats(0, 3)
)
def test_what_is_found_is_a_minimum(
    seed: int, rows: int, columns: int, classes: int, magnitude: float, noise: float
) -> None:
    """The loss is convex: where its slope is 0 is its one minimum. Few rows, separable ones, and any C between."""
    table, labels = drawn(seed, rows, columns, classes, noise)
    C = 10.0**magnitude
    sets = [each for size in range(1, columns + 1) for each in combinations(range(columns), size)][:40]
    for own, model in zip(sets, fit_sets(table, labels, classes, sets, C), strict=True):
        gradient = slopes(model, table[:, list(own)], labels, classes, C)
        assert np.abs(gradient).max() <= 1e-6 * max(1.0, C * rows**0.5, np.abs(model).max())


@pytest.mark.parametrize("C", STRENGTHS)
def test_separable_rows_have_finite_coefficients(C: float) -> None:
    """The penalty bounds them; alone and among many sets."""
    table = np.column_stack((np.repeat([-1.0, 1.0], 20), drawn(3, 40, 3)[0]))
    labels = np.repeat([0, 1], 20)
    compare(table, labels, 2, [[0], [0, 1], [0, 1, 2, 3]] * 4, C)


@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_constant_and_equal_columns_do_no_harm(classes: int, C: float) -> None:
    """Two equal columns have equal coefficients. A column of zeros, or of ones, has 0: the intercept does its work, and
    is not penalised."""
    table, labels = drawn(4, 90, 2, classes)
    table = np.column_stack((table, table[:, 0], np.zeros(90), np.ones(90)))
    compare(table, labels, classes, [[0, 2], [0, 1, 2, 3], [4, 0]], C)
    shares = np.log(np.bincount(labels))
    level = shares[1:] - shares[0] if classes == 2 else shares - shares.mean()
    for repeats in (1, 6):
        equal, zeros, ones = fit_sets(table, labels, classes, [[0, 2], [3], [4]] * repeats, C)[-3:]
        assert np.allclose(equal[:, 0], equal[:, 1], rtol=0, atol=1e-8 * max(1.0, np.abs(equal).max()))
        for alone in (zeros, ones):
            agree(alone, np.column_stack((np.zeros(len(level)), level)))


def test_few_rows_are_enough() -> None:
    """One row of each class, more columns than rows."""
    table, labels = np.random.default_rng(5).standard_normal((2, 4)), np.array([0, 1])
    compare(table, labels, 2, [[0], [0, 1, 2, 3], [1, 3]], 1.0)
    compare(np.vstack((table, table[:1] + 1)), np.array([0, 1, 2]), 3, [[0], [0, 1, 2, 3]], 1.0)


def test_rare_classes_have_the_intercepts_of_scikit_learn() -> None:
    """The intercept is not penalised: it goes far where a class is rare."""
    table, labels = drawn(6, 400, 3)
    labels = (np.arange(400) % 100 == 0).astype(np.int64)
    compare(table, labels, 2, [[0], [1, 2], [0, 1, 2]], 0.01)


def test_the_order_and_number_of_sets_do_not_matter() -> None:
    """A set's model is its own, whoever is trained beside it, equal sets included."""
    table, labels = drawn(7, 200, 7, 3)
    sets = [each for size in range(1, 5) for each in combinations(range(7), size)]
    together = fit_sets(table, labels, 3, sets)
    for place in (0, 11, 40, 97):
        agree(fit_sets(table, labels, 3, [sets[place]])[0], together[place])
    backwards = fit_sets(table, labels, 3, [*sets[::-1], sets[0]])
    for one, other in zip(backwards[:-1], together[::-1], strict=True):
        agree(one, other)
    agree(backwards[-1], together[0])
    assert fit_sets(table, labels, 3, []) == []


@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_are_those_of_scikit_learn(classes: int) -> None:
    """Of one model, and of a stack of models each with its own rows."""
    table, labels = drawn(8, 100, 3, classes)
    model = fit_sets(table, labels, classes, [[0, 1, 2]])[0]
    theirs = LogisticRegression(solver="newton-cholesky", tol=1e-13).fit(table, labels).predict_proba(table)
    assert np.allclose(predict_probabilities(model, table.T), theirs.T, rtol=0, atol=1e-7)
    stacked = predict_probabilities(np.stack((model, model)), np.stack((table.T, -table.T)))
    assert stacked.shape == (2, classes, 100)
    assert np.array_equal(stacked[0], predict_probabilities(model, table.T))
    assert np.array_equal(stacked[1], predict_probabilities(model, -table.T))
