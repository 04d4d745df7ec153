"""From a table to a plan: parts, front, figures, and walks that reproduce them."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, InvalidRequest
from models.errors import Infeasible
from models.pipeline import Acquire, Classify, Configuration, Evolution, PipelineOptions, PipelineQuery, Reject
from solvers.base import BuildContext, FitResult
from solvers.evaluation import items_from_dataset
from solvers.pipeline import PipelinePlan, kind
from solvers.pipeline.configurations import count_configurations
from solvers.pipeline.prepared_data import split_rows_by_class
from tests.support.cases import first_quick
from tests.support.samples import MIXED_SPEC, mixed_columns


def table(rows: int = 300, **more: Any) -> FeatureTable:
    """Make the sample of numbers and categories."""
    spec = FeaturesSpec.model_validate_json(json.dumps(MIXED_SPEC | more))
    return FeatureTable.from_columns(spec, mixed_columns(rows))


def wide(rows: int = 400, features: int = 6, classes: int = 3) -> FeatureTable:
    """Make several classes, of which each feature tells a little."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, classes, rows)
    values = rng.standard_normal((rows, features)) + 0.9 * (labels[:, None] == np.arange(features) % classes)
    listed = [{"name": f"f{i}", "columns": [f"f{i}"], "cost": 1.0 + i} for i in range(features)]
    spec = {"kind": "features", "label": "y", "unit": "ms", "features": listed}
    columns = {f"f{i}": values[:, i] for i in range(features)} | {"y": labels}
    return FeatureTable.from_columns(FeaturesSpec.model_validate_json(json.dumps(spec)), columns)


def build(dataset: FeatureTable, seed: int = 0, **options: Any) -> FitResult[PipelinePlan]:
    made = PipelineOptions.model_validate_json(json.dumps(options))
    fitted: FitResult[PipelinePlan] = kind.fit(dataset, made, np.random.default_rng(seed), BuildContext())
    return fitted


def items_of(dataset: FeatureTable, rows: Any) -> list[dict[str, Any]]:
    """Write rows as a caller would: by feature, categories by name, null where a cell is missing."""
    names = dataset.spec.feature_columns
    items = []
    for row in dataset.values[rows].tolist():
        cells: list[Any] = []
        for value, known in zip(row, dataset.categories, strict=True):
            cells.append(None if np.isnan(value) else known[int(value)] if known else value)
        by_column = dict(zip(names, cells, strict=True))
        items.append({f.name: tuple(by_column[c] for c in f.columns) for f in dataset.spec.features})
    return items


def walked(plan: PipelinePlan, dataset: FeatureTable, rows: Any, solution: int) -> tuple[float, float, float]:
    """Walk rows one step after the other, acquiring what is asked for: coverage, accuracy and mean cost."""
    covered = right = 0
    spent = []
    for item, label in zip(items_of(dataset, rows), dataset.labels[rows].tolist(), strict=True):
        known: dict[str, Any] = {}
        cost = 0.0
        while isinstance(step := plan.next_step(solution, known), Acquire):
            assert step.features
            assert not known.keys() & set(step.features)
            known |= {name: item[name] for name in step.features}
            cost += step.cost
        spent.append(cost)
        if isinstance(step, Classify):
            covered += 1
            right += step.label == dataset.classes[label]
        else:
            assert isinstance(step, Reject)
    return covered / len(spent), right / max(covered, 1), float(np.mean(spent))


@pytest.mark.parametrize(
    ("dataset", "options"),
    first_quick(
        [
            (table(), {"confidence_threshold": 0.7}),
            (table(), {"confidence_threshold": {"ill": 0.55, "well": 0.8}, "max_stages": 2}),
            (wide(), {"confidence_threshold": 0.6}),
            (wide(), {"confidence_threshold": 0.6, "search": "emsco", "evolution": {"generations": 15}}),
            (table(), {"learner": "sklearn.naive_bayes.GaussianNB", "confidence_threshold": 0.8}),
            (table(), {"confidence_threshold": 0.9, "after_last_stage": "answer"}),
            (wide(), {"after_last_stage": "answer"}),
        ],
        3,
    ),
)
def test_walking_the_test_rows_reproduces_every_figure(dataset: FeatureTable, options: dict[str, Any]) -> None:
    plan = build(dataset, **options).plan
    test = split_rows_by_class(dataset, np.random.default_rng(0)).test
    assert len(test) == plan.held_out
    for one in plan.list_frontier()[:: max(len(plan.list_frontier()) // 6, 1)]:
        achieved = walked(plan, dataset, test, one.solution)
        assert achieved == pytest.approx((one.coverage, one.conclusive_accuracy, one.cost), abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"search": "emsco", "evolution": {"generations": 9}}])
def test_who_must_answer_at_the_end_rejects_nothing_and_loses_no_coverage(options: dict[str, Any]) -> None:
    dataset = wide()
    unsure, sure = (
        build(dataset, confidence_threshold=0.95, after_last_stage=end, **options).plan for end in ("reject", "answer")
    )
    assert min(one.coverage for one in unsure.list_frontier()) < 0.9
    assert {one.coverage for one in sure.list_frontier()} == {1.0}
    assert sure.decide(PipelineQuery(min_coverage=1.0)).after_last_stage == "answer"
    items = items_of(dataset, slice(0, 40))
    for one in sure.list_frontier():
        assert all(isinstance(step, Classify) for step in sure.next_steps(one.solution, items))
    by_cost = sure.validated[np.argsort(sure.validated[:, 2])]
    assert np.all(np.diff(by_cost[:, 1]) > 0), "what costs more is more accurate, or is not on the front"


def test_steps_of_many_are_those_of_each() -> None:
    dataset = table()
    plan = build(dataset, confidence_threshold=0.7).plan
    items = items_of(dataset, slice(0, 60))
    for solution in range(len(plan.list_frontier())):
        partly = [dict(list(item.items())[: i % 4]) for i, item in enumerate(items)]
        for step, item in zip(plan.next_steps(solution, partly), partly, strict=True):
            alone = plan.next_step(solution, item)
            assert type(step) is type(alone)
            together, wanted = vars(step), vars(alone)
            assert together.pop("confidence", 0.0) == pytest.approx(wanted.pop("confidence", 0.0))
            assert together == wanted


def test_evaluations_have_the_probabilities_by_the_last_stage_of_rejected_items_too() -> None:
    dataset = wide()
    plan = build(dataset, confidence_threshold=0.7).plan
    found = kind.evaluate(plan, kind.limits(), items_from_dataset(dataset))
    assert found.probabilities is not None
    assert found.accepted is not None
    assert 0 < found.accepted.mean() < 1
    assert found.probabilities.sum(axis=1) == pytest.approx(1)
    assert found.probabilities.max(axis=1) == pytest.approx(found.confidences)
    answers = [found.classes[code] for code in found.probabilities.argmax(axis=1)]
    assert [label or answer for label, answer in zip(found.labels, answers, strict=True)] == answers


def test_no_configuration_of_the_front_dominates_another_on_the_validation_rows() -> None:
    every: tuple[dict[str, Any], ...] = ({}, {"search": "emsco", "evolution": {"generations": 20}})
    for options in every:
        plan = build(wide(), confidence_threshold=0.6, **options).plan
        better = plan.validated[:, :3] * [1, 1, -1]
        for one in better:
            assert not np.any(np.all(better >= one, axis=1) & np.any(better > one, axis=1))


def test_evolution_finds_nothing_that_the_exact_front_does_not_weakly_dominate() -> None:
    exact, evolved = (
        build(wide(), confidence_threshold=0.6, search=search).plan.validated[:, :3] * [1, 1, -1]
        for search in ("exact", "emsco")
    )
    assert all(np.any(np.all(exact >= one, axis=1)) for one in evolved)


@pytest.mark.slow
def test_the_search_is_exact_where_that_is_quick() -> None:
    assert build(wide()).plan.exact
    assert not build(wide(), positive_class="1", evolution={"generations": 2}).plan.exact
    assert not build(
        wide(features=10), learner="sklearn.naive_bayes.GaussianNB", evolution={"generations": 1}
    ).plan.exact
    summary = build(wide()).summary
    assert str(count_configurations(6, 4)) in summary["ended"]


def test_a_positive_class_gives_each_configuration_its_rate_of_false_alarms() -> None:
    plan = build(table(), positive_class="ill", evolution={"generations": 5}).plan
    rates = [one.false_positive_rate for one in plan.list_frontier()]
    assert all(rate is not None and 0 <= rate <= 1 for rate in rates)
    assert all(one.false_positive_rate is None for one in build(table()).plan.list_frontier())


@pytest.mark.parametrize("dear", [0, 5])
def test_a_feature_that_no_answer_repays_is_left_out_unless_all_are_asked_for(dear: int) -> None:
    """The one that costs most tells nothing: on the front of all features nothing is below its price."""
    rng = np.random.default_rng(dear)
    labels = rng.integers(2, size=400)
    values = rng.normal(size=(400, 6)) + 1.2 * labels[:, None]
    values[:, dear] = rng.normal(size=400)
    costs = [100.0 if place == dear else 1.0 for place in range(6)]
    features = [{"name": f"x{place}", "columns": [f"x{place}"], "cost": cost} for place, cost in enumerate(costs)]
    spec = FeaturesSpec.model_validate({"kind": "features", "label": "label", "unit": "ms", "features": features})
    dataset = FeatureTable.from_columns(
        spec, {"label": labels, **{f"x{place}": values[:, place] for place in range(6)}}
    )
    asked: dict[str, Any] = {"confidence_threshold": 0.97, "after_last_stage": "answer", "max_stages": 2}
    whole, fewer = (build(dataset, search=search, **asked).plan for search in ("exact", "auto"))
    assert fewer.exact
    for one in whole.validated[:, :3] * [1, 1, -1]:
        assert np.any(np.all(fewer.validated[:, :3] * [1, 1, -1] >= one, axis=1)), "nothing is lost"
    excluded = [one for one in fewer.list_frontier() if f"x{dear}" not in {f for s in one.stages for f in s.features}]
    best = max(excluded, key=lambda one: one.validation.conclusive_accuracy)
    assert best.validation.cost < 6
    assert best.validation.cost < 0.2 * whole.validated[:, 2].min()
    rejecting, of_all = (
        build(dataset, confidence_threshold=0.97, max_stages=2, search=search).plan for search in ("auto", "exact")
    )
    assert (of_all.chromosomes >= 0).all(), "the search that is the paper's leaves nothing out"
    ours, theirs = (plan.validated[:, :3] * [1, 1, -1] for plan in (rejecting, of_all))
    assert all(np.any(np.all(ours >= one, axis=1)) for one in theirs), "nothing is lost"
    thrifty = (rejecting.chromosomes < 0).any(axis=1)
    assert thrifty.any()
    for one in ours[thrifty]:
        assert np.any(np.all(one >= theirs, axis=1) & np.any(one > theirs, axis=1)), (
            "each dominates one of all features"
        )


def test_removed_features_are_never_asked_for() -> None:
    plan = build(wide(), seed=1, after_last_stage="answer").plan
    removed = [one for one in plan.list_frontier() if sum(len(stage.features) for stage in one.stages) < 6]
    assert removed
    for one in removed[:3]:
        step = plan.next_step(one.solution, {name: 0.0 for stage in one.stages for name in stage.features})
        assert not isinstance(step, Acquire)


def test_calibrated_confidence_and_other_learners_are_kept_without_code() -> None:
    plan = build(
        table(), learner="sklearn.tree.DecisionTreeClassifier", learner_params={"max_depth": 3}, calibrate=True
    )
    assert plan.plan.model_kind == "skops"
    assert len(plan.plan.list_frontier()) >= 1


def test_equal_seeds_give_equal_plans_and_others_other_parts() -> None:
    first, second, third = (build(table(), seed=seed).plan for seed in (3, 3, 4))
    assert np.array_equal(first.model_numbers, second.model_numbers)
    assert not np.array_equal(first.model_numbers, third.model_numbers)


def test_the_usual_solution_has_the_most_right_answers_on_the_validation_rows() -> None:
    plan = build(wide(), confidence_threshold=0.5).plan
    usual = plan.decide(PipelineQuery())
    right = plan.validated[:, 0] * plan.validated[:, 1]  # the rows that report have no part in the choice
    assert right[usual.solution] == right.max()
    assert plan.default_solution == usual.solution


def _by_validation(one: Configuration) -> tuple[float, float, float]:
    return -one.validation.conclusive_accuracy, -one.validation.coverage, one.cost


def _promised(one: Configuration, rows: int) -> tuple[float, float]:
    """Say what accuracy and coverage hold by test and validation rows together, a standard error to spare."""
    accepted = [rows * one.coverage, rows * one.validation.coverage]
    right = accepted[0] * one.conclusive_accuracy + accepted[1] * one.validation.conclusive_accuracy
    accuracy = right / max(sum(accepted), 1)
    coverage = sum(accepted) / (2 * rows)
    rates = (accuracy, max(sum(accepted), 1)), (coverage, 2 * rows)
    spare = [math.sqrt((p * n + 1) * ((1 - p) * n + 1) / n) / (n + 2) for p, n in rates]
    return min(accuracy - spare[0], one.conclusive_accuracy), min(coverage - spare[1], one.coverage)


def test_decisions_are_those_of_plain_search() -> None:
    plan = build(wide(), confidence_threshold=0.6).plan
    front = plan.list_frontier()
    rng = np.random.default_rng(0)
    for _ in range(300):
        cost = float(rng.uniform(0, 25)) if rng.random() < 0.6 else None
        accuracy, coverage = (float(rng.random()) if rng.random() < 0.5 else None for _ in range(2))
        if cost is None and accuracy is None and coverage is None:
            continue
        fine = [
            one
            for one in front
            if np.all(np.array(_promised(one, plan.held_out)) >= (accuracy or 0, coverage or 0))
            if cost is None or one.cost + (plan.cost_error(one.solution) or 0.0) <= cost
        ]
        query = PipelineQuery(budget=cost, min_accuracy=accuracy, min_coverage=coverage)
        if not fine:
            with pytest.raises(Exception, match=r"no configuration|the cheapest configuration"):
                plan.decide(query)
        elif cost is None:
            best = min(fine, key=lambda one: one.validation.cost)
            assert plan.decide(query).solution == best.solution
        else:
            best = min(fine, key=_by_validation)
            assert plan.decide(query).solution == best.solution


def test_a_cost_is_kept_with_a_standard_error_to_spare_where_one_is_known() -> None:
    plan = build(wide(), confidence_threshold=0.6).plan
    for one, error in zip(plan.list_frontier(), plan.tested_cost_errors.tolist(), strict=True):
        lowest = (plan.tested[:, 2] + plan.tested_cost_errors).min()
        limits = [limit for limit in (one.cost, one.cost + error, one.cost + 2 * error) if limit >= lowest]
        for chosen in (plan.decide(PipelineQuery(budget=limit)) for limit in limits):
            assert chosen.cost + plan.tested_cost_errors[chosen.solution] <= max(limits)
    with pytest.raises(Infeasible, match=rf"costs {lowest:g} ms, including a standard error; the limit is"):
        plan.decide(PipelineQuery(budget=float(lowest) * (1 - 1e-9)))


def test_what_all_items_cost_alike_needs_nothing_to_spare() -> None:
    """Their costs add up to 0.7, whose mean over rows is that but for rounding."""
    dataset = wide(features=3)
    features = [
        feature.model_copy(update={"cost": cost})
        for feature, cost in zip(dataset.spec.features, (0.1, 0.2, 0.4), strict=True)
    ]
    priced = replace(dataset, spec=dataset.spec.model_copy(update={"features": tuple(features)}))
    plan = build(priced, after_last_stage="answer", max_stages=1).plan
    for one in plan.list_frontier():
        assert plan.decide(PipelineQuery(budget=one.cost)).cost <= one.cost


def test_what_is_told_of_limits_that_nothing_keeps_is_possible_and_helps() -> None:
    never = build(wide(), confidence_threshold=1.0).plan
    with pytest.raises(Infeasible, match=r"accuracy is at most 0, coverage is at most 0$") as refusal:
        never.decide(PipelineQuery(min_accuracy=0.5))
    assert "-" not in str(refusal.value)
    plans = {
        "after_last_stage: answer": build(wide(), confidence_threshold=0.6).plan,
        "search: auto": build(wide(), after_last_stage="answer", search="exact").plan,
        "": build(wide(), after_last_stage="answer").plan,
    }
    for hint, plan in plans.items():
        with pytest.raises(Infeasible) as refused:
            plan.decide(PipelineQuery(budget=0.001))
        assert hint in str(refused.value)
        assert ("build with" in str(refused.value)) == bool(hint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence_threshold": {"ill": 0.5}}, "confidence_threshold: .*'well'"),
        ({"confidence_threshold": {"ill": 0.5, "well": 0.5, "dead": 1}}, "confidence_threshold: .*'dead'"),
        ({"positive_class": "dead"}, "positive_class: .*'dead'.*ill, well"),
        ({"positive_class": "ill", "search": "exact"}, "search: .*positive_class"),
        ({"learner": "sklearn.svm.LinearSVC"}, "learner: .*predict_proba"),
        ({"learner": "os.system"}, "learner: os.system not allowed"),
        ({"learner_params": {"C": -1}}, "C: must be from 1e-08 to .*-1"),
        ({"learner_params": {"C": 1e-300}}, "must be from 1e-08 to 1e"),
        ({"learner_params": {"C": "a"}}, "C: must be from .*'a'"),
        (
            {"learner": "sklearn.neighbors.KNeighborsClassifier", "learner_params": {"n_neighbors": 10_000}},
            "learner_params: ",
        ),
    ],
)
def test_impossible_options_are_refused_with_the_numbers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        build(table(), **options)


def test_impossible_tables_are_refused_with_the_numbers() -> None:
    features = [dict(feature) for feature in MIXED_SPEC["features"]]
    features[0]["cost"] = {"polynomial": [1.0, 2.0]}
    with pytest.raises(InvalidRequest, match=r"cost: .*'age'"):
        build(table(features=features))
    with pytest.raises(InvalidRequest, match=r"4 rows, got [0-3]"):
        build(table(rows=6))
    with pytest.raises(InvalidRequest, match=r"search: .*20 features, got 21"):
        build(wide(features=21), search="exact")


def test_a_fit_can_be_cancelled() -> None:
    class Stop(Exception):
        pass

    def stop(done: int, total: int, message: str) -> None:
        if "generations" in message or "classifiers" in message:
            raise Stop

    for search in ("exact", "emsco"):
        with pytest.raises(Stop):
            kind.fit(table(), PipelineOptions(search=search), np.random.default_rng(0), BuildContext(progress=stop))


def test_evolution_options_are_those_of_the_search() -> None:
    from solvers.pipeline.emsco import EvolutionSettings

    assert EvolutionSettings(**Evolution().model_dump()) == EvolutionSettings()
