"""What holds for any classifiers."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cascade import CascadeDecision, Classifier, SolveDependence
from models.errors import Infeasible
from solvers.cascade import solve
from tests.support.strategies import classifier_sets

dependences = st.sampled_from(["independent", "dependent", "grouped"])
deadlines = st.floats(0.01, 200, allow_subnormal=False)


def attempt(
    classifiers: list[Classifier], deadline: float | None, dependence: SolveDependence
) -> CascadeDecision | None:
    try:
        return solve(classifiers, deadline=deadline, dependence=dependence)
    except Infeasible:
        return None


@given(classifier_sets(), deadlines, dependences)
def test_never_over_the_deadline_and_infeasible_only_if_no_deterministic_one_fits(
    classifiers: list[Classifier], deadline: float, dependence: SolveDependence
) -> None:
    decision = attempt(classifiers, deadline, dependence)
    if decision is None:
        assert min(k.worst_case for k in classifiers if k.deterministic) > deadline
    else:
        assert decision.maximum_duration <= deadline


@given(classifier_sets(), deadlines, deadlines, dependences)
def test_a_larger_deadline_is_never_worse(
    classifiers: list[Classifier], one: float, other: float, dependence: SolveDependence
) -> None:
    tight = attempt(classifiers, min(one, other), dependence)
    loose = attempt(classifiers, max(one, other), dependence)
    free = attempt(classifiers, None, dependence)
    assert free is not None
    if tight is not None:
        assert loose is not None
        assert loose.expected_duration <= tight.expected_duration * (1 + 1e-11)
    if loose is not None:
        assert free.expected_duration <= loose.expected_duration * (1 + 1e-11)


@given(classifier_sets(), st.randoms(use_true_random=False), st.none() | deadlines, dependences)
def test_the_order_of_the_input_does_not_matter(
    classifiers: list[Classifier], random: Random, deadline: float | None, dependence: SolveDependence
) -> None:
    shuffled = random.sample(classifiers, len(classifiers))
    assert attempt(classifiers, deadline, dependence) == attempt(shuffled, deadline, dependence)


@given(classifier_sets(), st.none() | deadlines, dependences)
def test_the_decision_is_consistent(
    classifiers: list[Classifier], deadline: float | None, dependence: SolveDependence
) -> None:
    decision = attempt(classifiers, deadline, dependence)
    if decision is not None:
        by_name = {k.name: k for k in classifiers}
        assert len(set(decision.cascade)) == len(decision.cascade)
        assert [by_name[name].deterministic for name in decision.cascade] == [False] * (len(decision.cascade) - 1) + [
            True
        ]
        assert not {d.name for d in decision.discarded} & set(decision.cascade)
        assert decision.optimal
        assert decision.lower_bound == decision.expected_duration <= decision.maximum_duration * (1 + 1e-12)


@settings(max_examples=40)
@given(classifier_sets(most=5), st.none() | deadlines)
def test_all_algorithms_of_a_dependence_agree(classifiers: list[Classifier], deadline: float | None) -> None:
    for dependence in ("independent", "dependent"):
        first = attempt(classifiers, deadline, dependence)
        if first is not None:
            for algorithm in ("group-states", "group-beam"):
                other = solve(classifiers, deadline=deadline, dependence=dependence, algorithm=algorithm)
                assert other.expected_duration == pytest.approx(first.expected_duration, rel=1e-10, abs=1e-300)
