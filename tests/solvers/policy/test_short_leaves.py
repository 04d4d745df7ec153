"""Leaves of a byte each: what they say is what was learned but for rounding, and forged ones are refused."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from app.store import codec
from models import FeatureTable, InvalidRequest
from models.policy import PolicyOptions, PolicyTarget
from solvers.policy import PolicyPlan, node_classifiers
from solvers.policy.classifier_training import RATE, TrainingRows, cut, train
from solvers.policy.piecewise_basis import Basis
from solvers.policy.sensors import Sensors
from solvers.policy.short_leaves import shortened
from solvers.policy.states import raised
from tests.solvers.policy.problems import build, items_of, many_features, table_of

GROWN = PolicyOptions(graph="grown", points=5, folds=2, trees=16, depth=3, answers="boosted")
TARGETS = (PolicyTarget(), PolicyTarget(max_item_cost=2.0), PolicyTarget(budget=2.5))
Kept = Callable[[int], PolicyPlan]


@cache
def table() -> FeatureTable:
    """Draw seven features of three classes."""
    return many_features(7)


@pytest.fixture(scope="module")
def kept() -> Kept:
    """Give the same policy with leaves as they were learned where they may be so many numbers, else short."""

    @cache
    def built(most: int) -> PolicyPlan:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node_classifiers, "MOST_SINGLES", most)
            return build(table(), GROWN)

    return built


def test_no_leaf_is_rounded_by_more_than_half_a_unit() -> None:
    leaves = np.random.default_rng(0).normal(size=(3, 2, 5, 8, 4)).astype(np.float32)
    leaves[0, 0, 0] = 0.0
    steps, units = shortened(leaves)
    assert np.all(np.abs(steps * units[..., None, None] - leaves) <= 0.5001 * units[..., None, None])
    assert not steps[0, 0, 0].any()


def test_what_is_said_of_items_is_the_same_but_for_rounding(kept: Kept) -> None:
    """Alone, in steps, as among many: items walk the same ways, and chances differ by a hundredth at most."""
    whole, short = kept(10**9), kept(0)
    names = [str(row) for row in range(table().rows)]
    for target in TARGETS:
        ran = [plan.run(plan.cells_of(table()), names, target) for plan in (whole, short)]
        assert np.mean(ran[0].walks.ends == ran[1].walks.ends) > 0.98
        alike = ran[0].walks.ends == ran[1].walks.ends
        assert np.abs(ran[0].judged - ran[1].judged)[alike].max() < 0.01
    items = items_of(table())[:80]
    few, many = (short.rollouts(some, PolicyTarget(max_item_cost=2.0)).items for some in (items[:5], items))
    assert few == many[:5]


def test_short_leaves_take_a_quarter_of_the_room_and_are_read_again(kept: Kept) -> None:
    whole, short = kept(10**9), kept(0)
    assert whole.class_leaves.nbytes == 4 * short.class_steps.nbytes > 0
    assert short.class_leaves.size == whole.class_units.size == 0
    data = codec.encode(short, {})
    assert codec.encode(codec.decode(data, PolicyPlan), {}) == data


@pytest.mark.parametrize(
    "change",
    [
        {"class_steps": lambda a: a[..., :-1]},
        {"class_steps": lambda a: a[:, :, :0]},
        {"class_units": lambda a: a[:-1]},
        {"class_units": lambda a: a[:0]},
        {"class_units": lambda a: a * np.float32(np.nan)},
        {"class_units": lambda a: a + np.float32(1e30)},
        {"class_leaves": lambda a: np.zeros((*a.shape[:-1], 3), dtype=np.float32)},
    ],
)
def test_forged_leaves_are_refused(kept: Kept, change: dict[str, Any]) -> None:
    plan = kept(0)
    changed = {name: alter(getattr(plan, name)) for name, alter in change.items()}
    with pytest.raises(InvalidRequest, match="no policy plan"):
        replace(plan, **changed)


def test_few_trees_that_learn_faster_tell_many_classes_better_apart() -> None:
    """Twenty classes, a place on a plane each: 12 trees at the rate of 80 are far from done."""
    rng = np.random.default_rng(0)
    labels = rng.integers(20, size=900)
    values = rng.normal(size=(20, 2))[labels] + 0.1 * rng.normal(size=(900, 2))
    sensors = Sensors.of(table_of(values, labels))
    parts = cut(labels.astype(np.int32), np.arange(len(labels)), 3, rng)
    rows = TrainingRows(Basis.of(sensors, values), values, labels.astype(np.int32), 20, parts)
    one, options = np.ones((1, 2), dtype=np.bool_), PolicyOptions(trees=12, answers="boosted")
    losses = []
    for rate in (RATE, raised(RATE, 80 / 12)):
        _, (chances,) = train(replace(rows, rate=rate), one, options, [0], lambda done: None)
        losses.append(-np.log(chances[np.arange(900), labels]).mean())
    assert losses[1] < 0.8 * losses[0]
