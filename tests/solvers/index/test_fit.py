"""Builds of an index from a table, from training to prediction."""

import dataclasses
import json
import re
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from app.store import codec
from models import FeatureTable, InvalidRequest
from models.errors import Cancelled
from models.index import IndexOptions, IndexQuery
from solvers.base import BuildContext, FitResult
from solvers.index import IndexPlan, fit
from solvers.index.batch_training import train_sets, validate_sets
from solvers.index.selection_bias import unpack_outcomes
from solvers.learners.linear import predict_linear
from tests.oracles.index import small_table, table_of


def build(table: FeatureTable, seed: int = 0, run: BuildContext | None = None, **options: Any) -> FitResult[IndexPlan]:
    return fit(table, IndexOptions.model_validate(options), np.random.default_rng(seed), run or BuildContext())


def account(
    table: FeatureTable, cache: dict[str, bytes] | None = None, seed: int = 0, **options: Any
) -> tuple[int, int, int, int]:
    """Build, and give what its last report tells: sets trained and remembered, models trained and remembered."""
    messages: list[str] = []
    run = BuildContext(lambda done, total, message: messages.append(message), cache={} if cache is None else cache)
    build(table, seed, run, **options)
    sets, recalled, models, kept = map(int, re.findall(r"\d+", messages[-1]))
    return sets, recalled, models, kept


@pytest.fixture(scope="module")
def table() -> FeatureTable:
    return small_table()


@pytest.fixture(scope="module")
def fitted(table: FeatureTable) -> FitResult[IndexPlan]:
    return build(table)


def test_accuracies_are_those_of_cross_validation_on_the_same_folds(
    table: FeatureTable, fitted: FitResult[IndexPlan]
) -> None:
    seed = int(np.random.default_rng(0).integers(2**32))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    learner = make_pipeline(StandardScaler(), LogisticRegression(random_state=seed))
    plan = fitted.plan
    for mask, accuracy in zip(plan.masks[1:].tolist(), plan.accuracies[1:].tolist(), strict=True):
        columns = [f for f in range(4) if mask >> f & 1]
        assert accuracy == cross_val_score(learner, table.values[:, columns], table.labels, cv=folds).mean()
    share = np.bincount(table.labels).max() / table.rows
    assert plan.accuracies[0] == pytest.approx(share, abs=0.01)


def test_models_are_kept_for_candidates_and_sequences_and_predict_as_scikit_learn(
    table: FeatureTable, fitted: FitResult[IndexPlan]
) -> None:
    plan = fitted.plan
    items = [{f"c{j}": float(value) for j, value in enumerate(row)} for row in table.values]
    seed = int(np.random.default_rng(0).integers(2**32))
    for item in plan.list_skyline(2.0)[1:]:
        columns = [int(name[1:]) for name in item.features]
        learner = make_pipeline(StandardScaler(), LogisticRegression(random_state=seed, tol=1e-12, max_iter=1000))
        learner.fit(table.values[:, columns], table.labels)
        predicted = plan.predict(item.features, items)
        assert predicted.labels == tuple(table.classes[c] for c in learner.predict(table.values[:, columns]))
        expected = learner.predict_proba(table.values[:, columns])
        assert predicted.probabilities is not None
        probabilities = np.array([[row[name] for name in table.classes] for row in predicted.probabilities])
        assert np.abs(probabilities - expected).max() < 1e-6


def test_the_empty_set_predicts_the_most_common_class(table: FeatureTable, fitted: FitResult[IndexPlan]) -> None:
    decision = fitted.plan.decide(IndexQuery(size=1.0, budget=0.0))
    assert (decision.features, decision.cost) == ((), 0.0)
    predicted = fitted.plan.predict(decision, [{}, {}])
    counts = np.bincount(table.labels)
    assert predicted.labels == (table.classes[int(counts.argmax())],) * 2
    assert predicted.probabilities is not None
    assert list(predicted.probabilities[0].values()) == (counts / counts.sum()).tolist()


def test_a_missing_column_and_an_unknown_set_are_refused(fitted: FitResult[IndexPlan]) -> None:
    plan = fitted.plan
    with pytest.raises(InvalidRequest, match=r"items\.1\.f0\.c0: is required"):
        plan.predict(("f0",), [{"c0": 1.0}, {"c1": 1.0}])
    with pytest.raises(InvalidRequest, match="'f9' not found; available: f0, f1, f2, f3"):
        plan.predict(("f9",), [{}])
    kept = set(plan.masks[plan.model_sets].tolist())
    other = next((mask for mask in range(1, 16) if mask not in kept), None)
    assert other is not None
    names = [f"f{f}" for f in range(4) if other >> f & 1]
    with pytest.raises(InvalidRequest, match=r"^features: model of"):
        plan.predict(names, [{f"c{j}": 0.0 for j in range(4)}])


def test_same_seed_same_bytes_and_the_plan_survives_them(table: FeatureTable, fitted: FitResult[IndexPlan]) -> None:
    again, other = build(table), build(table, seed=1)
    first = codec.encode(fitted.plan, fitted.summary)
    assert codec.encode(again.plan, again.summary) == first
    assert codec.encode(other.plan, other.summary) != first
    plan = codec.decode(first, IndexPlan)
    for budget in (0.0, 1.0, 3.0, 100.0):
        query = IndexQuery(size=3.0, budget=budget)
        assert plan.decide(query) == fitted.plan.decide(query)
    for field in dataclasses.fields(plan):
        value = getattr(plan, field.name)
        assert not isinstance(value, np.ndarray) or not value.flags.writeable


def test_the_summary_is_plain_json_and_counts(table: FeatureTable, fitted: FitResult[IndexPlan]) -> None:
    summary = fitted.summary
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["naive"] == 16 == summary["expanded"] + summary["pruned"]
    assert summary["trainings"]["asked"] == account(table)[0] >= summary["expanded"] - 1
    assert summary["candidates"] == len(fitted.plan.candidates)
    assert summary["index_entries"] == len(fitted.plan.members)
    assert set(summary["residuals"]) == {"f2"}
    assert [len(row["features"]) for row in summary["sequences"]] == [4] * 6
    assert summary["median_size"] == [3.0]  # of the timings' sizes 1, 2, 4, 8


def test_what_an_index_saves_is_the_cheapest_of_nearly_the_best_accuracy(fitted: FitResult[IndexPlan]) -> None:
    skyline = fitted.plan.list_skyline(3.0)
    cheapest = next(item for item in skyline if item.accuracy >= skyline[-1].accuracy - 0.01)
    saving = fitted.summary["saving"]
    assert saving["chosen"]["features"] == len(cheapest.features)
    assert saving["chosen"]["accuracy"] == cheapest.accuracy
    assert saving["chosen"]["cost"] == pytest.approx(cheapest.cost)
    everything = saving["everything"]
    assert everything["features"] == 4
    assert everything["cost"] >= saving["chosen"]["cost"]
    assert everything["accuracy"] == fitted.summary["sequences"][0]["accuracies"][-1]


def test_a_second_build_with_another_alpha_or_tolerance_trains_nothing_twice(table: FeatureTable) -> None:
    cache: dict[str, bytes] = {}
    trained, recalled, models, kept = account(table, cache)
    assert trained > 0
    assert models > 0
    assert recalled == kept == 0
    changes: list[dict[str, Any]] = [{"alpha": 0.1}, {"tolerance": 0.05}, {"alpha": 0.3}, {"fixed_size": 4.0}]
    for options in changes:
        trained, recalled, models, kept = account(table, dict(cache), **options)
        assert trained == 0 < recalled
        assert kept > 0
    assert account(table, cache)[0] == account(table, cache)[2] == 0


def test_what_the_memory_holds_does_not_change_a_byte(table: FeatureTable) -> None:
    cache: dict[str, bytes] = {}
    build(table, run=BuildContext(cache=cache))
    fresh, recalled = build(table, alpha=0.1), build(table, run=BuildContext(cache=cache), alpha=0.1)
    assert codec.encode(fresh.plan, fresh.summary) == codec.encode(recalled.plan, recalled.summary)
    broken = dict.fromkeys(cache, b"x")
    assert codec.encode(build(table, run=BuildContext(cache=broken), alpha=0.1).plan, {}) == codec.encode(
        fresh.plan, {}
    )


@pytest.mark.slow
def test_other_data_learner_or_seed_is_not_recalled(table: FeatureTable) -> None:
    cache: dict[str, bytes] = {}
    build(table, run=BuildContext(cache=cache))
    for other, seed, options in (
        (small_table(seed=1), 0, {}),
        (table, 1, {}),
        (table, 0, {"folds": 4}),
        (table, 0, {"standardize": False}),
        (table, 0, {"learner_params": {"C": 0.5}}),
    ):
        assert account(other, dict(cache), seed, **options)[1] == 0


def test_a_cancelled_build_goes_on_where_it_stopped(table: FeatureTable) -> None:
    cache: dict[str, bytes] = {}
    reports: list[tuple[int, int]] = []

    def stop_later(done: int, total: int, message: str) -> None:
        assert message
        reports.append((done, total))
        if len(cache) >= 6:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        build(table, run=BuildContext(progress=stop_later, cache=cache))
    assert 6 <= len(cache) < 15
    trained, recalled, _, _ = account(table, cache)
    assert recalled >= 6
    assert recalled + trained == build(table).summary["trainings"]["asked"]


def test_progress_goes_up_to_its_end(table: FeatureTable) -> None:
    reports: list[tuple[int, int]] = []
    build(table, run=BuildContext(progress=lambda done, total, message: reports.append((done, total))), max_models=12)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert reports[-1][0] == reports[-1][1] > 0


@pytest.mark.parametrize("most", [1, 4, 8, 12, 15])
def test_property_3_9_a_budget_of_trainings_is_kept_and_tells_its_alpha(table: FeatureTable, most: int) -> None:
    summary = build(table, max_models=most).summary
    assert summary["trainings"]["asked"] <= most
    assert summary["alpha"] >= summary["alpha_wanted"] == 0
    if most == 15:
        assert summary["alpha"] == 0
    lengths = {len(row["features"]) for row in summary["sequences"]}
    assert len(lengths) == 1


def test_more_trainings_never_need_a_larger_alpha(table: FeatureTable) -> None:
    alphas = [build(table, max_models=most).summary["alpha"] for most in (1, 4, 8, 12, 15)]
    assert alphas == sorted(alphas, reverse=True)


def test_a_budget_too_small_for_anything_is_refused() -> None:
    labels = np.arange(40) % 4
    values = np.array([[label // 2, label % 2, label] for label in labels], dtype=np.float64)
    separable = table_of(values, labels.tolist(), [1.0, 1.0, 1.0])
    with pytest.raises(InvalidRequest, match=r"max_models: .* got 1: even alpha = 2"):
        build(separable, max_models=1)


def test_a_budget_of_time_ends_the_search_and_the_last_alpha_counts(table: FeatureTable) -> None:
    clock = iter(range(10_000))
    assert build(table, max_seconds=1e9).summary["alpha"] == 0
    hurried = build(small_table(features=6), run=BuildContext(elapsed=lambda: float(next(clock))), max_seconds=0.5)
    assert hurried.summary["alpha"] > 0


def test_without_a_budget_a_search_that_would_take_too_long_is_limited() -> None:
    """By default to a minute: where a batch takes ten seconds, few of 2^12 sets are trained."""
    assert IndexOptions().max_seconds == 60
    large, clock = small_table(features=12), iter(range(0, 10**6, 10))
    hurried = build(large, run=BuildContext(elapsed=lambda: float(next(clock))))
    assert hurried.summary["alpha"] > 0
    assert hurried.summary["trainings"]["asked"] < 2048
    small, clock = small_table(features=4), iter(range(10**6))
    assert build(small, run=BuildContext(elapsed=lambda: float(next(clock)))).summary["alpha"] == 0


def test_a_search_that_is_out_of_time_from_the_start_still_has_a_plan() -> None:
    """Of the set of all features and none, and of no sequence: alpha bounds how far from the best that may be."""
    table, clock = small_table(features=6), iter(range(0, 10**9, 1000))
    fitted = build(
        table, run=BuildContext(elapsed=lambda: float(next(clock))), max_seconds=1.0, learner_params={"C": 2}
    )
    assert fitted.summary["trainings"]["asked"] == 1
    assert fitted.plan.decide(IndexQuery(size=4.0, budget=1e9)).features == fitted.plan.features
    for method in ("greedy", "naive", "poly-dom"):
        decision = fitted.plan.decide(IndexQuery.model_validate({"size": 4.0, "budget": 1e9, "method": method}))
        assert fitted.plan.decide(IndexQuery(size=4.0, budget=0.0)).accuracy <= decision.accuracy
    accuracies = fitted.summary["accuracy"]
    assert (1 + fitted.summary["alpha"]) * accuracies["least"] >= accuracies["most"]


def test_the_time_of_all_sets_is_estimated_before_the_search(table: FeatureTable) -> None:
    """One batch of a set for each of four features took a second: 16 sets take 4."""
    clock, messages = iter(range(1000)), list[str]()
    run = BuildContext(lambda done, total, message: messages.append(message), elapsed=lambda: float(next(clock)))
    build(table, run=run, max_seconds=1e3)
    (estimate,) = [message for message in messages if "max_seconds" in message]
    assert re.findall(r"[\d.]+", estimate)[0] == "4"


@pytest.mark.parametrize("classes", [2, 3])
def test_regressions_in_batches_are_right_where_those_of_scikit_learn_are(classes: int) -> None:
    """On all rows but those so near to a border that training ends elsewhere; a constant column does no harm."""
    rng = np.random.default_rng(classes)
    labels = (np.arange(300) % classes).astype(np.int32)
    table = rng.normal(size=(300, 5)) + labels[:, None] * np.array([1.0, 0.5, 0.0, 0.2, 0.0])
    table = table * np.array([1.0, 1e6, 1e-6, 1.0, 0.0]) + np.array([0.0, 1e7, 0.0, -5.0, 0.3])
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(table, labels))
    sets = [[0], [1, 2], [0, 1, 2, 3, 4]]
    for columns, bits in zip(sets, validate_sets(table, labels, classes, sets, 1.0, folds, None), strict=True):
        learner = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000))
        right = cross_val_predict(learner, table[:, columns], labels, cv=folds) == labels
        assert np.count_nonzero(unpack_outcomes(bits, 300) != right) <= 1
    for columns, data in zip(sets, train_sets(table, labels, classes, sets, 1.0), strict=True):
        learner = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000))
        expected = learner.fit(table[:, columns], labels).predict_proba(table[:, columns])
        _, shares = predict_linear(np.frombuffer(data), table[:, columns], "softmax")
        assert np.abs((shares if shares is not None else 0) - expected).max() < 1e-4


def test_problem_2_a_fixed_size_leaves_one_skyline(table: FeatureTable, fitted: FitResult[IndexPlan]) -> None:
    plan = build(table, fixed_size=4.0).plan
    assert plan.sizes.tolist() == [1.0]
    assert len(plan.candidates) <= len(fitted.plan.candidates)
    assert [(item.features, item.accuracy) for item in plan.list_skyline(4.0)] == [
        (item.features, item.accuracy) for item in fitted.plan.list_skyline(4.0)
    ]
    assert plan.decide(IndexQuery(size=4.0, budget=3.0)) == plan.decide(IndexQuery(budget=3.0))
    with pytest.raises(InvalidRequest, match=r"size: must be 4, .*got 5"):
        plan.decide(IndexQuery(size=5.0, budget=3.0))


def test_problem_3_a_fixed_budget_leaves_one_answer_for_each_size(
    table: FeatureTable, fitted: FitResult[IndexPlan]
) -> None:
    plan = build(table, fixed_budget=3.0).plan
    assert len(plan.members) == len(plan.sizes)
    for size in (1.0, 1.7, 2.0, 3.3, 8.0, 100.0):
        query = IndexQuery(size=size, budget=3.0)
        assert plan.decide(query).accuracy == fitted.plan.decide(query).accuracy
    with pytest.raises(InvalidRequest, match=r"budget: must be 3 ms, .*got 2"):
        plan.decide(IndexQuery(size=2.0, budget=2.0))


def test_a_largest_size_is_kept(table: FeatureTable, fitted: FitResult[IndexPlan]) -> None:
    plan = build(table, max_size=4.0).plan
    assert len(plan.candidates) <= len(fitted.plan.candidates)
    query = IndexQuery(size=4.0, budget=3.0)
    assert plan.decide(query).features == fitted.plan.decide(query).features
    with pytest.raises(InvalidRequest, match="size: must be at most 4, got 5"):
        plan.decide(IndexQuery(size=5.0, budget=3.0))


def vector_table() -> FeatureTable:
    plain = small_table()
    costs: list[object] = [
        1.0,
        {"terms": [{"coefficient": 0.01, "powers": [1, 1]}]},
        {"timings": [[1, 1, 1], [2, 1, 2], [1, 2, 3], [4, 4, 9]], "degree": 1},
        {"terms": [{"coefficient": 0.2, "powers": [0, 1]}]},
    ]
    sizes = np.stack([np.arange(120) + 1.0, np.arange(120) + 3.0], axis=1)
    return table_of(plain.values, plain.labels.tolist(), costs, sizes=sizes)


def test_sizes_of_two_dimensions() -> None:
    fitted = build(vector_table())
    plan = fitted.plan
    assert fitted.summary["median_size"] == [60.5, 62.5]
    for size in ((1.0, 1.0), (10.0, 3.0), (100.0, 50.0)):
        costs = {item.features: item.cost for item in plan.list_skyline(size)}
        for budget in (0.0, 1.0, 2.5, 1000.0):
            decision = plan.decide(IndexQuery(size=size, budget=budget))
            naive = plan.decide(IndexQuery(size=size, budget=budget, method="naive"))
            assert decision.features == naive.features
            assert decision.cost == costs[decision.features] <= budget
            for method in ("greedy", "greedy-acc", "greedy-cost"):
                assert plan.decide(IndexQuery(size=size, budget=budget, method=method)).cost <= budget
    with pytest.raises(InvalidRequest, match="size: must have 2 numbers, got 1"):
        plan.decide(IndexQuery(size=3.0, budget=1.0))
    fixed = build(vector_table(), fixed_size=(10.0, 3.0)).plan
    assert (
        fixed.decide(IndexQuery(budget=2.5)).accuracy == plan.decide(IndexQuery(size=(10.0, 3.0), budget=2.5)).accuracy
    )
    budgeted = build(vector_table(), fixed_budget=0.5).plan
    query = IndexQuery(size=(10.0, 3.0), budget=0.5)
    assert budgeted.decide(query).accuracy == plan.decide(query).accuracy
    assert len(budgeted.candidates) < len(plan.candidates)


def test_costs_that_do_not_depend_on_size_need_none() -> None:
    plain = small_table()
    plan = build(table_of(plain.values, plain.labels.tolist(), [1.0, 2.0, 3.0, 4.0])).plan
    assert plan.decide(IndexQuery(budget=3.0)) == plan.decide(IndexQuery(size=7.0, budget=3.0))


def test_features_in_another_order_give_the_same_answers(table: FeatureTable, fitted: FitResult[IndexPlan]) -> None:
    order = [2, 0, 3, 1]
    features = tuple(table.spec.features[i] for i in order)
    turned = FeatureTable(
        table.spec.model_copy(update={"features": features}),
        table.classes,
        tuple(table.categories[i] for i in order),
        table.labels,
        np.ascontiguousarray(table.values[:, order]),
        table.sizes,
    )
    plan = build(turned).plan
    for size in (1.0, 2.0, 3.7, 20.0):
        for budget in (0.3, 1.0, 2.2, 5.0, 50.0):
            one, two = (p.decide(IndexQuery(size=size, budget=budget)) for p in (plan, fitted.plan))
            assert sorted(one.features) == sorted(two.features)
            assert one.cost == two.cost


@pytest.mark.parametrize(
    ("costs", "options", "message"),
    [
        (
            [1.0, {"polynomial": [1, 1]}, {"terms": [{"coefficient": 1, "powers": [1, 1]}]}, 1.0],
            {},
            "equal size dimensions",
        ),
        ([1.0, 1.0, 1.0, 1.0], {"max_size": 9.0}, "max_size: is supported only"),
        ([1.0, 1.0, {"polynomial": [1, 1]}, 1.0], {"fixed_size": (1.0, 2.0)}, "fixed_size: must have 1 numbers, got 2"),
        (
            [1.0, 1.0, {"polynomial": [1, 1]}, 1.0],
            {"median_size": (1.0, 2.0)},
            "median_size: .* got 2",
        ),
    ],
)
def test_sizes_of_dimensions_that_do_not_agree_are_refused(costs: list[object], options: Any, message: str) -> None:
    plain = small_table()
    with pytest.raises(InvalidRequest, match=message):
        build(table_of(plain.values, plain.labels.tolist(), costs), **options)


def test_too_few_rows_of_a_class_are_refused() -> None:
    table = table_of(np.zeros((20, 1)), [0] * 17 + [1] * 3, [1.0])
    with pytest.raises(InvalidRequest, match=r"folds: .*at least 5 rows for 5 folds, got 3"):
        build(table)
    assert build(table, folds=3).summary["features"] == 1


def test_the_median_size_may_be_given(table: FeatureTable) -> None:
    assert build(table, median_size=2.0).summary["median_size"] == [2.0]
    plain = small_table()
    lines = table_of(plain.values, plain.labels.tolist(), [{"polynomial": [1, 1]}] * 4)
    assert build(lines, lambdas=[0.5, 0.0]).plan.lambdas.tolist() == [0.0, 0.5, np.inf]
    assert build(lines).summary["median_size"] == [1.0]
    sized = table_of(
        plain.values, plain.labels.tolist(), [{"polynomial": [1, 1]}] * 4, sizes=np.arange(120.0)[:, None] + 1
    )
    assert build(sized).summary["median_size"] == [60.5]


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match=r"fixed_size must be less than max_size \(9\.0\), got 4\.0"):
        IndexOptions(fixed_size=4.0, max_size=9.0)
    with pytest.raises(ValueError, match="String should match pattern"):
        IndexOptions(learner="LogisticRegression")


def test_under_a_budget_a_slightly_smaller_alpha_cannot_be_afforded(table: FeatureTable) -> None:
    """Beside the sequence of most accuracy, which comes first."""
    most = 9
    summary = build(table, max_models=most).summary
    assert summary["trainings"]["asked"] <= most
    assert 0 < summary["alpha"] < 2
    finer = build(table, alpha=summary["alpha"] * (1 - 1e-4))
    order = finer.plan.orders[0].tolist()
    before = [sum(1 << f for f in order[:k]) for k in range(len(order))]
    grown = {mask | 1 << f for mask in before for f in order if not mask >> f & 1}
    expanded = finer.summary["expanded"]
    assert expanded <= most
    assert expanded - 1 + len(grown - set(finer.plan.masks.tolist())) >= most or expanded == most


def test_under_a_budget_no_set_known_to_be_better_for_what_it_costs_is_left_out(table: FeatureTable) -> None:
    plan = build(table, max_models=9, fixed_size=4.0).plan
    assert plan.alpha > 0
    for budget in np.linspace(0, plan.coefficients.sum(), 15).tolist():
        chosen = plan.decide(IndexQuery(budget=budget))
        costs = plan.coefficients[:, 0] @ (plan.masks[None] >> np.arange(4)[:, None] & 1)
        assert chosen.accuracy == plan.accuracies[costs <= budget * (1 + 1e-12)].max()
