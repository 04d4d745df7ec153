"""Probabilities of a policy's classifiers are calibrated per class, if errors have unequal losses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.arrays import Floats, Int32s
from models.policy import PolicyOptions
from solvers import BuildContext
from solvers.policy import PolicyPlan, class_calibration, fit
from solvers.policy.class_calibration import STRENGTH, VectorScaling, cross_fit_scalings
from solvers.policy.node_classifiers import to_probabilities
from solvers.statistics import softmax
from solvers.trees.oblivious_trees import Forest

CLASSES = 6


def draw_rows(rows: int, seed: int, scales: Floats) -> tuple[Floats, Int32s]:
    """Draw logits and labels; the true logits are ``scales`` times the centered ones."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (rows, len(scales)))
    true = softmax((logits - logits.mean(axis=1, keepdims=True)) * scales)
    return logits, (true.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).astype(np.int32)


def penalized_loss(logits: Floats, labels: Int32s, scaling: VectorScaling, strength: float) -> float:
    chances = softmax(scaling.scale_logits(logits))[np.arange(len(labels)), labels]
    moved = ((scaling.scales - 1) ** 2).sum() + (scaling.offsets**2).sum()
    return float(-np.log(chances).sum() + strength * moved)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(2, 60), st.sampled_from([0.1, 1.0, STRENGTH, 1000.0]), st.integers(0, 10_000))
def test_no_other_scaling_near_it_has_a_smaller_loss(classes: int, rows: int, strength: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, labels = draw_rows(rows, seed, rng.uniform(0.3, 3, classes))
    best = VectorScaling.fit(logits, labels, strength)
    least = penalized_loss(logits, labels, best, strength)
    for size in (1.0, 0.1, 0.01):
        scales, offsets = rng.normal(0, size, (2, classes))
        other = VectorScaling(best.scales + scales, best.offsets + offsets)
        assert penalized_loss(logits, labels, other, strength) >= least - 1e-4


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(0, 10_000))
def test_a_calibrated_forest_has_the_calibrated_logits(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    splits = rng.integers(3, size=(4, 2)).astype(np.int32), rng.normal(size=(4, 2))
    leaves = rng.normal(size=(4, 4, classes)).astype(np.float32)
    forest = Forest(rng.normal(size=classes).astype(np.float32), *splits, leaves)
    scaling, rows = VectorScaling(rng.uniform(0.5, 2, classes), rng.normal(size=classes)), rng.normal(size=(80, 3))
    expected = softmax(scaling.scale_logits(forest.predict(rows).astype(np.float64)))
    found = to_probabilities(scaling.scale_forest(forest).predict(rows), classless=False)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_scales_of_each_class_are_found() -> None:
    scales = np.array([0.5, 1.0, 2.0, 3.0])
    logits, labels = draw_rows(40_000, 0, scales)
    folds = np.arange(len(labels)) % 5
    found = cross_fit_scalings(logits, labels, folds, None)
    assert len(found) == 5
    for each in found:
        np.testing.assert_allclose(each.scales, scales, atol=0.1)
        np.testing.assert_allclose(each.offsets - each.offsets.mean(), 0.0, atol=0.1)


@pytest.mark.parametrize("rows", [60, 400, 4000])
def test_calibrated_probabilities_stay_as_they_are(rows: int) -> None:
    kept = 0
    for seed in range(20):
        logits, labels = draw_rows(rows, seed, np.ones(3))
        kept += not cross_fit_scalings(logits, labels, np.arange(rows) % 5, None)
    assert kept >= 16  # a gain of more than a standard error happens by chance


def test_labels_of_a_fold_do_not_change_its_scaling() -> None:
    logits, labels = draw_rows(4000, 1, np.array([0.4, 2.5, 2.5]))
    folds = np.arange(len(labels)) % 4
    changed = (folds == 2) & (np.random.default_rng(0).random(len(labels)) < 0.03)
    other = np.where(changed, (labels + 1) % 3, labels).astype(np.int32)
    first, second = (cross_fit_scalings(logits, each, folds, None) for each in (labels, other))
    np.testing.assert_allclose(first[2].scales, second[2].scales, rtol=1e-4)  # their start is fitted to all rows
    assert np.abs(first[1].scales / second[1].scales - 1).max() > 0.01


def test_copies_of_items_do_not_make_a_gain_certain() -> None:
    logits, labels = draw_rows(60, 3, np.array([1.0, 1.6]))
    copies = np.repeat(np.arange(60), 100)
    alone, together = (
        cross_fit_scalings(logits[copies], labels[copies], copies % 3, items) for items in (None, copies)
    )
    assert len(alone) == 3
    assert together == []


def make_table(rows: int, seed: int, losses: dict[str, dict[str, float]]) -> FeatureTable:
    rng = np.random.default_rng(seed)
    label = rng.integers(CLASSES, size=rows)
    centers = np.random.default_rng(99).normal(0, 1.2, (CLASSES, 4))
    cells = centers[label] + rng.normal(size=(rows, 4))
    columns: dict[str, Any] = {f"x{at}": cells[:, at] for at in range(4)} | {"label": label}
    features = [{"name": f"x{at}", "columns": [f"x{at}"], "cost": 0.01} for at in range(4)]
    spec = {"kind": "features", "label": "label", "unit": "EUR", "features": features, "losses": losses}
    made = dataset_from_columns(FeaturesSpec.model_validate(spec), columns)
    assert isinstance(made, FeatureTable)
    return made


def log_loss(plan: PolicyPlan, fresh: FeatureTable) -> float:
    every = len(plan.members) - 1
    chances = plan._classifiers.mean_posteriors(every, plan.cells_of(fresh))
    return float(-np.log(chances[np.arange(fresh.rows), fresh.labels]).mean())


def test_probabilities_are_closer_to_the_truth_on_fresh_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    names = [str(each) for each in range(CLASSES)]
    losses = {a: {b: float(rng.uniform(1, 50)) for b in names if a != b} for a in names}
    options = PolicyOptions(trees=8, points=4, graph="subsets")
    learned, fresh = make_table(800, 1, losses), make_table(20_000, 2, losses)

    def build_plan() -> PolicyPlan:
        return fit(learned, options, np.random.default_rng(0), BuildContext()).plan

    calibrated = log_loss(build_plan(), fresh)

    monkeypatch.setattr(class_calibration, "cross_fit_scalings", lambda *rows: [])
    assert calibrated < 0.97 * log_loss(build_plan(), fresh)


@pytest.mark.parametrize("loss", [1.0, 2.0])
def test_equal_losses_change_no_classifier(monkeypatch: pytest.MonkeyPatch, loss: float) -> None:
    def raise_error(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(class_calibration, "cross_fit_scalings", raise_error)
    names = [str(each) for each in range(CLASSES)]
    equal = {a: {b: loss for b in names if a != b} for a in names}
    fit(make_table(200, 1, equal), PolicyOptions(trees=8, points=2), np.random.default_rng(0), BuildContext())
