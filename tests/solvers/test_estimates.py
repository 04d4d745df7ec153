"""What decisions are expected to achieve, held against the rows that each build counted it on."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from models.feedback import Expectations
from models.pipeline import Configuration
from models.portfolio import AssignmentOptions
from solvers import KINDS, FitResult
from solvers.drift import count_answered
from solvers.portfolio.plan import PortfolioPlan
from tests.solvers.test_contract import fit
from tests.support.kinds import SAMPLES


@cache
def fitted(name: str) -> FitResult[Any]:
    """Fit a kind to its small problem, once."""
    return fit(name)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_the_summary_tells_how_many_rows_a_build_judged_by(name: str) -> None:
    """And so little of it that nothing is known, if it does not say."""
    assert KINDS[name].count_evidence_rows(fitted(name).summary) == SAMPLES[name].judged_rows
    assert KINDS[name].count_evidence_rows({}) == 0


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"index", "policy"}))
def test_an_accuracy_is_a_whole_number_of_right_answers_among_the_rows_it_was_counted_on(name: str) -> None:
    """Of all rows that the build judged by, or, in a pipeline, of those that got an answer. Not where the
    best of many is expected to be less than it looks: an index's sets and a policy's points."""
    plan, summary = fitted(name).plan, fitted(name).summary
    for query in SAMPLES[name].feasible:
        estimates = KINDS[name].estimate_outcome(plan, summary, query, plan.decide(query))
        right = (estimates.accuracy or 0) * count_answered(SAMPLES[name].judged_rows, estimates.coverage)
        assert estimates.accuracy
        assert right == pytest.approx(round(right), abs=1e-9)
    assert (name == "pipeline") == (estimates.coverage is not None)


def test_of_a_configuration_that_answers_nothing_no_accuracy_is_expected() -> None:
    """The 0 that stands for it is no estimate."""
    achieved = {"conclusive_accuracy": 0.0, "coverage": 0.0, "cost": 2.0, "false_positive_rate": None}
    silent = Configuration.model_validate({**achieved, "solution": 0, "stages": [], "validation": achieved})
    estimates = KINDS["pipeline"].estimate_outcome(fitted("pipeline").plan, {}, None, silent)
    assert estimates == Expectations(cost=2.0, cost_error=estimates.cost_error)


@pytest.mark.parametrize(
    ("name", "field", "changed"),
    [
        ("index", "cost", "cost"),
        ("pipeline", "cost", "cost"),
        ("portfolio", "cost", "cost"),
    ],
)
def test_what_no_outcome_could_tell_is_not_expected(name: str, field: str, changed: str) -> None:
    """A polynomial cost of a huge item goes beyond the largest cost; the decision stays, its id leaves the cost out."""
    plan, query = fitted(name).plan, SAMPLES[name].feasible[-1]
    huge = plan.decide(query).model_copy(update={changed: 1e150})
    assert getattr(KINDS[name].estimate_outcome(plan, fitted(name).summary, query, huge), field) is None


@pytest.mark.parametrize("method", ["batch", "route"])
def test_a_portfolios_optimism_is_what_its_estimates_were_above_the_truth_on_held_out_rows(method: str) -> None:
    """By classifier; together at each budget of the curve; between two of them in proportion, beyond as the last."""
    plan: PortfolioPlan = fitted("portfolio").plan
    row, budgets = plan.methods.index(method), plan.curve_budgets.tolist()
    off = (plan.curve_estimates[row] - plan.curve_accuracies[row]).tolist()
    assert abs(off[0]) > 0.01
    for budget, too_high, usage in zip(budgets, off, plan.curve_usage[row], strict=True):
        assert plan.interpolate_optimism(method, budget) @ (usage / plan.held_out) == pytest.approx(too_high)
    of_first, of_second = (plan.interpolate_optimism(method, budget) for budget in budgets[:2])
    between = plan.interpolate_optimism(method, (budgets[0] + budgets[1]) / 2)
    assert between == pytest.approx((of_first + of_second) / 2)
    assert plan.interpolate_optimism(method, 1e9) == pytest.approx(plan.interpolate_optimism(method, budgets[-1]))
    counts = plan.curve_accuracies[row] * SAMPLES["portfolio"].judged_rows
    assert all(float(count).is_integer() for count in counts)


def test_the_lower_a_portfolios_budgets_the_closer_lie_those_that_tell_how_optimistic_it_is() -> None:
    """Where the first few items get a dearer classifier, those are chosen that look best: a long line from the least
    budget to the next says too little of that."""
    plan: PortfolioPlan = fitted("portfolio").plan
    steps = np.diff(plan.curve_budgets)
    assert steps == pytest.approx(steps[0] * (2 * np.arange(len(steps)) + 1))
    assert plan.curve_budgets[0] == pytest.approx(plan.min_cost)
    assert plan.curve_budgets[-1] == pytest.approx(max(plan.highest_cost, plan.min_cost))


def test_between_two_budgets_a_portfolios_costs_are_off_by_no_more_than_in_proportion() -> None:
    """The same rows tell of both, so the mean of two figures is never further off than the mean of their errors."""
    plan: PortfolioPlan = fitted("portfolio").plan
    plan = replace(plan, curve_cost_errors=np.arange(plan.curve_costs.size).reshape(plan.curve_costs.shape) / 10.0)
    first, second = plan.curve_budgets[:2].tolist()
    (low, of_low), (high, of_high) = (plan.estimate_cost_overrun("batch", budget) for budget in (first, second))
    assert of_low is not None
    assert of_high is not None
    assert of_low < of_high
    assert plan.estimate_cost_overrun("batch", 0.75 * first + 0.25 * second) == pytest.approx(
        (0.75 * low + 0.25 * high, 0.75 * of_low + 0.25 * of_high)
    )


def test_a_portfolio_expects_its_estimates_less_their_optimism() -> None:
    """Of a batch the mean, by the method that assigned it."""
    plan, summary = fitted("portfolio").plan, fitted("portfolio").summary
    queries = np.array([[0.9, 0.4], [0.4, 0.9], [0.6, 0.6]])
    options = AssignmentOptions(budget=1.0)
    decision = plan.assign(plan.estimate(queries), options, 1.0)
    estimates = KINDS["portfolio"].estimate_outcome(plan, summary, options, decision)
    shares = np.array(list(decision.usage.values())) / 3
    assert estimates.accuracy == pytest.approx(decision.raw_estimate - plan.interpolate_optimism("batch", 1.0) @ shares)
    assert estimates.accuracy != pytest.approx(decision.raw_estimate)
    assert estimates.cost == pytest.approx(decision.cost / 3)
