"""Advice whose every figure is reckoned again from raw rows, and comes true on rows it never saw."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from models import FeatureTable, InvalidRequest, Trace
from models.advice import AdviceLimits, KindAdvice
from models.cascade import CascadeRunDecision
from models.errors import Cancelled
from models.savings import ComparedBaseline, Savings, SimpleBaseline
from solvers import KINDS, BuildContext
from solvers.advice import advise
from solvers.advice.advise import AdviceSplit
from solvers.advice.summary import write_summary
from solvers.base import make_generator
from tests.solvers.policy.problems import halves
from tests.solvers.policy.test_classless import asked_trace
from tests.support.replays import COSTS, NAMES, World

ROWS, SEED = 600, 5


def trace(rows: int = ROWS) -> Trace:
    """Give a trace without embeddings, so that no portfolio can be built from it."""
    data = World.of(1, rows).dataset("policy")
    assert isinstance(data, Trace)
    return Trace(
        data.spec,
        data.classes,
        data.labels,
        data.predictions,
        data.quality,
        data.confidences,
        data.costs,
        np.empty((rows, 0), np.float32),
        data.margins,
    )


@cache
def advice_on_a_trace() -> dict[str, Any]:
    """Ask once for all tests."""
    return advise(trace(), AdviceLimits(budget=4.0), SEED, 600, BuildContext())


@cache
def advice_on_features() -> dict[str, Any]:
    """Ask once for all tests."""
    return advise(World.of(2, 400).dataset("index"), AdviceLimits(), SEED, 600, BuildContext())


def _method(advice: dict[str, Any], name: str) -> KindAdvice:
    methods: tuple[KindAdvice, ...] = advice["kinds"]
    return next(one for one in methods if one.kind == name)


def _parts(labels: Any) -> AdviceSplit:
    return AdviceSplit.from_labels(labels, np.arange(len(labels)), make_generator(SEED))


def test_a_trace_without_embeddings_gets_advice_on_cascade_and_policy() -> None:
    advice = advice_on_a_trace()
    assert {one.kind for one in advice["kinds"]} == {"cascade", "policy"}
    assert [one.kind for one in advice["excluded"]] == ["portfolio"]
    assert "embeddings" in advice["excluded"][0].reason
    assert advice["rows"].training + advice["rows"].validation + advice["rows"].holdout == ROWS


@pytest.mark.slow
def test_a_policy_is_tried_with_embeddings_and_without_them() -> None:
    """Only what the item's embedding tells leads it to the expert that knows it."""
    advice = advise(halves(900, 0), AdviceLimits(budget=1.2), SEED, 600, BuildContext())
    own = _method(advice, "policy")
    assert own.params == {"embeddings": True}
    assert own.accuracy is not None
    assert own.accuracy > 0.85
    assert own.cost is not None
    assert own.cost < 1.3
    assert _method(advice_on_a_trace(), "policy").params == {}


def test_the_cascades_figures_are_those_of_walking_the_reporting_rows_one_by_one() -> None:
    data, own = trace(), _method(advice_on_a_trace(), "cascade")
    parts, kind = _parts(data.labels), KINDS["cascade"]
    options = kind.options.model_validate(own.params)
    plan = kind.fit(data.take(parts.training), options, np.random.default_rng(SEED), BuildContext()).plan
    decision = plan.decide(kind.query.model_validate(own.query))
    assert isinstance(decision, CascadeRunDecision)
    steps = decision.steps
    right, spent = 0, 0.0
    for row in parts.holdout:
        for step in steps:
            k = NAMES.index(step.classifier)
            spent += COSTS[k]
            if step.confidence_threshold is None or data.confidences[row, k] >= step.confidence_threshold:
                right += int(data.predictions[row, k] == data.labels[row])
                break
    n = len(parts.holdout)
    assert own.accuracy == pytest.approx(right / n)
    assert own.cost == pytest.approx(spent / n)
    assert own.savings is not None
    assert own.savings.rows == n


def test_the_simple_alternatives_are_each_classifier_alone_on_the_same_rows() -> None:
    data = trace()
    rows = _parts(data.labels).holdout
    said = {one.name: (one.accuracy, one.cost) for one in advice_on_a_trace()["alternatives"]}
    for k, name in enumerate(NAMES):
        right = np.mean(data.predictions[rows, k] == data.labels[rows])
        assert said[f"always {name}"] == pytest.approx((right, COSTS[k]))


@pytest.mark.slow
def test_what_is_said_of_the_method_taken_comes_true_on_rows_that_nobody_saw() -> None:
    own = _method(advice_on_a_trace(), "policy")
    data, kind = trace(), KINDS["policy"]
    plan = kind.fit(
        data.take(_parts(data.labels).training), kind.options(), np.random.default_rng(SEED), BuildContext()
    ).plan
    fresh = World.of(77, 20_000).dataset("policy")
    assert kind.replay_settings is not None
    point = next(one for one in kind.replay_settings(plan, fresh) if one.query == own.query)
    assert own.accuracy_interval is not None
    assert own.cost_interval is not None
    assert own.accuracy_interval[0] - 0.01 <= point.replay.right.mean() <= own.accuracy_interval[1] + 0.01
    assert own.cost_interval[0] * 0.98 <= point.replay.costs.mean() <= own.cost_interval[1] * 1.02


def test_a_table_of_features_is_held_against_fixed_sets_of_them() -> None:
    advice = advice_on_features()
    assert {one.kind for one in advice["kinds"]} == {"index", "policy", "pipeline"}
    names = {one.name for one in advice["alternatives"]}
    assert {"the most common class", "always x0", "all features", "all features (boosted trees)"} <= names
    data = World.of(2, 400).dataset("index")
    assert isinstance(data, FeatureTable)
    parts = _parts(data.labels)
    common = np.bincount(data.labels[parts.training]).argmax()
    said = next(one for one in advice["alternatives"] if one.name == "the most common class")
    assert said.accuracy == pytest.approx(np.mean(data.labels[parts.holdout] == common))
    for one in advice["kinds"]:
        assert len(one.points) >= 2
        assert [point.cost for point in one.points] == sorted(point.cost for point in one.points)


def test_the_best_comes_first_and_the_sentence_speaks_of_what_to_take() -> None:
    for advice in (advice_on_a_trace(), advice_on_features()):
        assert advice["kinds"][0].verdict == "best"
        assert advice["recommended"] in advice["summary"]
        assert advice["unit"] == "ms"


def test_the_same_seed_gives_the_same_advice() -> None:
    assert advise(trace(), AdviceLimits(budget=4.0), SEED, 600, BuildContext()) == advice_on_a_trace()


def test_methods_that_do_not_end_in_time_are_left_out_and_the_others_advise() -> None:
    moments = iter(range(0, 10**9, 1000))
    advice = advise(trace(), AdviceLimits(), SEED, 5, BuildContext(elapsed=lambda: float(next(moments))))
    assert not advice["kinds"]
    assert any(one.timed_out for one in advice["excluded"])
    assert advice["recommended"].startswith("always ")


def test_a_job_that_is_told_to_stop_stops() -> None:
    def progress(done: int, total: int, message: str) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        advise(trace(), AdviceLimits(), SEED, 600, BuildContext(progress))


def test_too_few_rows_are_refused_with_their_number() -> None:
    with pytest.raises(InvalidRequest, match=r"has 99 rows.* at least 100"):
        advise(trace(99), AdviceLimits(), SEED, 600, BuildContext())


def test_limits_that_nothing_keeps_are_said_so() -> None:
    take, sentence = write_summary(AdviceLimits(budget=0.1), "ms", [], None)
    assert take == "nothing"
    assert "0.1 ms" in sentence


def test_what_there_was_no_time_for_is_said() -> None:
    simple = SimpleBaseline(name="always fast", accuracy=0.7, cost=1.0)
    take, sentence = write_summary(AdviceLimits(budget=2), "ms", [], simple, ["portfolio", "policy"])
    assert take == "always fast"
    assert "the portfolio and the policy" in sentence


def test_calling_nothing_is_an_alternative_where_there_are_classes() -> None:
    advice = advise(trace(), AdviceLimits(deadline=0.5), SEED, 60, BuildContext())
    assert advice["alternatives"][0].name == "the most common class"
    assert advice["alternatives"][0].cost == 0
    assert advice["recommended"] == "the most common class"


def test_a_method_that_shows_nothing_gives_way_to_what_the_budget_affords() -> None:
    """Also where the coin that it is held against would be beyond the budget."""
    near, far = (
        SimpleBaseline(name="always near", accuracy=0.87, cost=0.8),
        SimpleBaseline(name="far", accuracy=0.95, cost=9),
    )
    savings = Savings(
        decision="x", accuracy=0.88, cost=1.4,
        baseline=ComparedBaseline(kind="random_mixture", name="a random mixture", accuracy=0.88, cost=2.5),
        saved=0.4, saved_interval=(-0.2, 0.6), gained=0.005, gained_interval=(-0.02, 0.03), rows=100,
        verdict="not significant", headline="", advice=None, baselines=(near, far),
    )  # fmt: skip
    best = KindAdvice(
        kind="portfolio", verdict="best", params={}, query={}, accuracy=0.88, accuracy_interval=(0.8, 0.93),
        cost=1.4, cost_interval=(1.3, 1.5), savings=savings, points=(),
    )  # fmt: skip
    take, sentence = write_summary(AdviceLimits(budget=2), "ms", [best], near)
    assert take == "always near"
    assert "closest: the portfolio" in sentence
    clearly_worse = near.model_copy(update={"accuracy": 0.7})
    assert write_summary(AdviceLimits(budget=2), "ms", [best], clearly_worse)[0] == "portfolio"


def test_what_nothing_reaches_is_not_said_to_have_been_reached() -> None:
    advice = advise(trace(), AdviceLimits(min_accuracy=0.999), SEED, 120, BuildContext())
    assert "; the most accurate is" in advice["summary"]
    assert "on validation rows it reached" not in advice["summary"]
    most = max(one.accuracy for one in (*advice["kinds"], *advice["alternatives"]) if one.accuracy is not None)
    named = {one.kind: one for one in advice["kinds"]} | {one.name: one for one in advice["alternatives"]}
    assert named[advice["recommended"]].accuracy == pytest.approx(most, abs=0.03)


def test_advice_compares_with_rejecting_every_item() -> None:
    advised = advise(asked_trace(600, 1, reject_cost=2.0), AdviceLimits(), 0, 60.0, BuildContext())
    alone = {one.name: one.cost + (one.loss or 0.0) for one in advised["alternatives"]}
    assert alone["always reject"] == pytest.approx(2.0)
    assert min(alone.values()) == pytest.approx(2.0)
    for kind in advised["kinds"]:
        assert kind.savings is None or not kind.savings.has_savings
