"""What is graded, and has no classes, can be decided about: cascades, portfolios, advice and profiles work with it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import DatasetFacts, InvalidRequest, Trace, TraceSpec
from models.advice import AdviceLimits
from models.cascade import CascadeQuery
from models.portfolio import AssignmentOptions
from solvers import KINDS, BuildContext
from solvers.advice import advise
from solvers.dataset_profile import profile_dataset
from tests.support.replays import COSTS, NAMES, World, built

ROWS, FRESH = 600, 20_000
PARAMS: dict[str, dict[str, Any]] = {
    "cascade": {"target_precision": 0.8},
    "portfolio": {"samples": {"count": 8, "size": 50}},
}


def graded(world: World, graded_by: str) -> Trace:
    """Tell of a world's answers only whether they are right, or how good they are: then a wrong one is not worth 0."""
    classifiers = [
        {"name": name, "cost": cost, graded_by: f"{name}_{graded_by}", "confidence": f"{name}_sure"}
        for name, cost in zip(NAMES, COSTS, strict=True)
    ]
    columns: dict[str, Any] = {f"{name}_sure": world.confidences[:, k] for k, name in enumerate(NAMES)}
    for k, name in enumerate(NAMES):
        right = world.correct[:, k]
        columns[f"{name}_{graded_by}"] = right if graded_by == "correct" else np.where(right, 1.0, 0.25)
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
    return Trace.from_columns(spec, columns, world.embeddings)


@pytest.mark.slow
def test_told_right_or_wrong_the_cascade_and_the_portfolio_are_those_of_labels() -> None:
    world = World.of(1, ROWS)
    by_label = world.dataset("cascade")
    for kind, params in PARAMS.items():
        of_labels, of_truths = (built(kind, data, 3, **params).plan for data in (by_label, graded(world, "correct")))
        for name in of_labels.__dataclass_fields__:
            ours, theirs = getattr(of_truths, name), getattr(of_labels, name)
            if not name.startswith("_") and name != "unit":
                np.testing.assert_array_equal(ours, theirs, name)


@pytest.mark.slow
def test_what_is_expected_of_graded_answers_comes_true() -> None:
    fresh = World.of(9, FRESH)
    quality = np.where(fresh.correct, 1.0, 0.25)
    cascade = built("cascade", graded(World.of(2, 2000), "quality"), 3, **PARAMS["cascade"])
    decision = cascade.plan.decide(CascadeQuery())
    reached, waiting = np.zeros(FRESH), np.ones(FRESH, dtype=bool)
    for step in decision.steps:
        k = NAMES.index(step.classifier)
        sure = waiting & (fresh.confidences[:, k] >= (step.confidence_threshold or -np.inf))
        reached[sure] = quality[sure, k]
        waiting &= ~sure
    assert len(decision.steps) > 1
    assert cascade.plan.holdout_result(decision.cascade).accuracy == pytest.approx(reached.mean(), abs=0.03)
    portfolio = built("portfolio", graded(World.of(2, 2000), "quality"), 3, **PARAMS["portfolio"])
    options = AssignmentOptions(budget=3.0)
    assigned = portfolio.plan.assign(portfolio.plan.estimate(fresh.embeddings[:4000]), options)
    places = [NAMES.index(name) for name in assigned.assignments]
    assert assigned.estimated_accuracy == pytest.approx(quality[np.arange(4000), places].mean(), abs=0.05)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"graph": "grown"}, 'graph: is "grown", which needs classes; this trace'),
    ],
)
def test_a_policy_says_what_needs_classes(params: dict[str, Any], said: str) -> None:
    facts = DatasetFacts.from_dataset(graded(World.of(3, 100), "correct"))
    with pytest.raises(InvalidRequest, match=f"^{said}"):
        KINDS["policy"].check(facts, KINDS["policy"].options.model_validate(params))


def test_advice_compares_what_can_be_built() -> None:
    data = graded(World.of(4, ROWS), "quality")
    advice = advise(
        replace(data, embeddings=np.empty((ROWS, 0), np.float32)), AdviceLimits(budget=3.0), 0, 600, BuildContext()
    )
    assert sorted(one.kind for one in advice["kinds"]) == ["cascade", "policy"]
    assert [one.kind for one in advice["excluded"]] == ["portfolio"]
    assert {one.name for one in advice["alternatives"]} >= {f"always {name}" for name in NAMES}


def test_its_profile_has_no_classes_and_the_mean_quality() -> None:
    data = graded(World.of(5, 200), "quality")
    seen = profile_dataset(data)
    assert seen.classes == ()
    assert [one.accuracy for one in seen.classifiers] == pytest.approx(data.quality.mean(axis=0).tolist())  # type: ignore[union-attr]
    assert all(one.no_class == 0 for one in seen.classifiers)  # type: ignore[union-attr]
