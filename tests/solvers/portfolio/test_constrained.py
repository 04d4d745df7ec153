"""Assignments under several constraints, against brute force, HiGHS on the whole programme, and what has to be so."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solvers.portfolio.constrained import (
    ConflictingConstraints,
    ConstrainedChoice,
    Constraint,
    ConstraintConflict,
    assign_constrained,
)
from tests.oracles.constrained import Instance, best_by_force, best_by_highs, large, missed, small
from tests.support.cases import case_count, first_quick

INSTANCES, PARTS = 800, 8


def solved(instance: Instance, gap: float = 0.0) -> ConstrainedChoice:
    return assign_constrained(
        instance.worths, instance.constraints, uses=instance.uses, groups=instance.groups, gap=gap
    )


def value_of(instance: Instance, gap: float = 0.0) -> float:
    """Give the value; minus infinity if nothing keeps the constraints."""
    try:
        return solved(instance, gap).value
    except ConflictingConstraints:
        return -np.inf


@pytest.mark.parametrize("part", first_quick(range(PARTS)))
def test_small_instances_are_solved_as_by_force(part: int) -> None:
    """Of 800 with every combination of constraints, some two thirds can be satisfied."""
    possible = 0
    for seed in range(part, INSTANCES, PARTS):
        instance = small(seed)
        known = best_by_force(instance)
        try:
            solution = solved(instance)
        except ConflictingConstraints as error:
            assert known is None, seed
            is_a_smallest_conflict(instance, error.conflicts, seed)
            continue
        assert known is not None, seed
        assert solution.value == pytest.approx(known, abs=1e-9), seed
        assert solution.bound == pytest.approx(known, abs=1e-6), seed
        assert solution.bound >= known - 1e-9, seed
        assert np.all(missed(instance, solution.choice[None]) <= 1e-8), seed
        possible += 1
    assert 0.5 < possible / (INSTANCES / PARTS) < 0.95


def is_a_smallest_conflict(instance: Instance, conflicts: tuple[ConstraintConflict, ...], seed: int) -> None:
    """They cannot hold together, without any one of them they can, and each gives as much as it must."""
    every = [conflict.constraint for conflict in conflicts]
    assert best_by_force(instance.with_constraints(every)) is None, seed
    for conflict in conflicts:
        others = [each for each in every if each is not conflict.constraint]
        assert best_by_force(instance.with_constraints(others)) is not None, seed
        assert conflict.violation is not None
        for share, can in ((1.0 + 1e-6, True), (1.0 - 1e-6, False)):
            bound = conflict.constraint.bound + conflict.constraint.sign * share * conflict.violation
            moved = instance.with_constraints([*others, replace(conflict.constraint, bound=bound)])
            assert (best_by_force(moved, slack=1e-7 if can else 0.0) is not None) == can, seed


@pytest.mark.parametrize("seed", first_quick([1, 0, 2, 3]))
def test_a_thousand_queries_are_solved_as_by_highs_on_the_whole(seed: int) -> None:
    instance = large(seed, 1_000, samples=40 if seed % 2 else None)
    known = best_by_highs(instance, gap=1e-4)
    assert known is not None
    solution = solved(instance, gap=1e-4)
    assert solution.gap <= 1e-4
    assert known[0] <= solution.bound + 1e-9
    assert solution.value <= known[1] + 1e-9
    assert solution.value == pytest.approx(known[0], rel=2e-4)
    assert np.all(missed(instance, solution.choice[None]) <= 1e-6 * solution.value)


def test_where_all_queries_use_alike_small_instances_are_solved_as_by_force() -> None:
    """A search then counts how many have a choice; groups, floors and shares among the constraints."""
    possible = 0
    for seed in range(case_count(200, 60)):
        instance = small(seed)
        instance = replace(instance, uses=tuple(np.tile(use[:1], (len(use), 1)) for use in instance.uses))
        known = best_by_force(instance)
        assert (value_of(instance) == -np.inf) == (known is None), seed
        if known is not None:
            assert value_of(instance) == pytest.approx(known, abs=1e-9), seed
            possible += 1
    assert possible > case_count(50, 15)


@pytest.mark.parametrize("most", first_quick([300, 900]))
def test_the_optimum_of_queries_that_cost_alike_is_proved(most: int) -> None:
    """They can be exchanged at will: a search of which of them are moved does not come to an end."""
    rng = np.random.default_rng(0)
    worths = np.column_stack((1 / (1 + np.exp(-2 * rng.normal(size=900))), np.full((900, 2), (0.95, 0.6))))
    costs = np.array([2.5439, 20.4398, 2.0])
    limits = [Constraint(("budget",), 0, 5400.0), Constraint(("flat",), None, float(most), classifier=2)]
    solution = assign_constrained(worths, limits, uses=[costs], gap=1e-9)
    assert solution.gap <= 1e-9
    assert np.all(solution.used <= [5400.0 + 1e-6, most])


@pytest.mark.parametrize(("place", "share"), first_quick([(0, 0.1), (-1, 1.2), (6, 20.5)]))
def test_what_highs_finds_infeasible_is_told_with_a_smallest_conflict(place: int, share: float) -> None:
    instance = large(0, 1_000)
    constraints = list(instance.constraints)
    constraints[place] = replace(constraints[place], bound=share * constraints[place].bound)
    impossible = instance.with_constraints(constraints)
    assert best_by_highs(impossible) is None
    with pytest.raises(ConflictingConstraints) as caught:
        solved(impossible, gap=1e-4)
    conflicts = caught.value.conflicts
    assert constraints[place] in [conflict.constraint for conflict in conflicts]
    assert best_by_highs(instance.with_constraints([conflict.constraint for conflict in conflicts])) is None
    for conflict in conflicts:
        assert conflict.violation is not None
        bound = conflict.constraint.bound + conflict.constraint.sign * conflict.violation * (1 + 1e-6)
        others = [each.constraint for each in conflicts if each is not conflict]
        assert best_by_highs(instance.with_constraints([*others, replace(conflict.constraint, bound=bound)]), 1.0)


def test_twenty_thousand_queries_are_assigned_to_a_proved_gap() -> None:
    instance = large(5, 20_000)
    solution = solved(instance, gap=1e-5)
    assert solution.gap <= 1e-5
    assert np.all(missed(instance, solution.choice[None]) <= 1e-9 * 20_000 * 500)
    assert solution.bound == pytest.approx(solution.value, rel=1e-5)


def test_prices_say_what_one_more_unit_brings() -> None:
    """In the relaxation, which with 5,000 queries is near: the slope between a little less and a little more."""
    instance = large(3, 5_000)
    solution = solved(instance, gap=1e-5)
    place = int(np.argmax(solution.prices * [abs(each.bound) for each in instance.constraints]))
    one = instance.constraints[place]
    step = 0.01 * one.bound
    values = []
    for bound in (one.bound - step, one.bound + step):
        constraints = [replace(each, bound=bound) if each is one else each for each in instance.constraints]
        values.append(solved(instance.with_constraints(constraints), gap=1e-5).value)
    assert (values[1] - values[0]) / (2 * step) == pytest.approx(solution.prices[place], rel=0.05)


@pytest.mark.parametrize("spread", [1e3, 1e9, 1e27, 1e60])
@pytest.mark.parametrize("goal", ["cost", "accuracy"])
def test_costs_that_are_far_apart_are_solved(spread: float, goal: str) -> None:
    """HiGHS takes 1e20 for infinite; what is too much to give is told in the same unit."""
    rng, n = np.random.default_rng(0), 60
    values = np.clip(np.array([0.6, 0.8, 0.9]) + rng.normal(0, 0.1, (n, 3)), 0, 1)
    costs = np.array([1.0, spread**0.5, spread])
    floor, most = Constraint(("accuracy",), 1, 0.82 * n, is_upper=False), Constraint(("budget",), 0, 5.5 * spread)
    worths, kept = (np.tile(-costs, (n, 1)), floor) if goal == "cost" else (values, most)
    solution = assign_constrained(worths, [kept], uses=[costs, values], gap=1e-2, time_limit_s=2.0)
    spent = float(costs[solution.choice].sum())
    assert (spent <= most.bound * (1 + 1e-9)) if goal == "accuracy" else (np.count_nonzero(solution.choice == 2) < 12)
    assert solution.gap < 0.3
    with pytest.raises(ConflictingConstraints) as caught:
        assign_constrained(
            values, [Constraint(("commitment",), None, n, is_upper=False, classifier=2), most], uses=[costs]
        )
    assert {conflict.constraint.name: conflict.violation for conflict in caught.value.conflicts} == {
        ("commitment",): pytest.approx(n - 5),
        ("budget",): pytest.approx((n - 5.5) * spread, rel=1e-6),
    }


def test_without_constraints_each_query_gets_its_best() -> None:
    worths = np.random.default_rng(0).random((50, 3))
    solution = assign_constrained(worths, ())
    assert solution.choice.tolist() == worths.argmax(axis=1).tolist()
    assert solution.gap < 1e-12
    assert not solution.choice.flags.writeable


def test_the_best_when_time_is_up_has_a_gap_that_is_proved() -> None:
    instance = large(1, 1_000)
    ticks = iter(np.arange(0, 1_000, 0.4).tolist())
    solution = assign_constrained(
        instance.worths,
        instance.constraints,
        uses=instance.uses,
        groups=instance.groups,
        gap=0.0,
        time_limit_s=3.0,
        clock=lambda: next(ticks),
    )
    assert np.all(missed(instance, solution.choice[None]) <= 1e-3)
    assert solution.bound >= solution.value


@settings(max_examples=case_count(40, 25), deadline=None)
@given(seed=st.integers(2_000, 10_000), place=st.integers(0, 5), share=st.floats(0.0, 2.0))
def test_a_looser_constraint_is_never_worse(seed: int, place: int, share: float) -> None:
    instance = small(seed)
    if not instance.constraints:
        return
    one = instance.constraints[place % len(instance.constraints)]
    looser = replace(one, bound=one.bound + one.sign * share * max(abs(one.bound), 1.0))
    loosened = instance.with_constraints([looser if each is one else each for each in instance.constraints])
    assert value_of(loosened) >= value_of(instance) - 1e-9


@settings(max_examples=case_count(40, 25), deadline=None)
@given(seed=st.integers(2_000, 10_000), data=st.data())
def test_the_order_of_queries_and_classifiers_makes_no_difference(seed: int, data: st.DataObject) -> None:
    instance = small(seed)
    n, m = instance.worths.shape
    rows, columns = data.draw(st.permutations(range(n))), data.draw(st.permutations(range(m)))
    renamed = [
        each if each.classifier is None else replace(each, classifier=columns.index(each.classifier))
        for each in instance.constraints
    ]
    moved = Instance(
        instance.worths[rows][:, columns],
        tuple(use[rows][:, columns] for use in instance.uses),
        instance.groups[rows],
        tuple(renamed),
    )
    assert value_of(moved) == pytest.approx(value_of(instance), abs=1e-9)


def test_the_order_of_many_queries_makes_no_difference_within_the_gap() -> None:
    instance = large(2, 3_000)
    rows = np.random.default_rng(0).permutation(3_000)
    moved = replace(
        instance,
        worths=instance.worths[rows],
        uses=tuple(use[rows] for use in instance.uses),
        groups=instance.groups[rows],
    )
    known, again = solved(instance, gap=1e-4), solved(moved, gap=1e-4)
    assert again.choice.tolist() == known.choice[rows].tolist()
    assert again.value == pytest.approx(known.value, abs=1e-9)


@settings(max_examples=case_count(40, 25), deadline=None)
@given(seed=st.integers(2_000, 10_000), use=st.integers(0, 2))
def test_a_constraint_that_does_not_bind_changes_nothing(seed: int, use: int) -> None:
    instance = small(seed)
    loose = Constraint(("loose",), use, float(instance.uses[use].max(axis=1).sum()) + 1.0)
    added = instance.with_constraints([*instance.constraints, loose])
    assert value_of(added) == pytest.approx(value_of(instance), abs=1e-9)
