"""Every kind minimizes cost plus loss: its promise holds on unseen rows, and beats what always does one thing."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from models import Dataset, FeaturesSpec, InvalidRequest, TraceSpec, dataset_from_columns
from models.cascade import CascadeQuery
from models.portfolio import RouteQuery
from parsimony.runs.steps import REJECT, Call, CallResult, CallResults, RunAnswer
from solvers import KINDS, BuildContext
from solvers.base import FitResult, make_generator
from solvers.evaluation import CompleteItems, items_from_dataset
from solvers.kind import RunContext
from tests.support.cases import first_quick
from tests.support.replays import World

LOSSES = {"a": {"b": 120.0, "c": 60.0}, "b": {"a": 15.0, "c": 15.0}, "c": {"a": 30.0, "b": 90.0}}
PARAMS: dict[str, dict[str, Any]] = {
    "cascade": {"target_precision": 0.8},
    "portfolio": {"samples": "auto"},
    "index": {},
    "policy": {"points": 8, "trees": 24, "folds": 4},
    "pipeline": {},
}
ROWS, UNSEEN = 1500, 20_000


def dataset(kind: str, seed: int, rows: int, **more: Any) -> Dataset:
    """Draw the world's rows, with losses."""
    world = World.of(seed, rows)
    plain = world.dataset(kind)
    told = {**plain.spec.model_dump(), "losses": LOSSES, **more}
    if isinstance(plain.spec, FeaturesSpec):
        return dataset_from_columns(FeaturesSpec.model_validate(told), world.features)
    return dataset_from_columns(TraceSpec.model_validate(told), world.trace, world.embeddings)


@lru_cache
def built(kind: str, reject_cost: float | None = None) -> FitResult[Any]:
    learned = dataset(kind, 1, ROWS, reject_cost=reject_cost)
    options = KINDS[kind].options.model_validate(PARAMS[kind])
    return KINDS[kind].fit(learned, options, make_generator(0), BuildContext())


def totals(kind: str, plan: Any, unseen: Dataset) -> dict[str, tuple[float, float]]:
    """Return the mean total of each setting on unseen rows, and its standard error."""
    found = {}
    for one in KINDS[kind].replay_settings(plan, unseen):
        total = one.replay.costs + unseen.loss_scale * (1 - one.replay.right)
        found[str(sorted(one.query.items()))] = float(total.mean()), float(total.std() / len(total) ** 0.5)
    return found


@pytest.mark.parametrize("reject_cost", [None, 6.0])
@pytest.mark.parametrize("kind", PARAMS)
@pytest.mark.slow
def test_the_promised_total_comes_true_and_the_best_setting_is_not_behind_baselines(
    kind: str, reject_cost: float | None
) -> None:
    fitted, unseen = built(kind, reject_cost), dataset(kind, 7, UNSEEN, reject_cost=reject_cost)
    savings = fitted.savings
    assert savings is not None
    assert savings.loss is not None
    reached = totals(kind, fitted.plan, unseen)
    error = unseen.loss_scale * (1 - savings.accuracy) ** 0.5 / savings.rows**0.5
    promised = savings.cost + savings.loss
    nearest = min(reached.values(), key=lambda one: one[0])
    assert promised == pytest.approx(nearest[0], abs=3 * error)
    other = {"cascade": "router", "portfolio": "then"}.get(kind, "-")  # what knows embeddings, or confidences
    simple = [one for one in savings.baselines if other not in one.name]
    assert nearest[0] <= min(one.cost + (one.loss or 0.0) for one in simple) + 2 * error


@pytest.mark.parametrize("kind", first_quick(sorted(PARAMS, key="index".__ne__)))
def test_a_cheap_person_answers_more_items(kind: str) -> None:
    dear, cheap = (built(kind, price).savings for price in (6.0, 0.5))
    assert dear is not None
    assert cheap is not None
    first = built(kind, 0.5).plan.costs.min() if kind == "pipeline" else 0.0  # a pipeline starts with a feature
    assert cheap.cost + (cheap.loss or 0.0) <= first + 0.5 + 1e-9
    assert cheap.cost + (cheap.loss or 0.0) < dear.cost + (dear.loss or 0.0)


@pytest.mark.parametrize("kind", first_quick(["pipeline", "cascade", "portfolio"]))
def test_explicit_equal_losses_give_the_plan_of_today(kind: str) -> None:
    equal = {one: {other: 1.0 for other in LOSSES if other != one} for one in LOSSES}
    options = KINDS[kind].options.model_validate(PARAMS[kind])
    plans: list[Any] = [
        KINDS[kind].fit(dataset(kind, 1, 400, losses=losses), options, make_generator(0), BuildContext()).plan
        for losses in (None, equal)
    ]
    for name in plans[0].__dataclass_fields__:
        np.testing.assert_array_equal(getattr(plans[0], name), getattr(plans[1], name), name)


def run(kind: str, plan: Any, query: Any, label: str, confidence: float) -> tuple[RunAnswer, list[str]]:
    """Run an item whose classifiers all give the same answer; return it, and the classifiers called."""
    started = KINDS[kind].start_run(plan, query, RunContext(remaining_seconds=10.0))
    called: list[str] = []
    try:
        call: Call = next(started.runner)
        while True:
            called += call.names
            results = tuple(CallResult(name, label, confidence) for name in call.names)
            call = started.runner.send(CallResults(results, 10.0))
    except StopIteration as ended:
        return ended.value, called


@pytest.mark.slow
def test_a_run_rejects_what_a_person_answers_for_less() -> None:
    plan = built("cascade", 6.0).plan
    assert REJECT not in KINDS["cascade"].list_called_names(plan)
    rejecting = next(
        point for point in range(len(plan.point_maxima)) if REJECT in plan.describe_point(point)["cascade"]
    )
    budget = float(plan.point_costs[rejecting] + plan.point_cost_errors[rejecting]) * (1 + 1e-9)
    answer, called = run("cascade", plan, CascadeQuery(budget=budget), "a", 0.0)
    assert answer.label is None
    assert REJECT not in called
    portfolio = built("portfolio", 0.5).plan
    answer, called = run("portfolio", portfolio, RouteQuery(query=(0.9, 0.0), budget=portfolio.min_cost), "a", 0.9)
    assert (answer.label, called) == (None, [])


@pytest.mark.parametrize(("kind", "price"), [("cascade", 6.0), ("policy", 6.0), ("portfolio", 0.5)])
def test_the_expected_coverage_of_each_point_comes_true(kind: str, price: float) -> None:
    one, fitted, unseen = KINDS[kind], built(kind, price), dataset(kind, 8, 3000, reject_cost=price)
    items, shares = items_from_dataset(unseen), list[float]()
    items = items if kind == "portfolio" else replace(items, embeddings=None)
    for point in one.curve(fitted.plan, one.curve_query()):
        chosen: dict[str, Any] = {**one.limits().model_dump(), **point.limits, "items": ()}
        found = one.evaluate(fitted.plan, one.evaluation.model_construct(**chosen), items)
        assert found.accepted is not None
        shares.append(float(found.accepted.mean()))
        assert point.expectations.coverage == pytest.approx(shares[-1], abs=0.06)
    assert min(shares) < 0.9


@pytest.mark.parametrize("kind", ["cascade", "portfolio"])
def test_rejected_items_are_evaluated_as_such(kind: str) -> None:
    fitted = built(kind, 0.5)
    assert fitted.savings is not None
    values = {
        f"{name}.{part}": value
        for name in ("fast", "middle", "strong")
        for part, value in (("label", "a"), ("confidence", 0.0))
    }
    items = CompleteItems(ids=("x",), values=(values,), embeddings=np.array([[0.9, 0.0]]), sizes=(None,), truths=("b",))
    limits = KINDS[kind].evaluation.model_construct(
        **{**KINDS[kind].limits().model_dump(), **fitted.savings.query, "items": ()}
    )
    evaluated = KINDS[kind].evaluate(fitted.plan, limits, items)
    assert evaluated.accepted is not None
    assert not evaluated.accepted[0]
    assert evaluated.labels == (None,)
    assert np.isnan(evaluated.grade_answers(items)[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confidence_threshold", 0.8),
        ("after_last_stage", "reject"),
        ("search", "exact"),
        ("positive_class", "a"),
    ],
)
def test_pipelines_refuse_options_that_losses_replace(name: str, value: Any) -> None:
    options = KINDS["pipeline"].options.model_validate({name: value})
    with pytest.raises(InvalidRequest) as refused:
        KINDS["pipeline"].fit(dataset("pipeline", 1, 100), options, make_generator(0), BuildContext())
    assert refused.value.faults[0].loc == (name,)


def test_a_classifier_of_that_name_and_prices_by_class_without_a_label_are_refused() -> None:
    spec = dataset("cascade", 1, 30).spec.model_dump()
    spec["classifiers"][0]["name"] = REJECT
    with pytest.raises(ValueError, match="reject"):
        TraceSpec.model_validate({**spec, "reject_cost": 1})
    graded = {"kind": "trace", "unit": "USD", "classifiers": [{"name": "x", "correct": "x", "cost": 1}]}
    with pytest.raises(ValueError, match="reject_cost"):
        TraceSpec.model_validate({**graded, "reject_cost": {"a": 1}})
    read = dataset_from_columns(TraceSpec.model_validate({**graded, "reject_cost": 4}), {"x": np.array([1.0, 0.0])})
    assert read.quality.tolist() == [[1.0], [0.75]]  # type: ignore[union-attr]
    assert replace(read).with_reject().quality.tolist() == [[1.0, 0.0], [0.75, 0.0]]  # type: ignore[union-attr]
