"""Runs as state machines, on a simulated clock: nothing sleeps, nothing is called."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import InvalidRequest, TraceSpec, dataset_from_columns
from models.cascade import CascadeOptions, CascadeQuery
from models.errors import EndpointFailed, RunTimeout
from models.policy import PolicyOptions, PolicyQuery
from models.portfolio import PortfolioOptions, RouteQuery
from parsimony.runs.cascade import run_cascade
from parsimony.runs.index import run_index
from parsimony.runs.pipeline import run_pipeline
from parsimony.runs.portfolio import run_portfolio
from parsimony.runs.steps import REJECT, Call, CallResult, CallResults, DecisionRequest, Refusal, RunAnswer
from solvers import KINDS, BuildContext, cascade, policy, portfolio
from solvers.cascade import CascadePlan
from solvers.cascade.contents import MAX_CALLS
from solvers.cascade.continuation import Continuations
from solvers.kind import RunContext
from solvers.portfolio.fallback import make_fallback_router
from solvers.running import Runner, run_with_local_decisions
from tests.solvers.policy.problems import start_policy as run_policy
from tests.support.cases import case_count
from tests.support.samples import TRACE_SPEC, trace_columns, trace_embeddings
from tests.support.strategies import random_trace


@dataclass
class World:
    """What would be answered, how long that takes, and a clock that only calls move."""

    says: dict[str, CallResult]
    takes: dict[str, float] = field(default_factory=dict)
    now: float = 0.0
    called: list[str] = field(default_factory=list)

    def drive(self, runner: Runner, ends_at: float = inf) -> RunAnswer:
        """Follow a runner to its end; a call that would take longer than it may is cut off and failed."""
        try:
            call: Call = next(runner)
            while True:
                within = min(call.timeout_s, ends_at - self.now)
                heard = tuple(self._ask(name, within) for name in call.names)
                self.now += min(max(self.takes.get(name, 0.0) for name in call.names), max(within, 0.0))
                self.called += call.names
                call = runner.send(CallResults(heard, ends_at - self.now))
        except StopIteration as end:
            answer: RunAnswer = end.value
            return answer

    def _ask(self, name: str, within: float) -> CallResult:
        if self.takes.get(name, 0.0) > within:
            return CallResult(name, error="no answer in time")
        return self.says.get(name, CallResult(name, error="broken"))


def sample() -> Any:
    """Give the sample trace, with embeddings."""
    columns = trace_columns()
    arrays = {name: np.array(values) for name, values in columns.items()}
    return dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), arrays, trace_embeddings(columns))


@pytest.fixture(scope="module")
def plan() -> CascadePlan:
    """Fit a cascade to the sample trace: fast, middle and strong."""
    return cascade.fit(sample(), CascadeOptions(target_precision=0.9), np.random.default_rng(0), BuildContext()).plan


def cascaded(
    plan: CascadePlan, world: World, deadline: float | None = None, excluded: frozenset[str] = frozenset()
) -> RunAnswer:
    """Run an item through a cascade; the plan's unit is a second."""
    query = CascadeQuery(deadline=deadline)
    left = inf if deadline is None else deadline
    unit_s = None if deadline is None else 1.0
    context = RunContext(remaining_seconds=left, unit_seconds=unit_s, unavailable=excluded)
    return world.drive(KINDS["cascade"].start_run(plan, query, context).runner, left)


def sure(name: str, label: str, confidence: float = 1.0) -> CallResult:
    """Say a label."""
    return CallResult(name, label, confidence)


def test_the_first_answer_that_is_sure_enough_is_taken(plan: CascadePlan) -> None:
    world = World({"fast": sure("fast", "cat"), "strong": sure("strong", "dog")})
    answer = cascaded(plan, world)
    assert (answer.label, answer.answered_by, answer.degraded) == ("cat", "fast", None)
    assert world.called == ["fast"]


def test_one_that_is_not_sure_enough_is_followed_by_the_next(plan: CascadePlan) -> None:
    steps = [step.classifier for step in plan.decide(CascadeQuery()).steps]
    world = World({name: sure(name, "cat", 0.01) for name in steps})
    answer = cascaded(plan, world)
    assert world.called == steps
    assert (answer.answered_by, answer.degraded) == (steps[-1], None)


def test_one_that_fails_is_as_if_it_had_said_nothing(plan: CascadePlan) -> None:
    world = World({"strong": sure("strong", "dog")})
    answer = cascaded(plan, world)
    assert (answer.label, answer.answered_by) == ("dog", "strong")
    assert answer.degraded is not None
    assert "fast: broken" in answer.degraded


def test_if_the_last_one_fails_the_most_confident_answer_is_given(plan: CascadePlan) -> None:
    world = World({"fast": sure("fast", "cat", 0.3), "middle": sure("middle", "owl", 0.2)})
    answer = cascaded(plan, world)
    assert answer.label == "cat"
    assert "strong: broken" in str(answer.degraded)


def test_if_all_fail_there_is_no_answer(plan: CascadePlan) -> None:
    with pytest.raises(EndpointFailed, match="fast: broken"):
        cascaded(plan, World({}))


def test_if_the_time_is_over_before_any_answer_that_is_said(plan: CascadePlan) -> None:
    names = ("fast", "middle", "strong")
    with pytest.raises(RunTimeout, match="no answer"):
        cascaded(plan, World({}, dict.fromkeys(names, 1e9)), deadline=30.0)


def test_what_has_an_open_circuit_is_not_called(plan: CascadePlan) -> None:
    world = World({name: sure(name, "cat") for name in ("fast", "middle", "strong")})
    answer = cascaded(plan, world, excluded=frozenset({"fast"}))
    assert "fast" not in world.called
    assert "fast: its circuit is open" in str(answer.degraded)


def test_a_hanging_classifier_leaves_the_last_one_its_time(plan: CascadePlan) -> None:
    slowest = float(plan.worst_case_times[-1])
    world = World({"strong": sure("strong", "dog")}, {"fast": 1e9, "middle": 1e9, "strong": slowest})
    deadline = float(plan.maximum_durations[-1])
    answer = cascaded(plan, world, deadline=deadline)
    assert (answer.label, world.called[-1]) == ("dog", "strong")
    assert world.now <= deadline * (1 + 1e-9)


def test_without_a_plan_the_decided_steps_that_are_in_time_are_called() -> None:
    """As in a client: of 13 ms, 12 remain after fast; middle and strong may take 13 together, so middle is skipped."""
    worst = {"fast": 1.0, "middle": 2.0, "strong": 11.0}
    steps = [
        {"classifier": name, "confidence_threshold": level, "execution_time": 1.0, "worst_case_time": worst[name]}
        for name, level in (("fast", 0.9), ("middle", 0.9), ("strong", None))
    ]
    says = {name: sure(name, "cat", 0.1) for name in worst}
    for deadline, called in ((0.013, ["fast", "strong"]), (0.014, ["fast", "middle", "strong"])):
        world = World(says, {"fast": 0.001, "middle": 0.001})
        runner = run_with_local_decisions(run_cascade(steps, remaining_seconds=deadline, unit_s=1e-3))
        assert (world.drive(runner, deadline).answered_by, world.called) == ("strong", called)
    steps[-1] = {**steps[-1], "classifier": REJECT}
    world = World(says, {"fast": 0.02})
    answer = world.drive(run_with_local_decisions(run_cascade(steps, remaining_seconds=0.013, unit_s=1e-3)), 0.013)
    assert (answer.label, world.called) == (None, ["fast"])


TIMES = st.floats(0, 40)


@settings(max_examples=300, deadline=None)
@given(
    deadline=st.floats(11.0, 60.0),
    takes=st.fixed_dictionaries(dict.fromkeys(("fast", "middle", "strong"), TIMES)),
    confidences=st.fixed_dictionaries({name: st.none() | st.floats(0, 1) for name in ("fast", "middle")}),
    strong_fails=st.booleans(),
)
def test_no_deadline_is_passed_and_the_last_one_is_reached_whenever_it_can_be(
    plan: CascadePlan, deadline: float, takes: dict[str, float], confidences: dict[str, Any], strong_fails: bool
) -> None:
    """Whatever the others do, and however long they take: a last one that keeps its worst case answers in time."""
    worst = float(plan.worst_case_times[-1])
    keeps = takes["strong"] <= worst and not strong_fails
    says = {name: sure(name, "cat", value) for name, value in confidences.items() if value is not None}
    if not strong_fails:
        says["strong"] = sure("strong", "dog")
    ways = []
    for _ in range(2):
        world = World(says, takes)
        try:
            answer = cascaded(plan, world, deadline=deadline)
        except (EndpointFailed, RunTimeout):
            assert not keeps
        else:
            assert answer.label in ("cat", "dog")
        assert world.now <= deadline * (1 + 1e-9)
        ways.append(world.called)
    assert ways[0] == ways[1]


def continuations(rng: np.random.Generator) -> tuple[CascadePlan, Continuations]:
    """Fit a cascade to a random trace, and give its states."""
    n = int(rng.integers(2, 6))
    trace = random_trace(rng, 60, n)
    options = CascadeOptions(target_precision=0.6, wilson_confidence=0.6)
    fitted = cascade.fit(trace, options, rng, BuildContext()).plan
    return fitted, fitted.continuations


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.slow
def test_random_cascades_pass_no_deadline_and_reach_their_last_whenever_they_can(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fitted, ways = continuations(rng)
    last, worst = fitted.names[ways.last], fitted.worst_case_times
    reached = 0
    for _ in range(40):
        deadline = rng.uniform(fitted.maximum_durations.min(), 1.2 * worst.sum())
        takes = dict(zip(fitted.names, (worst * rng.uniform(0, 1.5, len(worst))).tolist(), strict=True))
        says = {name: sure(name, "cat", rng.uniform()) for name in fitted.names if rng.uniform() < 0.7}
        paths = []
        for _ in range(2):
            world = World(says, takes)
            try:
                cascaded(fitted, world, deadline=deadline)
            except (EndpointFailed, RunTimeout):
                assert last not in says or takes[last] > worst[ways.last]
            assert world.now <= deadline * (1 + 1e-9)
            assert len(set(world.called)) == len(world.called), "nothing is called twice"
            paths.append(world.called)
        assert paths[0] == paths[1]
        reached += last in paths[0]
    assert reached


def cheapest_by_hand(ways: Continuations, called: frozenset[int], left: float) -> float:
    """Try every order of every set of classifiers, as far as the states know it."""
    best = inf
    others = [k for k in range(len(ways.times)) if k not in called and k != ways.last]
    for count in range(len(others) + 1):
        for order in permutations(others, count):
            state, expected, worst, known = called, 0.0, 0.0, True
            for k in (*order, ways.last):
                known = known and k in ways.following.get(state, {ways.last})
                expected += ways.reaching.get(state, 1.0) * ways.times[k]
                worst += ways.worst[k]
                state = state | {k}
            if known and worst <= left:
                best = min(best, expected)
    return best


@pytest.mark.slow
def test_the_best_continuation_is_that_of_brute_force() -> None:
    rng = np.random.default_rng(5)
    compared = reachable = 0
    for _ in range(14):
        _, ways = continuations(rng)
        for called in list(ways.reaching)[:12]:
            for left in rng.uniform(0, 1.3 * sum(ways.worst), 4):
                expected = cheapest_by_hand(ways, called, float(left))
                way = ways.find_best(called, float(left))
                compared += 1
                assert (way is None) == (expected == inf)
                if way is None:
                    continue
                reachable += 1
                state, cost = called, 0.0
                for k in way:
                    cost += ways.reaching.get(state, 1.0) * ways.times[k]
                    state = state | {k}
                assert cost == pytest.approx(expected)
                assert sum(ways.worst[k] for k in way) <= left
    assert compared > 100
    assert reachable > 30


def test_somebodys_long_cascade_is_refused(plan: CascadePlan) -> None:
    count = MAX_CALLS + 1
    names = tuple(f"c{k}" for k in range(count))
    times, calls = np.ones(count), np.arange(count, dtype=np.int32)
    steps: dict[str, Any] = {"maximum_durations": np.array([1.0]), "expected_durations": np.array([1.0])}
    measured: dict[str, Any] = {name: np.empty(0) for name in ("accuracies", "durations", "duration_errors")}
    with pytest.raises(InvalidRequest, match="at most 500 calls"):
        replace(
            plan,
            names=names,
            thresholds=times,
            execution_times=times,
            worst_case_times=times,
            offsets=np.array([0, count]),
            members=calls,
            reaching=times,
            **steps,
            **measured,
        )


def test_what_a_policy_cannot_take_is_as_if_it_were_not_had(policies: Any) -> None:
    for odd in (
        CallResult("", "cat"),
        CallResult("", "x" * 300, 0.9),
        CallResult("", values=(1.0, 2.0, 3.0)),
        CallResult(""),
    ):
        query = PolicyQuery(item="a", budget=5.0)
        first = policies.decide(query).sensor
        says = {name: sure(name, "cat", 0.9) for name in ("fast", "middle", "strong")} | {
            first: replace(odd, name=first)
        }
        answer = World(says).drive(run_policy(policies, query, left=10.0), 10.0)
        assert answer.label in ("cat", "dog", "owl")
        assert f"{first}: its reading is not valid for this policy" in str(answer.degraded)


def test_a_failed_call_that_may_be_paid_counts_against_what_is_left(routes: Any) -> None:
    costs = dict(zip(routes.classifiers, routes.costs.tolist(), strict=True))
    dearest = max(costs, key=lambda name: costs[name])
    paid = {name: CallResult(name, error="garbage", is_paid=True) for name in costs}
    world = World(paid)
    with pytest.raises(EndpointFailed):
        routed(routes, world, most=costs[dearest])
    assert sum(costs[name] for name in world.called[:-1]) <= costs[dearest]


def test_from_the_start_the_best_continuation_is_the_plans_own_cascade(plan: CascadePlan) -> None:
    for most in plan.maximum_durations.tolist():
        steps = plan.continue_from([], most)
        assert steps is not None
        assert steps == plan.decide(CascadeQuery(deadline=most)).steps


def test_somebodys_plan_that_calls_one_twice_still_ends(plan: CascadePlan) -> None:
    forged = replace(plan, members=np.zeros_like(plan.members))
    way = forged.continue_from([], 1e9)
    assert way is not None
    assert [step.classifier for step in way][-1] == "strong"


@cache
def fitted_portfolio() -> Any:
    """Fit a portfolio to the sample trace."""
    return portfolio.kind.fit(sample(), PortfolioOptions(curve_points=3), np.random.default_rng(0), BuildContext()).plan


@pytest.fixture
def routes() -> Any:
    """Give a portfolio of the sample trace."""
    return fitted_portfolio()


def routed(plan: Any, world: World, most: float = inf, excluded: frozenset[str] = frozenset()) -> RunAnswer:
    """Run a query."""
    query = RouteQuery(query=(0.9, 0.9), budget="60%", item="a")
    estimates = plan.estimate_one(query.query)
    first = plan.decide(query)
    other = make_fallback_router(plan, estimates, plan.resolve_query_budget(query), max_cost=most)
    steps = run_portfolio(dict(first), remaining_seconds=10.0, unavailable=excluded)
    return world.drive(run_with_local_decisions(steps, other), 10.0)


def test_a_query_is_answered_by_the_classifier_it_is_routed_to(routes: Any) -> None:
    world = World({name: sure(name, name) for name in routes.classifiers})
    answer = routed(routes, world)
    assert (answer.answered_by, answer.degraded) == (world.called[0], None)
    assert len(world.called) == 1


def test_a_failed_call_goes_to_the_best_other_classifier_once_each(routes: Any) -> None:
    world = World({"strong": sure("strong", "dog")})
    answer = routed(routes, world)
    assert answer.label == "dog"
    assert sorted(world.called) == sorted(set(world.called))
    with pytest.raises(EndpointFailed, match="no other classifier is affordable"):
        routed(routes, World({}))


def test_no_classifier_takes_a_failed_ones_place_that_costs_more_than_there_is(routes: Any) -> None:
    first = routed(routes, World({name: sure(name, name) for name in routes.classifiers})).answered_by
    cost = float(routes.costs[routes.classifiers.index(first)])
    world = World({})
    with pytest.raises(EndpointFailed):
        routed(routes, world, most=cost)
    dearer = [name for name, its in zip(routes.classifiers, routes.costs.tolist(), strict=True) if its > cost]
    assert not set(world.called) & set(dearer)


@cache
def fitted_policy() -> Any:
    """Fit a policy to the sample trace, once."""
    return policy.kind.fit(
        sample(), PolicyOptions(points=3, trees=12, depth=2), np.random.default_rng(1), BuildContext()
    ).plan


@pytest.fixture
def policies() -> Any:
    """Give a policy of the sample trace."""
    return fitted_policy()


def test_a_policy_acquires_what_it_asks_for_and_classifies_as_it_would(policies: Any) -> None:
    query = PolicyQuery(item="a", budget=5.0)
    world = World(
        {name: sure(name, "cat", 0.9) for name in ("fast", "middle")} | {"strong": CallResult("strong", "cat")}
    )
    answer = world.drive(run_policy(policies, query, left=10.0), 10.0)
    assert answer.label == "cat"
    assert answer.probabilities is not None
    assert answer.degraded is None
    assert world.called


def test_a_policy_plans_a_run_within_the_deadline(policies: Any) -> None:
    """It calls no sensors whose worst cases, one after the other, pass it; the first that fits where one is lost."""
    says = World({name: sure(name, "cat", 0.9) for name in ("fast", "middle", "strong")})
    times = dict(zip(policies.sensors, policies.times.tolist(), strict=True))
    for deadline in (times["fast"], times["fast"] + times["middle"], sum(times.values())):
        world = World(says.says)
        world.drive(run_policy(policies, PolicyQuery(item="a", deadline=deadline), left=10.0), 10.0)
        assert sum(times[name] for name in world.called) <= deadline
    closed = frozenset({"fast"})
    with pytest.raises(EndpointFailed):
        says.drive(
            run_policy(policies, PolicyQuery(item="a", deadline=times["fast"]), left=10.0, excluded=closed), 10.0
        )
    assert says.called == []


def test_without_the_sensor_it_wants_a_policy_takes_the_cheapest_first(policies: Any) -> None:
    costs = dict(zip(policies.sensors, policies.costs.tolist(), strict=True))
    query = PolicyQuery(item="a")
    first = policies.decide(query).sensor
    others = sorted((cost, name) for name, cost in costs.items() if name != first)
    world = World({name: sure(name, "cat", 0.9) for _, name in others})
    answer = world.drive(run_policy(policies, query, left=10.0), 10.0)
    assert world.called[:2] == [first, others[0][1]]
    assert answer.label == "cat"
    assert "broken" in str(answer.degraded)


@pytest.mark.parametrize("lost", ["fast", "middle"])
def test_in_a_lost_ones_place_a_policy_acquires_what_it_asks_for_without_it(policies: Any, lost: str) -> None:
    """Not only at the start: what is known by then still counts, and it stops only where it would without that one."""
    says = {"fast": sure("fast", "cat", 0.6), "middle": sure("middle", "cat", 0.6), "strong": sure("strong", "cat")}
    answers = {"fast": ("cat", 0.6), "middle": ("cat", 0.6), "strong": "cat"}
    del says[lost]
    replaced = 0
    for item in map(str, range(30)):
        query = PolicyQuery(item=item, budget=5.0)
        world, answer = World(says), None
        with suppress(EndpointFailed):
            answer = world.drive(run_policy(policies, query, left=10.0), 10.0)
        if answer is None or lost not in world.called:
            continue
        known = {name: answers[name] for name in world.called if name != lost}
        after = policies.decide(query.model_copy(update={"acquired": known, "excluded": (lost,)}))
        assert after.action == "classify"
        replaced += world.called[-1] != lost
    assert replaced


@pytest.mark.parametrize("lost", ["fast", "middle", "strong"])
def test_what_is_fetched_together_is_never_fetched_alone_in_a_lost_ones_place(lost: str) -> None:
    options = PolicyOptions(points=3, trees=5, depth=2, parallel=(("middle", "strong"),))
    plan = policy.kind.fit(sample(), options, np.random.default_rng(0), BuildContext()).plan
    says = {name: sure(name, "cat", 0.9) for name in ("fast", "middle", "strong") if name != lost}
    for item in "abcdefgh":
        world = World(says)
        with suppress(EndpointFailed):
            world.drive(run_policy(plan, PolicyQuery(item=item), left=10.0), 10.0)
        assert ("middle" in world.called) == ("strong" in world.called)
        assert len(set(world.called)) == len(world.called)


FAULTS = st.fixed_dictionaries(dict.fromkeys(("fast", "middle", "strong"), st.sampled_from(("well", "lost", "paid"))))
"""For each classifier whether it answers, fails unpaid, or fails and may have been paid."""


def faulty(faults: dict[str, str]) -> World:
    """Make a world of such classifiers."""
    says = {name: sure(name, "cat", 0.6) for name, fault in faults.items() if fault == "well"}
    failed = {
        name: CallResult(name, error="broken", is_paid=faults[name] == "paid") for name in faults.keys() - says.keys()
    }
    return World(says | failed)


def paid(world: World, faults: dict[str, str], costs: dict[str, float]) -> float:
    """Add up what was called and may be paid."""
    return sum(costs[name] for name in world.called if faults[name] != "lost")


@settings(max_examples=case_count(200, 60))
@given(faults=FAULTS, share=st.floats(0.0, 1.2), item=st.text(min_size=1, max_size=3))
def test_no_item_of_a_policy_costs_more_than_its_hard_budget_whatever_fails(
    faults: dict[str, str], share: float, item: str
) -> None:
    policies = fitted_policy()
    costs, world = dict(zip(policies.sensors, policies.costs.tolist(), strict=True)), faulty(faults)
    least = min(costs.values())
    max_item_cost = least + share * (sum(costs.values()) - least)
    with suppress(EndpointFailed):
        world.drive(run_policy(policies, PolicyQuery(item=item, max_item_cost=max_item_cost), left=10.0), 10.0)
    assert paid(world, faults, costs) <= max_item_cost * (1 + 1e-9)


@settings(max_examples=200)
@given(faults=FAULTS, share=st.floats(0.0, 1.2), place=st.integers(0, 20))
def test_no_query_of_a_portfolio_costs_more_than_was_counted_whatever_fails(
    faults: dict[str, str], share: float, place: int
) -> None:
    routes = fitted_portfolio()
    costs, world = dict(zip(routes.classifiers, routes.costs.tolist(), strict=True)), faulty(faults)
    query = RouteQuery(query=(place / 20, 1 - place / 20), budget="60%", item="a")
    first = routes.decide(query)
    most = first.cost + share * max(costs.values())
    other = make_fallback_router(
        routes, routes.estimate_one(query.query), routes.resolve_query_budget(query), max_cost=most
    )
    with suppress(EndpointFailed):
        world.drive(run_with_local_decisions(run_portfolio(dict(first), remaining_seconds=10.0), other), 10.0)
    assert paid(world, faults, costs) <= most * (1 + 1e-9)


def test_a_policy_that_gets_nothing_has_no_answer(policies: Any) -> None:
    with pytest.raises(EndpointFailed, match="broken"):
        World({}).drive(run_policy(policies, PolicyQuery(item="a"), left=10.0), 10.0)
    world, closed = World({}), frozenset({"fast", "middle", "strong"})
    with pytest.raises(EndpointFailed, match="its circuit is open"):
        world.drive(run_policy(policies, PolicyQuery(item="a"), left=10.0, excluded=closed), 10.0)
    assert not world.called
    slow = World({}, dict.fromkeys(closed, 1e9))
    with pytest.raises(RunTimeout):
        slow.drive(run_policy(policies, PolicyQuery(item="a"), left=10.0), 10.0)


def values(name: str, *numbers: float | None) -> CallResult:
    """Say the values of a feature."""
    return CallResult(name, values=numbers)


def step_of(stages: list[tuple[str, ...]]) -> Callable[[Any], Any]:
    """Make a pipeline that accepts once its last stage's features are there."""

    def decide(asked: Any) -> Any:
        for stage in stages:
            lacking = tuple(name for name in stage if name not in asked.acquired)
            if lacking:
                return {"step": {"action": "acquire", "features": lacking, "cost": 1.0}}
        return {"step": {"action": "classify", "label": str(dict(asked.acquired)), "confidence": 0.9}}

    return decide


def test_a_pipeline_fetches_what_a_stage_lacks_and_a_lost_feature_is_a_missing_cell() -> None:
    world = World({"age": values("age", 3.0)})
    decide = step_of([("age",), ("age", "blood")])
    answer = world.drive(
        run_with_local_decisions(run_pipeline(decide(DecisionRequest()), acquired={}, remaining_seconds=5.0), decide),
        5.0,
    )
    assert world.called == ["age", "blood"]
    assert answer.label == str({"age": (3.0,), "blood": None})
    assert "blood: broken" in str(answer.degraded)


def predict_acquired(step: Any) -> Any:
    """Classify as the features that are there, in place of an index; a value of two cells is invalid for ``b``."""
    if isinstance(step, DecisionRequest):
        return {"features": tuple(step.acquired), "cost": 0.0}
    if len(step.values.get("b", (0,))) > 1:
        return Refusal("invalid cells", frozenset({"b"}))
    return {"label": str(dict(step.values)), "confidence": None, "probabilities": None}


def test_an_index_computes_its_features_at_once_and_without_one_does_with_the_others() -> None:
    def drive(world: World, *features: str) -> RunAnswer:
        steps = run_index({"features": features, "cost": 2.0}, remaining_seconds=5.0)
        return world.drive(run_with_local_decisions(steps, predict_acquired), 5.0)

    answer = drive(World({"a": values("a", 1.0, 2.0), "b": values("b", 3.0)}), "a", "b")
    assert (answer.label, answer.degraded) == (str({"a": (1.0, 2.0), "b": (3.0,)}), None)
    answer = drive(World({"b": values("b", 3.0)}), "a", "b")
    assert (answer.label, answer.degraded) == (str({"b": (3.0,)}), "a: broken")
    answer = drive(World({"a": values("a", 1.0), "b": values("b", 3.0, 4.0)}), "a", "b")
    assert (answer.label, answer.degraded) == (str({"a": (1.0,)}), "b: invalid value: invalid cells")
    answer = drive(World({"a": values("a", 1.0, None)}), "a")
    assert (answer.label, answer.degraded) == (str({"a": (1.0, None)}), None)
