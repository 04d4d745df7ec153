"""Versions are evaluated on logged rows: replayed where rows are complete, else estimated, or refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.serving import version_evaluation
from app.serving.catalog import LoadedArtifact
from app.serving.evaluation import evaluate_in_batches, summarize_evaluation
from app.serving.version_evaluation import evaluate_version
from models import Dataset, InvalidRequest, Trace
from models.errors import SmallOverlap
from models.version_evaluation import VersionEvaluation
from solvers import KINDS
from solvers.base import IN_PROCESS
from solvers.evaluation import items_from_dataset
from tests.support.logged_rows import log_calls, log_first_call, log_one_call
from tests.support.replays import World, built

PARAMS: dict[str, dict[str, Any]] = {
    "portfolio": {"curve_points": 5},
    "policy": {"folds": 3, "points": 3, "trees": 5},
    "index": {"folds": 2},
}


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(4, 300)


@pytest.fixture(scope="module")
def fresh() -> World:
    return World.of(5, 1500)


@pytest.fixture(scope="module")
def artifacts(world: World) -> dict[str, LoadedArtifact[Any]]:
    return {kind: built(kind, world.dataset(kind, measured=True), **PARAMS.get(kind, {})) for kind in KINDS}


def evaluated(
    loaded: LoadedArtifact[Any], dataset: Dataset, active: LoadedArtifact[Any] | None = None, **limits: Any
) -> VersionEvaluation:
    asked = loaded.kind.limits.model_validate(limits)
    return evaluate_version(loaded, active or loaded, asked, "log", dataset, IN_PROCESS)


@pytest.mark.parametrize("kind", KINDS)
def test_complete_rows_are_replayed_as_the_evaluation_does(
    kind: str, fresh: World, artifacts: dict[str, LoadedArtifact[Any]]
) -> None:
    loaded, dataset = artifacts[kind], fresh.dataset(kind, measured=True)
    found = evaluated(loaded, dataset)
    limits = loaded.kind.limits()
    complete = items_from_dataset(dataset)
    if kind != "portfolio":
        complete = replace(complete, embeddings=None)
    items = [one for some in evaluate_in_batches(loaded, limits, complete, IN_PROCESS) for one in some]
    summary = summarize_evaluation(items, ())
    assert found.figures.accuracy.method == found.figures.cost.method == "replay"
    assert found.figures.cost.value == pytest.approx(summary.cost)
    assert found.figures.accuracy.value == pytest.approx((summary.accuracy or 0.0) * summary.coverage)
    assert found.figures.accuracy.effective_rows == found.supported_rows == found.rows == dataset.rows
    assert found.figures.accuracy.snips is None
    assert [one.compared_with for one in found.comparisons] == ["best_single"] * isinstance(dataset, Trace)


@pytest.mark.parametrize(("kind", "log"), [("portfolio", log_one_call), ("cascade", log_first_call)])
def test_partial_rows_are_estimated(
    kind: str, log: Any, fresh: World, artifacts: dict[str, LoadedArtifact[Any]]
) -> None:
    loaded, dataset = artifacts[kind], fresh.dataset(kind, measured=True)
    truth, found = evaluated(loaded, dataset).figures, evaluated(loaded, log(dataset))
    for name in ("accuracy", "cost"):
        known, one = getattr(truth, name), getattr(found.figures, name)
        assert one.method == "doubly_robust"
        assert one.interval[0] <= known.value <= one.interval[1]
        assert one.snips.interval[0] <= known.value <= one.snips.interval[1]
        assert 30 < one.effective_rows < 0.8 * dataset.rows
    assert found.supported_rows < dataset.rows
    logged = found.comparisons[0]
    assert logged.compared_with == "logged"
    assert logged.figures is not None
    assert logged.figures.accuracy.method == "replay"


def test_a_policy_is_replayed_where_its_path_was_logged(
    fresh: World, artifacts: dict[str, LoadedArtifact[Any]]
) -> None:
    dataset = fresh.dataset("policy", measured=True)
    complete = evaluated(artifacts["policy"], dataset).figures.cost.value
    found = evaluated(artifacts["policy"], log_first_call(dataset, 0.5))
    low, high = found.figures.cost.interval
    assert low <= complete <= high
    assert 0 < found.supported_rows < dataset.rows


def test_differences_are_of_paired_rows(fresh: World, artifacts: dict[str, LoadedArtifact[Any]]) -> None:
    loaded, dataset = artifacts["cascade"], fresh.dataset("cascade", measured=True)
    active = replace(loaded, ref=loaded.ref.model_copy(update={"version": 2}))
    found = evaluated(loaded, dataset, active, budget=6.0)
    assert found.limits == {"budget": 6.0}
    other = {one.compared_with: one for one in found.comparisons}
    same = other["active"].differences
    assert same is not None
    assert (same.accuracy.value, same.accuracy.interval, same.cost.interval) == (0.0, (0.0, 0.0), (0.0, 0.0))
    single = other["best_single"]
    assert single.name == "always strong"
    assert single.figures is not None
    assert single.differences is not None
    assert single.differences.cost.value == pytest.approx(found.figures.cost.value - single.figures.cost.value)
    assert single.differences.cost.interval[1] < 0


def test_rows_without_the_calls_of_a_version_are_refused_with_numbers(
    fresh: World, artifacts: dict[str, LoadedArtifact[Any]]
) -> None:
    dataset = fresh.dataset("cascade", measured=True)
    only_first = np.tile([True, False, False], (dataset.rows, 1))
    only_first[:5] = True
    with pytest.raises(SmallOverlap) as refused:
        evaluated(artifacts["cascade"], log_calls(dataset, only_first, np.ones(only_first.shape)))
    assert refused.value.overlap is not None
    assert refused.value.overlap.rows == dataset.rows
    assert refused.value.overlap.covered < 0.9


def test_losses_are_estimated_where_errors_have_some(fresh: World, artifacts: dict[str, LoadedArtifact[Any]]) -> None:
    dataset = fresh.dataset("cascade", measured=True)
    assert isinstance(dataset, Trace)
    priced = replace(dataset, loss_scale=40.0)
    found = evaluated(artifacts["cascade"], priced).figures
    assert found.loss is not None
    assert found.loss.value == pytest.approx(40 * (1 - found.accuracy.value))


def test_datasets_that_do_not_fit_are_refused(fresh: World, artifacts: dict[str, LoadedArtifact[Any]]) -> None:
    for kind, dataset in (
        ("cascade", fresh.dataset("index")),
        ("index", fresh.dataset("cascade")),
        ("portfolio", replace(fresh.dataset("portfolio"), embeddings=np.zeros((1500, 5), dtype=np.float32))),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidRequest) as refused:
            evaluated(artifacts[kind], dataset)
        assert refused.value.faults[0].loc == ("on",)


def test_of_a_long_dataset_a_sample_is_evaluated(
    fresh: World, artifacts: dict[str, LoadedArtifact[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_evaluation, "MAX_ROWS", 200)
    assert evaluated(artifacts["cascade"], fresh.dataset("cascade")).rows == 200
