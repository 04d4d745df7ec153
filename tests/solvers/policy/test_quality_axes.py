"""Axes of quality: the penalty that leaving rows out chooses; no row meets what its own answers taught."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from models import Trace, TraceSpec, dataset_from_columns
from models.policy import PolicyOptions, PolicyTarget
from solvers import BuildContext
from solvers.policy import fit
from solvers.policy.classifier_training import assign_training_folds
from solvers.policy.quality_axes import RIDGE_PENALTIES, add_quality_axes, fit_ridge
from solvers.policy.sensors import Sensors


def hidden(rows: int, seed: int, *, useless: bool = False, dimensions: int = 40) -> Trace:
    """Draw two classifiers one of which is right where the other is not, as a direction tells along which embeddings
    differ least; useless: as nothing tells."""
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(rows, dimensions)) * np.geomspace(5, 1, dimensions)
    side = rng.random(rows) < 0.5 if useless else embeddings[:, -1] > 0
    right = np.column_stack([rng.random(rows) < np.where(own, 0.9, 0.3) for own in (side, ~side)]).astype(np.float64)
    classifiers = [{"name": f"m{m}", "cost": 1.0, "quality": f"m{m}"} for m in range(2)]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
    made = dataset_from_columns(spec, {f"m{m}": right[:, m] for m in range(2)}, embeddings.astype(np.float32))
    assert isinstance(made, Trace)
    return made


def with_axes(dataset: Trace, folds: int = 4) -> tuple[Sensors, Any, Any]:
    sensors = Sensors.from_dataset(dataset, embeds=True)
    parts = assign_training_folds(dataset.labels, dataset.item_codes, folds, np.random.default_rng(0))
    cells = sensors.read_cells(dataset)
    return *add_quality_axes(sensors, cells, dataset.embeddings, dataset.quality, parts), parts


@pytest.mark.parametrize("shape", [(12, 20), pytest.param((30, 4), marks=pytest.mark.slow)])
def test_each_target_has_the_penalty_that_misses_rows_left_out_the_least(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    inputs = rng.normal(size=shape)
    targets = np.column_stack((inputs[:, 0] + 0.1 * rng.normal(size=shape[0]), rng.normal(size=shape[0])))
    off = inputs - inputs.mean(axis=0)
    unit = (np.linalg.svd(off, compute_uv=False) ** 2).mean()
    for column, fitted in zip(targets.T, fit_ridge(inputs, targets).T, strict=True):
        models = [Ridge(alpha=strength * unit) for strength in RIDGE_PENALTIES]
        missed = [((cross_val_predict(m, inputs, column, cv=LeaveOneOut()) - column) ** 2).sum() for m in models]
        oracle = models[int(np.argmin(missed))].fit(inputs, column)
        assert fitted == pytest.approx(oracle.coef_, abs=0.02)


def test_what_matters_is_seen_where_other_directions_differ_more() -> None:
    fresh = hidden(3000, 1)
    sensors, _, _ = with_axes(hidden(600, 0))
    shown = sensors.read_cells(fresh)[:, -2:]
    for m in range(2):
        assert abs(np.corrcoef(shown[:, m], fresh.embeddings[:, -1])[0, 1]) > 0.8


def test_no_row_shows_what_its_own_answers_taught() -> None:
    dataset = hidden(300, 0, useless=True, dimensions=200)
    _, cells, parts = with_axes(dataset)
    changed = dataset.quality.copy()
    changed[parts == 1] = 1 - changed[parts == 1]
    sensors = Sensors.from_dataset(dataset, embeds=True)
    _, other = add_quality_axes(sensors, sensors.read_cells(dataset), dataset.embeddings, changed, parts)
    assert np.array_equal(other[parts == 1], cells[parts == 1])
    assert not np.array_equal(other[parts == 0], cells[parts == 0])


def test_a_new_item_shows_the_mean_of_what_the_folds_taught() -> None:
    dataset = hidden(200, 0)
    sensors, cells, parts = with_axes(dataset)
    said = sensors.read_cells(dataset)
    assert said.shape == cells.shape
    assert said[:, :-2] == pytest.approx(cells[:, :-2])
    assert sensors.embedding is not None
    centred = dataset.embeddings - dataset.embeddings.mean(axis=0)
    mean = np.mean([fit_ridge(centred[parts != k], dataset.quality[parts != k]) for k in range(4)], axis=0)
    assert said[:, -2:] == pytest.approx(centred @ mean, abs=1e-4)


@pytest.mark.parametrize("coordinate", [0.0, 3e38])
def test_rows_that_are_all_alike_show_nothing(coordinate: float) -> None:
    embeddings = np.full((60, 8), coordinate, dtype=np.float32)
    assert not fit_ridge(embeddings.clip(-1e6, 1e6).astype(np.float64), np.random.default_rng(0).random((60, 2))).any()


def test_a_policy_sends_items_to_who_is_right_about_them() -> None:
    dataset, fresh = hidden(700, 2), hidden(2000, 3)
    options = PolicyOptions(trees=16, depth=3, folds=3, tradeoffs=(0.0,), embeddings=True)
    plan = fit(dataset, options, np.random.default_rng(0), BuildContext()).plan
    labels = plan.run(plan.cells_of(fresh), [str(row) for row in range(fresh.rows)], PolicyTarget(budget=1.0)).labels
    assert fresh.quality[np.arange(fresh.rows), labels].mean() > 0.8


@pytest.mark.parametrize("scale", [1e-12, 1e-30])
def test_embeddings_that_hardly_differ_make_a_plan_that_can_be_kept(scale: float) -> None:
    dataset = hidden(100, 4, dimensions=8)
    tiny = replace(dataset, embeddings=(dataset.embeddings * scale).astype(np.float32))
    options = PolicyOptions(trees=16, depth=3, folds=2, tradeoffs=(0.0,), embeddings=True)
    plan = fit(tiny, options, np.random.default_rng(0), BuildContext()).plan
    plan.check()
    assert plan.embedding_axes.shape == (8, 3)
