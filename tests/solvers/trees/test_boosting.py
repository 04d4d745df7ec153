"""Boosted trees: they learn, agree with their own arrays, and never see what they were not given."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from solvers.trees.boosting import BinnedTable, BoostingParams, boost_classes, boost_regression
from solvers.trees.oblivious_trees import STAGE_TREES, Forest

GROWTH = BoostingParams(trees=60, depth=3, rate=0.2, ridge=1.0)


def drawn(rows: int = 800) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw inputs and two targets that need two columns each."""
    x = np.random.default_rng(0).uniform(-1, 1, (rows, 4))
    return x, np.stack([np.where(x[:, 0] > 0.2, x[:, 1], 0.0), np.abs(x[:, 2])], axis=1)


@pytest.mark.kernel
def test_a_forest_regresses_several_outputs_at_once() -> None:
    x, y = drawn()
    forest = boost_regression(BinnedTable.from_inputs(x[:600]), y[:600], GROWTH, np.random.default_rng(1))
    error = np.square(forest.predict(x[600:]) - y[600:]).mean(axis=0)
    assert np.all(error < 0.2 * y[600:].var(axis=0))


def test_thresholds_ask_of_numbers_what_bins_asked() -> None:
    """Evaluated on the rows it grew on, a forest without shrinkage to zero leaves means of its leaves alone."""
    x, y = drawn(200)
    one = boost_regression(
        BinnedTable.from_inputs(x), y[:, :1], BoostingParams(1, 2, 1.0, 1e-9), np.random.default_rng(1)
    )
    predicted, places = one.predict(x)[:, 0], one.find_leaves(x)[:, 0]
    for leaf in np.unique(places):
        assert predicted[places == leaf] == pytest.approx(y[places == leaf, 0].mean(), abs=1e-5)


def test_the_first_question_is_the_best_split_of_all() -> None:
    """Depth 1, one tree, one output: no threshold on any column leaves less variance."""
    x, y = drawn(120)
    one = boost_regression(
        BinnedTable.from_inputs(x), y[:, :1], BoostingParams(1, 1, 1.0, 1e-9), np.random.default_rng(1)
    )
    reached = np.square(one.predict(x)[:, 0] - y[:, 0]).sum()
    best = min(
        sum(np.square(part - part.mean()).sum() for part in (y[x[:, f] <= t, 0], y[x[:, f] > t, 0]) if len(part))
        for f in range(4)
        for t in BinnedTable.from_inputs(x).edges[f]
    )
    assert reached == pytest.approx(best, rel=1e-4)


@pytest.mark.kernel
def test_classes_get_probabilities_near_the_true_ones() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-2, 2, (3000, 2))
    truth = softmax(np.stack([np.zeros(3000), 1.5 * x[:, 0], np.sign(x[:, 1])], axis=1), axis=1)
    labels = (rng.random(3000)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    forest = boost_classes(BinnedTable.from_inputs(x[:2000]), labels[:2000], 3, GROWTH, rng)
    assert np.abs(softmax(forest.predict(x[2000:]), axis=1) - truth[2000:]).mean() < 0.07


def test_columns_that_say_nothing_are_no_trouble() -> None:
    x, y = np.ones((50, 3)), np.arange(50.0)[:, None]
    forest = boost_regression(BinnedTable.from_inputs(x), y, GROWTH, np.random.default_rng(0))
    assert forest.predict(x)[:, 0] == pytest.approx(24.5, abs=1e-3)


def test_equal_seeds_grow_equal_forests() -> None:
    x, y = drawn(300)
    first, second = (
        boost_regression(BinnedTable.from_inputs(x), y, GROWTH, np.random.default_rng(7)) for _ in range(2)
    )
    assert first.leaves.tobytes() == second.leaves.tobytes()


def test_a_forest_cut_short_says_what_its_first_trees_said() -> None:
    x, y = drawn(200)
    forest = boost_regression(BinnedTable.from_inputs(x), y, GROWTH, np.random.default_rng(3))
    losses = forest.staged_losses(x, lambda outputs: float(np.square(outputs - y).sum()))
    for trees in (0, 4, 16, 60):
        cut = forest.keep_first(trees)
        assert np.square(cut.predict(x) - y).sum() == pytest.approx(losses[trees // STAGE_TREES], rel=1e-4)


def test_many_rows_are_evaluated_in_parts_alike() -> None:
    rng = np.random.default_rng(0)
    forest = Forest(
        np.zeros(400, np.float32),
        np.zeros((30, 1), np.int32),
        np.zeros((30, 1)),
        rng.random((30, 2, 400)).astype(np.float32),
    )
    x = rng.normal(size=(1000, 1))
    whole = forest.predict(x)
    assert whole[990:] == pytest.approx(forest.predict(x[990:]), abs=1e-4)
    assert forest.predict(x[:5], np.array([3])) == pytest.approx(whole[:5, [3]], abs=1e-4)


def test_rows_come_to_the_same_leaves_alone_and_among_many() -> None:
    x, y = drawn(300)
    forest = boost_regression(BinnedTable.from_inputs(x), y, GROWTH, np.random.default_rng(1))
    alone = np.concatenate([forest.find_leaves(row[None]) for row in x])
    assert np.array_equal(forest.find_leaves(x), alone)
    assert np.array_equal(forest.predict(x), np.concatenate([forest.predict(row[None]) for row in x]))
    for row, places in zip(x[:5], alone, strict=False):
        for tree, place in enumerate(places):
            above = row[forest.columns[tree]] > forest.thresholds[tree]
            assert place == int("".join(str(int(each)) for each in above), 2) + (tree << len(above))
