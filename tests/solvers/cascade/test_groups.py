"""Grouped classifiers at scale: limits, the beam search and what it proves."""

import math

import numpy as np
import pytest

from models import InvalidRequest
from models.cascade import Classifier
from solvers.cascade import solve
from solvers.cascade.groups import search
from solvers.cascade.groups.labels import LabelSearch, SearchTask, TooManyLabels
from solvers.cascade.groups.lower_bound import build_chain_bound, build_single_guess
from solvers.cascade.groups.search import solve_group_frontier, solve_groups
from solvers.cascade.groups.state_layout import StateLayout
from solvers.cascade.groups.states import compute_cost_to_go
from solvers.cascade.independent_classifiers import build_independent_frontier
from solvers.cascade.problem import CascadeProblem, build_step_function, find_best_within
from tests.support.strategies import even_groups, random_classifiers


def problem_of(classifiers: list[Classifier]) -> CascadeProblem:
    return CascadeProblem.from_classifiers([k for k in classifiers if not k.deterministic], classifiers[-1], "grouped")


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_holds_in_every_state_and_is_exact_for_single_members(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [1] * 6 if seed % 4 == 0 else rng.integers(1, 4, 4).tolist()
    layout = StateLayout.from_problem(problem_of(even_groups(rng, sizes, power=0.9)))
    states = np.arange(layout.states)[:, None]
    spare = np.full(layout.states, math.inf)
    togo, bound = compute_cost_to_go(layout), build_chain_bound(layout).evaluate(states, spare)
    assert np.all(bound <= togo.look_up(states, spare) * (1 + 1e-12))
    if max(sizes) == 1:
        np.testing.assert_allclose(bound, togo.look_up(states, spare), rtol=1e-12)
        np.testing.assert_allclose(build_single_guess(layout).evaluate(states, spare), bound, rtol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_holds_for_every_deadline(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classifiers = random_classifiers(rng, 6, groups=3, whole=bool(seed % 2))
    last = next(k for k in classifiers if k.deterministic)
    faster = [k for k in classifiers if k.execution_time < last.execution_time]
    problem = CascadeProblem.from_classifiers(faster, last, "grouped")
    layout = StateLayout.from_problem(problem)
    bound, start = build_chain_bound(layout), np.zeros((1, 1), dtype=np.int64)
    for deadline in np.linspace(last.worst_case, last.worst_case + problem.worst.sum(), 7):
        decision = solve([*faster, last], deadline=float(deadline), dependence="grouped")
        assert bound.evaluate(start, np.array([deadline - last.worst_case]))[0] <= decision.expected_duration * (
            1 + 1e-9
        )


@pytest.mark.parametrize("share", [None, 0.1, 0.4])
@pytest.mark.slow
def test_twenty_groups_of_two_are_beyond_enumeration_and_answered_with_a_proved_bound(share: float | None) -> None:
    classifiers = even_groups(np.random.default_rng(1), [2] * 20)
    total = sum(k.worst_case for k in classifiers)
    deadline = None if share is None else 100 + share * (total - 100)
    decision = solve(classifiers, deadline=deadline)
    assert decision.algorithm == "group-beam"
    assert 0 < decision.lower_bound <= decision.expected_duration <= 1.05 * decision.lower_bound
    assert decision.optimal == (decision.lower_bound == decision.expected_duration)
    assert deadline is None or decision.maximum_duration <= deadline


def test_group_states_asked_for_by_name_beyond_its_limit_is_refused_with_the_number() -> None:
    with pytest.raises(InvalidRequest, match=r"at most 2,000,000 states, got 3,486,784,401; use group-beam"):
        solve(even_groups(np.random.default_rng(1), [2] * 20), algorithm="group-states")


def test_states_of_several_words() -> None:
    """A hundred groups of two have 3^100 states, more than one int64 word holds."""
    classifiers = even_groups(np.random.default_rng(3), [2] * 60, power=0.9)
    layout = StateLayout.from_problem(problem_of(classifiers))
    assert (layout.words_per_state, layout.states) == (2, 3**60)
    decision = solve(classifiers)
    assert decision.lower_bound <= decision.expected_duration <= 1.2 * decision.lower_bound


def test_a_narrow_beam_is_not_optimal_and_its_bound_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "BEAM_CELLS", 1)
    unproved = 0
    for seed in range(12):
        classifiers = even_groups(np.random.default_rng(seed), [3, 3, 3])
        for deadline in (None, 150.0):
            exact = solve(classifiers, deadline=deadline)
            beam = solve(classifiers, deadline=deadline, algorithm="group-beam")
            assert (exact.algorithm, exact.optimal) == ("group-states", True)
            assert beam.lower_bound <= exact.expected_duration * (1 + 1e-12)
            assert beam.expected_duration >= exact.expected_duration * (1 - 1e-12)
            assert beam.optimal == (beam.lower_bound == beam.expected_duration)
            unproved += not beam.optimal
    assert unproved


def test_too_many_labels_hand_over_to_the_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    classifiers = even_groups(np.random.default_rng(5), [4, 4, 4])
    problem = problem_of(classifiers)
    layout = StateLayout.from_problem(problem)
    task = SearchTask(
        layout, (compute_cost_to_go(layout).look_up,), build_single_guess(layout).evaluate, 115.0, max_labels=5
    )
    with pytest.raises(TooManyLabels):
        LabelSearch(task).run()

    def give_up(*_: object, **__: object) -> None:
        return None

    exact = solve(classifiers, deadline=115)
    steps = build_step_function(problem, solve_group_frontier(problem)[0])
    monkeypatch.setattr(search, "_solve_exact", give_up)
    front, algorithm = solve_groups(problem, 115, None)
    assert algorithm == "group-beam"
    assert find_best_within(problem, front, 115).expected == pytest.approx(exact.expected_duration, rel=1e-12)
    front, algorithm = solve_group_frontier(problem)
    beams = build_step_function(problem, front)
    assert algorithm == "group-beam"
    assert {step.members for step in beams} <= {step.members for step in steps}
    assert beams[-1].expected == steps[-1].expected


def test_exact_search_gives_up_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(_: LabelSearch) -> None:
        raise TooManyLabels

    problem = problem_of(even_groups(np.random.default_rng(5), [2, 2]))
    layout = StateLayout.from_problem(problem)
    monkeypatch.setattr(LabelSearch, "run", overflow)
    assert search._solve_exact(layout, compute_cost_to_go(layout), 150.0, for_all_deadlines=False) is None


@pytest.mark.slow
def test_the_frontier_of_too_many_states_is_searched_at_some_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BEAM_DEADLINES", 4)
    problem = problem_of(even_groups(np.random.default_rng(2), [1] * 20 + [2], power=0.3))
    front, algorithm = solve_group_frontier(problem)
    steps = build_step_function(problem, front)
    assert algorithm == "group-beam"
    assert steps[0].members == ()
    free = solve([*problem.idk, problem.last], dependence="grouped")
    assert steps[-1].expected == pytest.approx(free.expected_duration, rel=1e-12)
    assert front.lower_bound is not None, "between the deadlines searched something may be missed: never call it exact"
    assert front.lower_bound <= steps[-1].expected


def test_groups_of_one_and_a_single_group_have_exact_frontiers_however_many() -> None:
    rng = np.random.default_rng(2)
    alone = problem_of(even_groups(rng, [1] * 24, power=0.3))
    front, algorithm = solve_group_frontier(alone)
    exact = build_step_function(alone, build_independent_frontier(alone))
    assert (algorithm, front.lower_bound) == ("ratio-frontier", None)
    assert [step.expected for step in build_step_function(alone, front)] == [step.expected for step in exact]
    together = problem_of(even_groups(rng, [24], power=0.9))
    front, algorithm = solve_group_frontier(together)
    assert (algorithm, front.lower_bound) == ("power-frontier", None)


@pytest.mark.parametrize("seed", range(15))
def test_the_frontier_answers_every_deadline_like_a_search_for_it_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = problem_of(even_groups(rng, rng.integers(1, 4, 3).tolist(), power=0.9))
    front, algorithm = solve_group_frontier(problem)
    steps = build_step_function(problem, front)
    assert algorithm == "group-states"
    classifiers = [*problem.idk, problem.last]
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        later = step.maximum + 1000 if following is None else math.nextafter(following.maximum, 0)
        for deadline in (step.maximum, later):
            alone = solve(classifiers, deadline=deadline, dependence="grouped")
            assert alone.expected_duration == pytest.approx(step.expected, rel=1e-10)
            assert alone.maximum_duration <= deadline
