"""What cannot be had is left out of decisions: the best of the others is taken, held against a look at all of them."""

from dataclasses import fields, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from models import InvalidRequest
from models.arrays import Floats
from models.cascade import CascadeOptions, CascadeQuery
from models.errors import Infeasible
from models.index import IndexQuery
from models.pipeline import PipelineQuery
from models.policy import Answer, PolicyOptions, PolicyQuery
from models.portfolio import AssignmentOptions, RouteQuery
from models.portfolio_constraints import LimitedOptions
from solvers import KINDS, BuildContext
from solvers.cascade.frontier.contents import FrontierContents
from solvers.index.costs import evaluate_curves
from solvers.portfolio.assigner import PortfolioAssigner
from solvers.portfolio.knapsack import assign, assign_max_min
from tests.solvers.test_contract import fit
from tests.support.kinds import SAMPLES, dataset


@cache
def build(kind: str, options: Any = None) -> Any:
    """Fit a kind to its small problem, once for all tests."""
    if options is None:
        return fit(kind)
    return KINDS[kind].fit(dataset(SAMPLES[kind].dataset), options, np.random.default_rng(0), BuildContext())


def subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """List all that may be left out, but nothing, and everything."""
    return [some for size in range(1, len(names)) for some in combinations(names, size)]


def assign_available(plan: Any, estimates: Floats, options: AssignmentOptions, *rest: Any) -> Any:
    """Assign a batch to classifiers that are available."""
    return PortfolioAssigner().assign(plan, (estimates, None), options, *rest)


BARE_FRONTIER = FrontierContents()


@cache
def cascade() -> Any:
    """Fit the cascade of several tests once."""
    return build("cascade", CascadeOptions(target_precision=0.9))


@pytest.mark.parametrize("deadline", [None, 12.0, 25.0, 1e9])
def test_a_cascade_calls_the_others_as_fast_as_the_plan_knows(deadline: float | None) -> None:
    plan = cascade().plan
    for excluded in subsets(plan.names):
        able = [one for one in plan.list_deadline_ranges() if not set(excluded).intersection(one.cascade)]
        able = [one for one in able if deadline is None or one.maximum_duration <= deadline]
        query = CascadeQuery(deadline=deadline, excluded=excluded)
        if not able and deadline is not None:  # whatever it ends with, what keeps the deadline answers
            decision = plan.decide(query)
            assert decision.maximum_duration <= deadline
            assert not set(excluded).intersection(decision.cascade)
            continue
        if not able:
            with pytest.raises(Infeasible):
                plan.decide(query)
            continue
        decision = plan.decide(query)
        assert decision.expected_duration == min(one.expected_duration for one in able)
        assert not set(excluded).intersection(decision.cascade)
        assert not decision.optimal
        assert decision.lower_bound <= decision.expected_duration


def test_a_cascade_within_a_cost_calls_only_the_others_and_costs_no_more() -> None:
    plan = cascade().plan
    costs = plan.point_costs + plan.point_cost_errors
    for excluded in subsets(plan.point_names):
        left_out = [
            bool(set(excluded).intersection(plan.point_names[k] for k in plan.point_members[plan.call_slice(i)]))
            for i in range(len(costs))
        ]
        for most in np.quantile(costs, [0.05, 0.3, 0.6, 1.0]).tolist():
            able = ~np.array(left_out) & (costs <= most)
            if not able.any():
                with pytest.raises(Infeasible):
                    plan.decide(CascadeQuery(budget=most, excluded=excluded))
                continue
            decision = plan.decide(CascadeQuery(budget=most, excluded=excluded))
            assert not set(excluded).intersection(decision.cascade)
            likely = KINDS["cascade"].estimate_outcome(plan, cascade().summary, CascadeQuery(budget=most), decision)
            assert likely.cost <= most
            assert likely.accuracy is not None


def test_a_cascade_that_has_no_frontier_says_so_whatever_is_left_out() -> None:
    frontier = {each.name: getattr(BARE_FRONTIER, each.name) for each in fields(FrontierContents)}
    plan = replace(cascade().plan, **frontier)
    for excluded in ((), ("fast",)):
        with pytest.raises(InvalidRequest, match="has no frontier"):
            plan.decide(CascadeQuery(budget=5.0, excluded=excluded))


@pytest.mark.parametrize("query", [CascadeQuery(), CascadeQuery(deadline=25.0), CascadeQuery(budget=6.0, item="a")])
def test_a_cascade_skips_as_its_run_does_and_says_what_that_takes_at_most(query: CascadeQuery) -> None:
    decided = cascade().plan.decide(query)
    assert cascade().plan.skip_classifiers(decided, ("nobody", decided.cascade[-1])) is decided
    for excluded in subsets(decided.cascade):
        skipped = cascade().plan.skip_classifiers(decided, excluded)
        left = [name for name in decided.cascade[:-1] if name not in excluded] + [decided.cascade[-1]]
        assert list(skipped.cascade) == left
        if skipped is decided:
            continue
        assert set(skipped.skipped) == set(excluded) & set(decided.cascade[:-1])
        before = {step.classifier: step.probability_of_reaching for step in decided.steps}
        assert all(before[step.classifier] <= step.probability_of_reaching <= 1 for step in skipped.steps)
        assert skipped.steps[0].probability_of_reaching == 1
        assert skipped.maximum_duration <= decided.maximum_duration
        likely = KINDS["cascade"].estimate_outcome(cascade().plan, cascade().summary, query, skipped)
        assert (likely.accuracy, likely.cost, likely.time) == (None, None, None)


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_a_portfolio_takes_the_best_of_the_others(share: float) -> None:
    plan = build("portfolio").plan
    for excluded in subsets(plan.classifiers):
        for place in range(40):
            query = np.random.default_rng(place).random(plan.dimensions).tolist()
            asked = RouteQuery(query=query, budget=f"{100 * (share):.6f}%", excluded=excluded)
            able = np.array([name not in excluded for name in plan.classifiers])
            if plan.costs[able].min() > share * plan.highest_cost:
                with pytest.raises(Infeasible, match="without excluded classifiers"):
                    plan.decide(asked)
                continue
            decision = plan.decide(asked)
            savings = plan.penalize_estimates(plan.estimate_one(query)) - decision.price * plan.costs
            taken = plan.classifiers.index(decision.classifier)
            assert able[taken]
            assert savings[taken] == pytest.approx(savings[able].max(), abs=1e-9)


@pytest.mark.parametrize("limits", [{}, {"budget": 5.0}, {"min_accuracy": 0.4}, {"min_coverage": 0.2, "budget": 9.0}])
def test_a_pipeline_acquires_only_the_others(limits: dict[str, float]) -> None:
    """Held against a pipeline that has no other configurations."""
    plan = build("pipeline").plan
    for excluded in subsets(plan.features):
        able = ~(plan.chromosomes[:, np.isin(plan.features, excluded)] >= 0).any(axis=1)
        query = PipelineQuery.model_validate({**limits, "excluded": excluded})
        if not able.any():
            with pytest.raises(Infeasible, match="every configuration acquires"):
                plan.decide(query)
            continue
        of_configurations = {name: getattr(plan, name)[able] for name in ("chromosomes", "tested", "validated")}
        alone = replace(plan, **of_configurations)
        try:
            wanted = alone.decide(query.model_copy(update={"excluded": ()}))
        except Infeasible:
            with pytest.raises(Infeasible, match="no configuration without"):
                plan.decide(query)
            continue
        decision = plan.decide(query)
        assert decision.stages == wanted.stages
        assert not any(set(excluded).intersection(each.features) for each in decision.stages)


@pytest.mark.parametrize("budget", [0.0, 3.0, 6.0, 1e9])
def test_an_index_computes_the_most_accurate_of_the_others(budget: float) -> None:
    plan = build("index").plan
    names = [plan.list_names(mask) for mask in plan.masks[plan.candidates].tolist()]
    costs = evaluate_curves(plan._look_up.curves, plan.powers, (64.0,))
    levels = plan.accuracies[plan.candidates]
    for excluded in subsets(plan.features):
        able = np.array([not set(excluded).intersection(each) for each in names]) & (costs <= budget)
        decision = plan.decide(IndexQuery(size=64.0, budget=budget, excluded=excluded))
        assert decision.accuracy == levels[able].max()
        assert decision.cost == costs[able & (levels == decision.accuracy)].min()
        assert not set(excluded).intersection(decision.features)


@pytest.mark.parametrize("graph", ["subsets", "grown"])
def test_a_policy_never_asks_for_what_is_left_out_and_asks_as_ever_for_the_others(graph: Any) -> None:
    plan = build("policy", PolicyOptions(points=3, trees=5, depth=2, graph=graph)).plan
    answers = {
        "fast": Answer(label="cat", confidence=0.6),
        "middle": Answer(label="dog", confidence=0.7),
        "strong": "dog",
    }
    for excluded in subsets(plan.sensors):
        for item in map(str, range(20)):
            acquired = dict[str, Any]()
            for _ in plan.sensors:
                query = PolicyQuery(item=item, tradeoff=0.001, acquired=acquired, excluded=excluded)
                decision = plan.decide(query)
                if decision.action != "acquire":
                    break
                asked = {decision.sensor, *decision.then}
                assert not asked.intersection(excluded)
                usual = plan.decide(query.model_copy(update={"excluded": ()}))
                if usual.action == "acquire" and not {usual.sensor, *usual.then}.intersection(excluded):
                    assert (decision.sensor, decision.then) == (usual.sensor, usual.then)
                acquired |= {name: answers[name] for name in asked}
    assert plan.expected_outcome(PolicyQuery(budget=5.0, excluded=("fast",))) == (None, None, None)


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_names_that_are_none_are_refused_and_those_there_are_listed(kind: str) -> None:
    plan = build(kind).plan
    for query in SAMPLES[kind].feasible:
        with pytest.raises(InvalidRequest, match=r"nobody.*") as refused:
            plan.decide(query.model_copy(update={"excluded": ("nobody",)}))
        assert any(name in str(refused.value) for name in getattr(plan, "features", ()) or ("fast", "strong"))


def test_a_portfolio_goes_beyond_no_budget_for_what_is_left_out() -> None:
    plan = build("portfolio").plan
    query = RouteQuery(query=(0.5,) * plan.dimensions, budget=float(plan.costs.min()), excluded=("fast",))
    with pytest.raises(Infeasible, match=r"at least 3 ms per query without excluded .* got 1"):
        plan.decide(query)
    assert plan.decide(query.model_copy(update={"budget": 3.0})).classifier != "fast"


CONSTRAINED: list[dict[str, Any]] = [
    {"goal": "cost"},
    {"goal": "cost", "accuracy": {"at_least": 0.5}},
    {"budget": "60%", "classifiers": {"middle": {"at_most": {"share": 0.6}}, "fast": {"at_most": 9}}},
]


@pytest.mark.parametrize("asked", [{"budget": "30%"}, {"budget": "30%", "objective": "min"}])
def test_a_batch_is_assigned_as_well_as_the_others_can(asked: dict[str, Any]) -> None:
    """Held against a portfolio that never had the one which is left out."""
    plan, options = build("portfolio").plan, LimitedOptions.model_validate(asked)
    estimates = plan.estimate(np.random.default_rng(0).random((60, plan.dimensions)))
    given = assign_available(plan, estimates, options, 5.0, {"fast"})
    assert given.budget is not None
    solve = assign if options.objective == "mean" else assign_max_min
    values = plan.penalize_estimates(estimates) if options.objective == "mean" else estimates
    alone = solve(values[:, 1:], plan.costs[1:], given.budget)
    assert given.assignments == tuple(plan.classifiers[1 + place] for place in alone.choice)
    assert given.cost == pytest.approx(alone.cost)


@pytest.mark.parametrize("asked", CONSTRAINED)
def test_a_batch_within_several_limits_leaves_out_what_fails(asked: dict[str, Any]) -> None:
    plan, options = build("portfolio").plan, LimitedOptions.model_validate(asked)
    estimates = plan.estimate(np.random.default_rng(0).random((60, plan.dimensions)))
    assert plan.assign(estimates, options, 5.0).usage["fast"] > 0
    assert assign_available(plan, estimates, options, 5.0, {"fast"}).usage["fast"] == 0


def test_as_few_as_need_be_go_to_what_fails_where_the_others_cannot_keep_the_limits() -> None:
    plan, options = build("portfolio").plan, AssignmentOptions(budget_total=120.0)
    estimates = plan.estimate(np.random.default_rng(0).random((60, plan.dimensions)))
    given = assign_available(plan, estimates, options, 5.0, {"fast"})
    assert given.usage == {"fast": 30, "middle": 30, "strong": 0}
    every = assign_available(plan, estimates, options, 5.0, set(plan.classifiers))
    assert every.assignments == plan.assign(estimates, options, 5.0).assignments
    with pytest.raises(Infeasible, match=r"at least 60 ms for 60 queries"):
        assign_available(plan, estimates, AssignmentOptions(budget_total=59.0), 5.0, {"fast"})
