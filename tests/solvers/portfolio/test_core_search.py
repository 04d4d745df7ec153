"""The parts of the search that common programmes seldom need: running out of room, and sums that must not round."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.portfolio.knapsack import KnapsackAssignment, assign, core_search
from solvers.portfolio.knapsack.core import KnapsackCore, MoveGroup, ReducedLosses
from solvers.portfolio.knapsack.exact_sums import (
    choose_unit,
    compute_residue,
    compute_room,
    compute_shortfall,
    split_amounts,
)
from solvers.portfolio.knapsack.problem import KnapsackProblem
from solvers.portfolio.knapsack.relaxation import compute_steps, round_relaxation
from solvers.portfolio.knapsack.solve import choose_affordable
from tests.oracles.portfolio import estimates

_COSTS = st.one_of(st.integers(0, 9).map(float), st.sampled_from([0.1, 0.2, 0.7, 1 / 3]), st.floats(1e-3, 1e3))


def subset_sum(budget: float) -> KnapsackAssignment:
    """Fill a budget with real numbers, each worth what it costs: every state may lead to something better."""
    costs = np.random.default_rng(0).random((60, 5))
    return assign(costs, costs, budget, gap=0)


@pytest.mark.parametrize("limit", ["MAX_CANDIDATES", "MAX_STATES"])
def test_if_room_is_out_the_best_found_is_returned_with_what_is_proved(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """The budget itself bounds the value of a subset sum, and can be met almost."""
    monkeypatch.setattr(core_search, "MAX_STATES", 2_000_000)
    monkeypatch.setattr(core_search, limit, 20_000)
    assignment = subset_sum(30.0)
    assert assignment.cost <= 30.0 <= assignment.bound <= 30.0 + 1e-9
    assert 30.0 - 0.05 < assignment.value <= 30.0
    assert assignment.gap > 1e-13


def test_with_states_thinned_out_bounds_still_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proofs need room; what is said without it is true all the same."""
    for seed in range(20):
        values, costs = estimates(seed, 200, samples=3, weight=1.0)
        budget = 0.4 * 200 * costs.max()
        monkeypatch.setattr(core_search, "MAX_CANDIDATES", 1_000_000)
        exact = assign(values, costs, budget, gap=0)
        monkeypatch.setattr(core_search, "MAX_CANDIDATES", 100)
        rough = assign(values, costs, budget, gap=0)
        assert exact.gap < 1e-12
        assert rough.value <= exact.bound
        assert exact.value <= rough.bound


def test_the_relaxed_solution_is_within_the_budget_though_running_sums_round() -> None:
    """0.1 added up ten times is less than the 1.0 it costs."""
    budget = math.nextafter(1.0, 0)
    programme = KnapsackProblem.from_input([[0.0, 1.0]] * 10, [0.0, 0.1], budget)
    steps = compute_steps(programme)
    assert steps.spent[-1] <= budget
    choice, price = round_relaxation(programme, steps)
    assert choice.sum() == 9
    assert price == 10


def test_steps_of_a_row_stay_in_order_though_slopes_round() -> None:
    """Points on one line: the row goes to the last, at once or step by step, never back."""
    rng = np.random.default_rng(0)
    costs = np.cumsum(rng.random((500, 12)), axis=1)
    steps = compute_steps(KnapsackProblem.from_input(costs * rng.random((500, 1)), costs, 1e5))
    assert len(steps.rows) > 600
    for row in range(500):
        choices = steps.choices[steps.rows == row]
        assert (np.diff(choices) > 0).all()
        assert choices[-1] == 11
    assert (steps.take_steps(len(steps.rows)) == 11).all()


def test_an_assignment_over_the_budget_is_not_taken() -> None:
    """The first that is within it is."""
    programme = KnapsackProblem.from_input([[0.0, 1.0, 2.0]], [0.0, 1.0, 2.0], 1.5)
    candidates = [np.array([2]), np.array([1]), np.array([0])]
    assert choose_affordable(programme, candidates).tolist() == [1]


@given(st.lists(_COSTS, min_size=1, max_size=12), st.integers(-2, 2))
def test_room_tells_what_is_within_the_budget_to_the_last_bit(costs: list[float], off: int) -> None:
    """Budgets at and next to what the costs sum up to."""
    budget = math.fsum(costs)
    for _ in range(abs(off)):
        budget = math.nextafter(budget, math.copysign(math.inf, off))
    first, more = compute_room(budget, costs)
    assert (first + (more - compute_shortfall(budget)) >= 0) == (math.fsum(costs) <= budget)


@given(st.lists(_COSTS, min_size=2, max_size=12))
def test_sums_of_split_costs_are_exact_in_any_order(costs: list[float]) -> None:
    """What the float sum loses, the residue keeps."""
    high, low = split_amounts(np.array(costs), choose_unit(sum(costs)))
    total = Fraction(sum(high.tolist())) + Fraction(sum(low.tolist()))
    assert total == sum(map(Fraction, costs))
    sums = np.array([sum(high.tolist())]), np.array([sum(low.tolist())])
    both = sums[0] + sums[1]
    assert Fraction(both[0]) + Fraction(compute_residue(*sums, both)[0]) == total


def test_a_move_left_out_for_the_gap_is_still_allowed_for() -> None:
    """One row fills 0.45 of a budget of 1 for nothing. Another would fill it at a loss of 0.5, which is better, but not
    by the 0.1 allowed; or overfill it by far, which bounds cannot tell from a good move."""
    numbers = [np.array([0.45]), np.array([1.0, 10.0])]
    losses = [np.array([0.0]), np.array([0.5, 0.0])]
    kinds = [
        MoveGroup(np.array([row]), np.arange(1, len(more) + 1), more, np.zeros(len(more)), lost)
        for row, (more, lost) in enumerate(zip(numbers, losses, strict=True))
    ]
    core = KnapsackCore(kinds, np.array([0.0, 0.0, np.inf]), np.full(3, np.inf), 2.0**-50)
    reduced = ReducedLosses(np.zeros(2, dtype=np.int64), 1.0, (1.0, 0.0), 0.0, np.zeros((2, 3)), 1.0, 0.0)
    search = core_search.search_core(core, reduced, 1.0, lambda best: 0.1, lambda: True)
    assert search.best == pytest.approx(0.55)
    assert search.proved <= 0.5


def test_of_states_that_leave_the_same_float_the_one_that_leaves_more_is_kept() -> None:
    """What they leave is the same float; the difference decides whether the next move fits."""
    bit = 2.0**-44
    high, low, lost = np.array([1024.0, 1024.0]), np.array([0.0, bit]), np.zeros(2)
    search = core_search.CoreSearch(1.0, 0.0, 1.0, lambda best: 0.0, high, low, lost, 2000.0, np.inf)
    assert len(set((high + low).tolist())) == 1
    nothing = MoveGroup(np.array([0]), np.array([1]), np.array([4096.0]), np.zeros(1), np.zeros(1))
    search.extend_states(nothing, nothing.rows, 0.0, np.inf)
    assert search.low.tolist() == [bit]
    fitting = MoveGroup(np.array([1]), np.array([1]), np.array([1024.0]), np.array([bit]), np.zeros(1))
    search.extend_states(fitting, fitting.rows, np.inf, np.inf)
    assert search.best == 0
    assert [(rows.tolist(), choice) for rows, choice in search.list_moves()] == [([1], 1)]
