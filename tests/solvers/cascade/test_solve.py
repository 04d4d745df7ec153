"""What ``solve`` refuses, sets aside, prefers and promises about deadlines."""

import math

import pytest

from models import InvalidRequest
from models.cascade import Algorithm, Classifier, SolveDependence
from models.errors import Infeasible
from solvers.cascade import solve


def make(name: str, time: float, p: float, worst: float | None = None, group: str | None = None) -> Classifier:
    return Classifier(name=name, execution_time=time, success_probability=p, worst_case_time=worst, group=group)


@pytest.mark.parametrize(
    ("classifiers", "deadline", "loc", "message"),
    [
        ([make("A", 1, 0.5), make("B", 2, 0.5), make("A", 3, 1)], None, ("classifiers", 2, "name"), "'A'"),
        ([], None, ("classifiers",), "success probability 1"),
        ([make("A", 1, 0.5)], None, ("classifiers",), "success probability 1"),
        *(([make("D", 1, 1)], deadline, ("deadline",), ".") for deadline in (0.0, -1.0, math.nan, math.inf)),
    ],
)
def test_what_cannot_be_solved_is_refused_at_its_place(
    classifiers: list[Classifier], deadline: float | None, loc: tuple[object, ...], message: str
) -> None:
    """Equal names at the second of them; without a deterministic classifier nothing can end."""
    with pytest.raises(InvalidRequest, match=message) as caught:
        solve(classifiers, deadline=deadline)
    assert caught.value.faults[0].loc == loc


@pytest.mark.parametrize(
    ("algorithm", "dependence", "deadline", "named"),
    [
        ("ratio-order", "independent", 9.0, "ratio-frontier, group-states, group-beam"),
        ("power-order", "dependent", 9.0, "power-frontier, group-states, group-beam"),
        ("ratio-order", "grouped", None, "group-states, group-beam"),
        ("set-states", "independent", None, "ratio-order, ratio-frontier, group-states, group-beam"),
    ],
)
def test_an_algorithm_that_does_not_apply_is_refused_with_those_that_do(
    algorithm: Algorithm, dependence: SolveDependence, deadline: float | None, named: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"use {named}$") as caught:
        solve([make("D", 1, 1)], deadline=deadline, dependence=dependence, algorithm=algorithm)
    assert caught.value.faults[0].loc == ("algorithm",)


def test_no_deterministic_classifier_in_time_is_infeasible_with_the_numbers() -> None:
    with pytest.raises(Infeasible, match=r"10, .* 9$"):
        solve([make("A", 1, 0.5), make("D", 5, 1, worst=10), make("E", 11, 1)], deadline=9)


def test_groups_decide_the_default_dependence_and_are_ignored_when_another_is_named() -> None:
    classifiers = [make("A", 5, 0.5, group="g"), make("B", 9, 0.8, group="g"), make("D", 30, 1)]
    assert solve(classifiers).algorithm == "group-states"
    assert solve(classifiers, dependence="independent") == solve(
        [k.model_copy(update={"group": None}) for k in classifiers]
    )
    assert solve(classifiers, dependence="independent").algorithm == "ratio-order"
    assert solve(classifiers, dependence="dependent").algorithm == "power-order"


@pytest.mark.parametrize(
    ("classifiers", "deadline", "name", "numbers"),
    [
        ([make("slow", 10, 0.9, worst=11), make("D", 10, 1, worst=20)], None, "slow", "10 compared with 10"),
        (
            [make("late", 2, 0.9, worst=5.5), make("poor", 4, 0.1), make("D", 10, 1)],
            15,
            "late",
            "15.5, the deadline is 15",
        ),
        ([make("D", 10, 1, worst=12), make("E", 10, 1, worst=13)], None, "E", "D"),
    ],
)
def test_what_can_never_help_is_set_aside_with_the_reason_and_one_only_not_chosen_is_not(
    classifiers: list[Classifier], deadline: float | None, name: str, numbers: str
) -> None:
    decision = solve(classifiers, deadline=deadline)
    assert decision.cascade == ("D",)
    ((discarded, reason),) = ((each.name, each.reason) for each in decision.discarded)
    assert (discarded, numbers in reason) == (name, True)


def test_one_classifier_alone_and_one_that_takes_no_time() -> None:
    for dependence in ("independent", "dependent", "grouped"):
        for deadline in (None, 3.0):
            decision = solve([make("D", 3, 1)], dependence=dependence, deadline=deadline)
            assert (decision.cascade, decision.expected_duration, decision.maximum_duration) == (("D",), 3, 3)
            assert decision.optimal
    decision = solve([make("A", 0, 0.5), make("D", 0, 1, worst=2)])
    assert (decision.cascade, decision.expected_duration, decision.lower_bound) == (("D",), 0, 0)


def test_of_two_deterministic_classifiers_each_better_in_one_time_the_deadline_decides() -> None:
    classifiers = [make("A", 2, 0.5), make("mean", 10, 1, worst=30), make("sure", 12, 1, worst=12)]
    free, tight, tighter = solve(classifiers), solve(classifiers, deadline=31), solve(classifiers, deadline=29)
    assert free.cascade == ("A", "mean")
    assert "8 with it, 7 without" in free.discarded[0].reason
    assert tight.cascade == ("A", "sure")
    assert tighter.cascade == ("A", "sure")
    assert "30" in tighter.discarded[0].reason


def test_among_equal_expected_durations_the_smaller_maximum_is_preferred() -> None:
    decision = solve([make("A", 5, 0.5), make("D", 10, 1)])
    assert (decision.cascade, decision.expected_duration) == (("D",), 10)
    twins = [make("slow", 2, 0.5, 9, "g"), make("fast", 2, 0.5, 3, "g"), make("D", 10, 1)]
    for algorithm in ("group-states", "group-beam"):
        assert solve(twins, algorithm=algorithm).cascade == ("fast", "D")
    assert solve(twins, dependence="dependent").cascade == ("fast", "D")


@pytest.mark.parametrize("dependence", ["independent", "dependent", "grouped"])
def test_a_cascade_that_fits_exactly_is_not_lost_to_rounding(dependence: SolveDependence) -> None:
    """0.1 + 0.2 + 0.3 is 0.6000000000000001 when added in turn, and 0.6 when rounded once."""
    classifiers = [make("A", 0.1, 0.5, group="a"), make("B", 0.2, 0.9, group="b"), make("D", 0.3, 1)]
    classifiers[1] = classifiers[1].model_copy(update={"execution_time": 0.11, "worst_case_time": 0.2})
    assert 0.1 + 0.2 + 0.3 > 0.6
    decision = solve(classifiers, deadline=0.6, dependence=dependence)
    longest = solve(classifiers, dependence=dependence)
    assert decision.cascade == longest.cascade
    assert decision.maximum_duration <= 0.6


def test_a_cascade_over_the_deadline_by_one_rounding_is_not_returned() -> None:
    classifiers = [make("A", 0.1, 0.5), make("B", 0.2, 0.75), make("D", 3.0, 1)]
    needed = math.fsum((0.1, 0.2, 3.0))
    for algorithm in ("ratio-frontier", "group-states", "group-beam"):
        assert solve(classifiers, deadline=needed, algorithm=algorithm).cascade == ("A", "B", "D")
        assert len(solve(classifiers, deadline=math.nextafter(needed, 0), algorithm=algorithm).cascade) == 2


def test_the_deadline_counts_worst_cases_and_the_expectation_means() -> None:
    classifiers = [make("A", 1, 0.5, worst=8), make("D", 10, 1, worst=12)]
    assert solve(classifiers, deadline=20).expected_duration == 6
    assert solve(classifiers, deadline=20).maximum_duration == 20
    assert solve(classifiers, deadline=19.9).cascade == ("D",)


def test_tiny_probabilities_and_free_classifiers_do_no_harm() -> None:
    classifiers = [make("A", 0, 1e-300), make("B", 0, 0.5, 0, "g"), make("C", 1, 1 - 1e-16, 4, "g"), make("D", 10, 1)]
    for algorithm in ("group-states", "group-beam"):
        for deadline in (10.0, 13.0):
            assert solve(classifiers, algorithm=algorithm, deadline=deadline).cascade == ("B", "D")
        for enough in (None, 14.0):
            assert solve(classifiers, algorithm=algorithm, deadline=enough).cascade == ("B", "C", "D")
