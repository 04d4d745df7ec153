"""The frontier algorithms: all deadlines at once, and what is proved when fronts are thinned."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from models.cascade import SolveDependence
from solvers.cascade import solve
from solvers.cascade.dependent_classifiers import build_dependent_frontier
from solvers.cascade.groups.pareto import subsample_front
from solvers.cascade.independent_classifiers import build_independent_frontier
from solvers.cascade.problem import CascadeFront, CascadeProblem, build_step_function, find_best_within
from tests.support.strategies import even_groups

CASES: list[tuple[SolveDependence, Callable[..., CascadeFront]]]
CASES = [("independent", build_independent_frontier), ("dependent", build_dependent_frontier)]


@pytest.mark.parametrize(("dependence", "frontier"), CASES)
def test_the_step_function_answers_every_deadline(
    dependence: SolveDependence, frontier: Callable[..., CascadeFront]
) -> None:
    for seed in range(10):
        *idk, last = even_groups(np.random.default_rng(seed), [1] * 8, power=0.9)
        problem = CascadeProblem.from_classifiers(idk, last, dependence)
        steps = build_step_function(problem, frontier(problem))
        assert all(a.maximum < b.maximum and a.expected > b.expected for a, b in pairwise(steps))
        for step in steps:
            alone = solve([*idk, last], dependence=dependence, deadline=step.maximum)
            assert alone.expected_duration == pytest.approx(step.expected, rel=1e-10)
    *idk, last = even_groups(np.random.default_rng(0), [1])  # a cascade that gains nothing is no step
    useless = CascadeProblem.from_classifiers([idk[0].model_copy(update={"execution_time": 99.0})], last, "independent")
    assert [step.members for step in build_step_function(useless, CascadeFront(iter([(0,), ()])))] == [()]


@pytest.mark.parametrize(("dependence", "frontier"), CASES)
@pytest.mark.parametrize("most", [1, 40, 150])
def test_thinned_fronts_prove_what_is_left(
    dependence: SolveDependence, frontier: Callable[..., CascadeFront], most: int
) -> None:
    thinned_ones = 0
    for seed in range(10):
        *idk, last = even_groups(np.random.default_rng(seed), [1] * 9, power=0.9)
        problem = CascadeProblem.from_classifiers(idk, last, dependence)
        for deadline in (None, 150.0, 200.0):
            exact = find_best_within(problem, frontier(problem, deadline), deadline)
            front = frontier(problem, deadline, most)
            best_cascade = find_best_within(problem, front, deadline)
            assert best_cascade.expected >= exact.expected * (1 - 1e-12)
            assert deadline is None or best_cascade.maximum <= deadline
            if front.lower_bound is not None:
                thinned_ones += 1
                assert front.lower_bound <= exact.expected
    assert thinned_ones or most > 1


def test_two_hundred_classifiers_with_a_deadline() -> None:
    classifiers = even_groups(np.random.default_rng(0), [1] * 199, power=0.05)
    total = sum(k.worst_case for k in classifiers)
    for dependence in ("independent", "dependent"):
        decision = solve(classifiers, deadline=100 + (total - 100) / 3, dependence=dependence)
        assert decision.lower_bound <= decision.expected_duration <= 1.05 * decision.lower_bound
        assert decision.maximum_duration <= 100 + (total - 100) / 3


def test_thinning_keeps_a_label_near_every_dropped_one() -> None:
    rng = np.random.default_rng(0)
    expected = np.sort(rng.random(1000))[::-1]
    kept, width = subsample_front(expected, 30)
    assert len(kept) <= 31
    for i, value in enumerate(expected):
        stays = kept[kept <= i][-1]
        assert value <= expected[stays] <= value + width
