"""Examples 1 to 9 of Baruah, Burns, Davis, Wu: *Optimally ordering IDK classifiers subject to deadlines*.

The sections are those of the journal's own numbering, in which independent classifiers are Section 3. Two parameters
are not in the text: K_3 of Example 5 is (8, 0.75), which every product uses; and in Examples 6 and 9 the text says
P_3 = 0.5 where C_3 / P_3 = 13.333 and every product use 0.75, which is what is tested.
"""

import math
from collections.abc import Sequence

import pytest

from models.cascade import Algorithm, Classifier, SolveDependence
from models.errors import Infeasible
from solvers.cascade import solve
from solvers.cascade.problem import CascadeProblem
from tests.oracles.cascade import algorithm_3, grid_dependent, grid_independent
from tests.papers.idk_examples import (
    EXAMPLE_1,
    EXAMPLE_2,
    EXAMPLE_3,
    EXAMPLE_5,
    EXAMPLE_6,
    EXAMPLE_7,
    EXAMPLE_8,
    k,
)


def expected(classifiers: Sequence[Classifier], order: str, dependence: SolveDependence) -> float:
    """Compute the expected duration of a cascade written as in "1 3 4"."""
    *idk, last = classifiers
    assert order.split()[-1] == last.name[1:]
    problem = CascadeProblem.from_classifiers(idk, last, dependence)
    names = [member.name for member in problem.idk]
    return problem.evaluate(names.index(f"K{number}") for number in order.split()[:-1]).expected


def test_example_1_one_idk_classifier_before_the_deterministic_one() -> None:
    decision = solve(EXAMPLE_1)
    assert decision.cascade == ("K1", "K3")
    assert decision.expected_duration == pytest.approx(9, rel=1e-12)
    assert decision.maximum_duration == 15
    assert expected(EXAMPLE_1, "3", "independent") == 10


@pytest.mark.parametrize(("order", "duration"), [("1 2 3", 9.4), ("2 1 3", 10.2), ("2 3", 11), ("1 3", 9)])
def test_example_2_lemma_1(order: str, duration: float) -> None:
    assert expected(EXAMPLE_2, order, "independent") == pytest.approx(duration, rel=1e-12)


def test_example_2_the_added_classifier_is_not_used() -> None:
    decision = solve(EXAMPLE_2)
    assert (decision.cascade, decision.algorithm, decision.optimal) == (("K1", "K3"), "ratio-order", True)
    assert decision.expected_duration == pytest.approx(9, rel=1e-12)
    assert decision.discarded == ()


def test_definition_2_conditional_probability() -> None:
    """Section 2: P_A = 0.6 and P_B = 0.8 leave B a probability of 0.5 after A; Section 4: 0.5 and 0.8 leave 0.6."""
    for first, second, conditional in ((0.6, 0.8, 0.5), (0.5, 0.8, 0.6)):
        problem = CascadeProblem.from_classifiers([k(1, 1, first), k(2, 2, second)], k(3, 9, 1.0), "dependent")
        one, after_a, after_b = problem.reaching_probabilities((0, 1))
        assert one == 1
        assert after_a == pytest.approx(1 - first)
        assert 1 - after_b / after_a == pytest.approx(conditional, rel=1e-12)


@pytest.mark.parametrize(("order", "duration"), [("1 2 3", 12.5), ("1 3", 12.5), ("2 3", 12), ("3", 15)])
def test_example_3_dependent_cascades(order: str, duration: float) -> None:
    assert expected(EXAMPLE_3, order, "dependent") == pytest.approx(duration, rel=1e-12)


def test_example_4_equation_6() -> None:
    """f(1) = 5, f(2) = 9 (9.5 after K1), f(3) = 12 with S(3) = K2, K3."""
    for last, duration in ((1, 5), (2, 9), (3, 12)):
        ending = EXAMPLE_3[last - 1].model_copy(update={"success_probability": 1.0})
        decision = solve([*EXAMPLE_3[: last - 1], ending], dependence="dependent")
        assert decision.expected_duration == pytest.approx(duration, rel=1e-12)
    assert expected([*EXAMPLE_3[:1], k(2, 9, 1.0)], "1 2", "dependent") == pytest.approx(9.5, rel=1e-12)
    decision = solve(EXAMPLE_3, dependence="dependent")
    assert (decision.cascade, decision.algorithm, decision.optimal) == (("K2", "K3"), "power-order", True)


@pytest.mark.parametrize(
    ("order", "duration"),
    [
        ("1 2 4", 12.5),
        ("1 4", 12.5),
        ("2 4", 12),
        ("4", 15),
        ("3 1 2 4", 11.125),
        ("1 3 2 4", 10.875),
        ("1 2 3 4", 11.85),
        ("3 1 4", 11.125),
        ("1 3 4", 10.875),
        ("3 2 4", 11),
        ("2 3 4", 11.35),
        ("3 4", 11.75),
    ],
)
def test_example_5_every_cascade(order: str, duration: float) -> None:
    assert expected(EXAMPLE_5, order, "grouped") == pytest.approx(duration, rel=1e-12)


def test_example_5_of_two_optimal_cascades_the_shorter_maximum() -> None:
    decision = solve(EXAMPLE_5)
    assert decision.cascade == ("K1", "K3", "K4")
    assert (decision.algorithm, decision.optimal, decision.maximum_duration) == ("group-states", True, 28)
    assert decision.expected_duration == decision.lower_bound == pytest.approx(10.875, rel=1e-12)


@pytest.mark.parametrize(
    ("order", "duration"), [("1 2 3 4", 12.5), ("1 3 2 4", 12.125), ("2 3 4", 12), ("3 2 4", 13.25)]
)
def test_example_6_the_order_of_two_depends_on_a_third(order: str, duration: float) -> None:
    """With P_3 = 0.75 (the text's 0.5 is a slip)."""
    assert expected(EXAMPLE_6, order, "grouped") == pytest.approx(duration, rel=1e-12)


def test_example_6_optimum() -> None:
    decision, oracle = solve(EXAMPLE_6), algorithm_3(EXAMPLE_6)
    assert oracle is not None
    assert decision.cascade == oracle.names == ("K2", "K3", "K4")
    assert decision.expected_duration == pytest.approx(12, rel=1e-12)


E = {
    4: {9: math.inf, 10: 10, 13: 10, 16: 10},
    3: {9: math.inf, 10: 10, 11: 10, 12: 7, 13: 7, 16: 7},
    2: {9: math.inf, 10: 10, 11: 10, 12: 7, 13: 4, 14: 4, 15: 3.7, 16: 3.7},
    1: {9: math.inf, 10: 10, 11: 7, 12: 7, 13: 4, 14: 3.4, 15: 3.4, 16: 3.22},
}
"""E(k, d) of Example 7, wherever the text says it (K_1 at 14 to 16 from the optimal cascades of those deadlines)."""

F = {
    1: {0: math.inf, 1: 1, 16: 1},
    2: {2: math.inf, 3: 3, 4: 2.5, 16: 2.5},
    3: {5: math.inf, 6: 6, 7: 4, 8: 4, 9: 4, 10: 3.7, 16: 3.7},
    4: {7: math.inf, 8: 8, 9: 5, 10: 5, 11: 4.6, 12: 4.1, 13: 4.1, 14: 4.1, 15: 4.08, 16: 4.08, 18: 3.78},
}
"""F(i, d) of Example 8, wherever the text says it."""


def durations(classifiers: list[Classifier], deadline: int, dependence: SolveDependence) -> float:
    """Solve for a deadline; what is infeasible takes for ever."""
    try:
        return solve(classifiers, deadline=deadline or None, dependence=dependence).expected_duration
    except Infeasible:
        return math.inf


def test_example_7_equations_12_and_13() -> None:
    """K_k … K_4 alone, as the recurrence has it, by the artifact kind and by the recurrence on a grid of integers."""
    grid = grid_independent(EXAMPLE_7, 16)
    for first, values in E.items():
        for deadline, value in values.items():
            assert durations(EXAMPLE_7[first - 1 :], deadline, "independent") == pytest.approx(value, rel=1e-12)
            assert grid[first - 1][deadline] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("deadline", "cascade"),
    [(10, "K4"), (11, "K1 K4"), (12, "K1 K4"), (13, "K2 K4"), (14, "K1 K2 K4"), (15, "K1 K2 K4"), (16, "K1 K2 K3 K4")],
)
def test_example_7_cascades(deadline: float, cascade: str) -> None:
    """At 12 the text allows K1 K4 and K3 K4; the smaller maximum is preferred."""
    decision = solve(EXAMPLE_7, deadline=deadline)
    assert " ".join(decision.cascade) == cascade
    assert (decision.algorithm, decision.optimal) == ("ratio-frontier", True)


def test_example_8_equations_14_and_15() -> None:
    """F(i, d) ends with K_i, whatever it leaves unclassified: the artifact kind is given it as deterministic."""
    grid = grid_dependent(EXAMPLE_8, 18)
    for last, values in F.items():
        ending = EXAMPLE_8[last - 1].model_copy(update={"success_probability": 1.0})
        for deadline, value in values.items():
            if deadline:
                solved = durations([*EXAMPLE_8[: last - 1], ending], deadline, "dependent")
                assert solved == pytest.approx(value, rel=1e-12)
            assert grid[last - 1][deadline] == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("deadline", "cascade"),
    [(8, "K4"), (9, "K1 K4"), (10, "K1 K4"), (11, "K2 K4"), (12, "K1 K2 K4"), (16, "K1 K3 K4"), (18, "K1 K2 K3 K4")],
)
def test_example_8_cascades(deadline: float, cascade: str) -> None:
    decision = solve(EXAMPLE_8, deadline=deadline, dependence="dependent")
    assert " ".join(decision.cascade) == cascade
    assert (decision.algorithm, decision.optimal) == ("power-frontier", True)


@pytest.mark.parametrize("algorithm", [None, "group-states", "group-beam"])
def test_example_9_groups_with_a_deadline(algorithm: Algorithm | None) -> None:
    """With P_3 = 0.75 (the text's 0.5 is a slip); the two trials that the text calls infeasible take 44 and 39."""
    decision, oracle = solve(EXAMPLE_6, deadline=36, algorithm=algorithm), algorithm_3(EXAMPLE_6, 36)
    assert oracle is not None
    assert decision.cascade == oracle.names == ("K1", "K3", "K4")
    assert decision.expected_duration == pytest.approx(12.5, rel=1e-12)
    assert decision.maximum_duration == 35
    assert sum(member.worst_case for member in EXAMPLE_6) == 44
    assert solve(EXAMPLE_6, deadline=39).maximum_duration == 39
