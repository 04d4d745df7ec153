"""What a plan is worth, reckoned again from raw rows by plain loops: one source, and it is right."""

from typing import Any, cast

import numpy as np
import pytest

from models import FeatureTable
from models.cascade import CascadeOptions, CascadeQuery
from models.pipeline import PipelineOptions, PipelineQuery
from models.portfolio import PortfolioOptions, RouteQuery
from models.savings import Savings
from solvers import KINDS, BuildContext, cascade, pipeline, portfolio
from solvers.pipeline.prepared_data import split_rows_by_class
from tests.support.kinds import SAMPLES, dataset
from tests.support.replays import COSTS, NAMES, World


def _worth(kind: str, options: object, data: object, seed: int = 0) -> Savings:
    savings = KINDS[kind].fit(data, options, np.random.default_rng(seed), BuildContext()).savings
    assert savings is not None
    return savings


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_subject_says_what_it_is_worth_and_the_parts_agree(kind: str) -> None:
    sample = SAMPLES[kind]
    savings = _worth(kind, sample.options, dataset(sample.dataset))
    assert 0 < savings.rows < 400
    assert savings.saved is not None
    assert savings.saved == pytest.approx(1 - savings.cost / savings.baseline.cost)
    assert savings.saved_interval is not None
    assert savings.saved_interval[0] <= savings.saved <= savings.saved_interval[1]
    assert savings.gained_interval[0] <= savings.gained <= savings.gained_interval[1]
    assert savings.baseline.name in savings.headline or savings.verdict == "significant"
    assert [one.cost for one in savings.baselines] == sorted(one.cost for one in savings.baselines)
    assert (savings.advice is None) == (savings.verdict == "significant")
    most = max(one.accuracy for one in savings.baselines)
    assert savings.baseline.accuracy >= min(savings.accuracy, most) - 1e-9


def test_a_cascades_savings_hold_on_unseen_rows_walked_one_by_one() -> None:
    data: Any = World.of(5, 2000).dataset("cascade")
    unseen = World.of(55, 5000)
    fitted = cascade.kind.fit(data, CascadeOptions(target_precision=0.9), np.random.default_rng(7), BuildContext())
    assert fitted.savings is not None
    asked = float(fitted.savings.decision.removeprefix("budget "))
    steps = fitted.plan.decide(CascadeQuery(budget=asked)).steps
    right, spent = 0, 0.0
    for row in range(5000):
        for step in steps:
            k = NAMES.index(step.classifier)
            spent += COSTS[k]
            if step.confidence_threshold is None or unseen.confidences[row, k] >= step.confidence_threshold:
                right += unseen.correct[row, k]
                break
    assert fitted.savings.rows == 1000
    assert fitted.savings.accuracy == pytest.approx(right / 5000, abs=3.5 * (0.25 / 1000) ** 0.5)
    assert fitted.savings.cost == pytest.approx(spent / 5000, rel=0.1)
    alone = {one.name: one.accuracy for one in fitted.savings.baselines if one.name.startswith("always")}
    expected = {f"always {name}": unseen.correct[:, k].mean() for k, name in enumerate(NAMES)}
    assert alone == pytest.approx(expected, abs=3.5 * (0.25 / 1000) ** 0.5)


def test_a_portfolios_worth_is_that_of_its_held_out_rows_routed_one_by_one() -> None:
    world = World.of(6, 400)
    options = PortfolioOptions.model_validate({"samples": {"count": 4, "size": 60}, "curve_points": 5})
    fitted = portfolio.kind.fit(
        cast(Any, world.dataset("portfolio")), options, np.random.default_rng(3), BuildContext()
    )
    held_out = np.sort(np.random.default_rng(3).permutation(400)[300:])
    assert fitted.savings is not None
    said = float(fitted.savings.decision.split()[3])
    budget = float(min(fitted.plan.curve_budgets, key=lambda one: abs(one - said)))
    right, spent = 0, 0.0
    for row in held_out:
        query = RouteQuery(query=tuple(world.embeddings[row].tolist()), budget=budget)
        k = NAMES.index(fitted.plan.decide(query).classifier)
        right, spent = right + int(world.correct[row, k]), spent + COSTS[k]
    assert (fitted.savings.accuracy, fitted.savings.cost) == pytest.approx((right / 100, spent / 100))
    assert fitted.savings.saved == pytest.approx(1 - (spent / 100) / fitted.savings.baseline.cost)


def test_a_pipelines_worth_is_that_of_its_test_rows_sent_through_one_by_one() -> None:
    world = World.of(8, 600)
    data, options = world.dataset("pipeline"), PipelineOptions()
    assert isinstance(data, FeatureTable)
    fitted = pipeline.kind.fit(data, options, np.random.default_rng(2), BuildContext())
    test = split_rows_by_class(data, np.random.default_rng(2)).test
    decision = fitted.plan.decide(PipelineQuery())
    right, spent, items = 0, 0.0, world.items(world.features)
    for row in test:
        step = fitted.plan.next_step(decision.solution, items[row])
        right += getattr(step, "label", None) == world.features["label"][row]
        spent += sum(stage.cost for stage in decision.stages[: step.stage + 1])
    assert fitted.savings is not None
    assert (fitted.savings.accuracy, fitted.savings.cost) == pytest.approx((right / len(test), spent / len(test)))
    assert fitted.savings.rows == len(test)


def test_a_portfolios_alternatives_are_its_classifiers_alone_on_the_held_out_quarter() -> None:
    world = World.of(6, 200)
    options = PortfolioOptions.model_validate({"samples": {"count": 4, "size": 30}, "curve_points": 5})
    savings = _worth("portfolio", options, world.dataset("portfolio"), seed=3)
    held_out = np.sort(np.random.default_rng(3).permutation(200)[150:])
    assert savings.rows == 50
    for k, name in enumerate(NAMES):
        alone = next(one for one in savings.baselines if one.name == f"always {name}")
        assert (alone.accuracy, alone.cost) == pytest.approx((world.correct[held_out, k].mean(), COSTS[k]))


@pytest.mark.slow
def test_the_order_of_rows_that_report_is_of_no_matter_and_the_seed_reproduces() -> None:
    sample = SAMPLES["cascade"]
    one, other = (_worth("cascade", sample.options, dataset("trace"), seed=4) for _ in range(2))
    assert one == other
    assert one != _worth("cascade", sample.options, dataset("trace"), seed=5)
