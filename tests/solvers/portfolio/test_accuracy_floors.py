"""Floors: how assignments settle on what has to be taken off estimates at their own cost."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from models.arrays import Floats
from solvers.portfolio.accuracy_floors import MAX_ROUNDS, AccuracyFloors
from solvers.portfolio.constrained import ConflictingConstraints, ConstrainedChoice, Constraint, assign_constrained

N = 400
COSTS = np.array([1.0, 5.0])
VALUES = np.column_stack((np.linspace(0.2, 0.9, N), np.full(N, 0.95)))


def settled(
    too_high: dict[float, float], start: float, floor: float
) -> tuple[ConstrainedChoice, list[float], list[int]]:
    """Settle at the least cost above a floor; what was taken off by the mean cost of choices, on a line between.

    Gives what was taken off each time, and how often the most accurate assignment was asked for.
    """
    taken: list[float] = []
    asked: list[int] = []
    bound = Constraint(("accuracy",), 0, floor * N, is_upper=False)

    def off(cost: float) -> Floats:
        return np.full(2, np.interp(cost, list(too_high), list(too_high.values())))

    def solve(counting: Floats) -> ConstrainedChoice:
        taken.append(float((VALUES - counting)[0, 0]))
        return assign_constrained(np.tile(-COSTS, (N, 1)), [bound], uses=[counting])

    def most_accurate() -> ConstrainedChoice:
        asked.append(len(taken))
        return assign_constrained(VALUES, [])

    floored = AccuracyFloors(VALUES, COSTS, np.zeros(N, dtype=np.int64), 1, off)
    return floored.solve([start], [bound], solve, most_accurate), taken, asked


def reached(solution: ConstrainedChoice, off: float) -> float:
    return float(VALUES[np.arange(N), solution.choice].mean()) - off


def test_a_good_guess_is_enough_and_a_bad_one_is_made_good() -> None:
    too_high = {1.0: 0.08, 5.0: 0.0}
    bad, taken, _ = settled(too_high, 5.0, 0.8)
    assert len(taken) > 1
    assert taken == sorted(taken)
    spent = float(COSTS[bad.choice].mean())
    assert reached(bad, float(np.interp(spent, [1.0, 5.0], [0.08, 0.0]))) >= 0.8 * (1 - 1e-6)
    good, taken, asked = settled(too_high, spent - 0.05, 0.8)
    assert (len(taken), asked) == (1, [])
    assert good.value == pytest.approx(bad.value, rel=0.05)


def test_a_guess_that_makes_a_floor_impossible_is_not_the_last_word() -> None:
    """At the cost of the most accurate assignment nothing is taken off, and the floor can be kept."""
    solution, _, asked = settled({1.0: 0.5, 2.0: 0.0, 5.0: 0.0}, 1.0, 0.85)
    assert asked == [1]
    assert reached(solution, 0.0) >= 0.85
    steep = {1.0: 0.5, 4.0: 0.0, 5.0: 0.0}  # what is needed at the cost of the first makes the next impossible
    solution, taken, _ = settled(steep, 1.0, 0.85)
    assert taken != sorted(taken)
    assert reached(solution, float(np.interp(COSTS[solution.choice].mean(), list(steep), list(steep.values())))) >= 0.85
    with pytest.raises(ConflictingConstraints):
        settled({1.0: 0.5, 5.0: 0.3}, 1.0, 0.85)


@pytest.mark.slow
def test_what_is_taken_off_may_never_settle_and_ends_all_the_same() -> None:
    grows = iter(np.arange(0.0, 1.0, 0.01).tolist())
    floor = Constraint(("accuracy",), 0, 0.7 * N, is_upper=False)

    def off(cost: float) -> Floats:
        return np.full(2, next(grows))

    calls: list[Floats] = []

    def solve(counting: Floats) -> ConstrainedChoice:
        calls.append(counting)
        return assign_constrained(np.tile(-COSTS, (N, 1)), [floor], uses=[counting])

    floored = AccuracyFloors(VALUES, COSTS, np.zeros(N, dtype=np.int64), 1, off)
    solution = floored.solve([1.0], [floor], solve, lambda: assign_constrained(VALUES, []))
    assert len(calls) == MAX_ROUNDS
    assert reached(solution, 0.01 * (MAX_ROUNDS - 1)) >= 0.7 * (1 - 1e-6)


def test_each_group_has_taken_off_what_its_own_choices_need() -> None:
    groups = np.arange(N) % 2
    floored = AccuracyFloors(VALUES, COSTS, groups, 3, lambda cost: np.full(2, 0.01 * cost))
    off = floored.list_optimism([1.0, 5.0, 2.0])
    counting = floored.subtract_optimism(off)
    assert (VALUES - counting)[0] == pytest.approx([0.01, 0.01])
    assert (VALUES - counting)[1] == pytest.approx([0.05, 0.05])
    floors: Sequence[Constraint] = [Constraint(("a",), 0, 10.0, is_upper=False, group=0)]
    solution = floored.solve([1.0, 1.0, 1.0], floors, lambda counts: assign_constrained(counts, []), lambda: _never())
    assert solution.choice.sum() == N
    none = replace(floored, optimism=lambda cost: np.zeros(2))
    assert none.solve([0.0] * 3, [], lambda counts: assign_constrained(counts, []), lambda: _never()).choice.sum() == N


def _never() -> ConstrainedChoice:
    raise AssertionError("the most accurate assignment is not needed")
