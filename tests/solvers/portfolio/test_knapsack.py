"""Assignments within a budget against brute force and HiGHS, and what they promise."""

import math
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import InvalidRequest
from models.arrays import Floats
from models.errors import Infeasible
from solvers.portfolio.knapsack import (
    KnapsackAssignment,
    assign,
    assign_max_min,
    compute_shadow_price,
    compute_shadow_prices,
)
from tests.oracles.portfolio import brute_force, brute_force_min, estimates, highs, price, savings
from tests.support.cases import case_count

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
ROUNDING = 2e-12
"""What small sums of values up to about 4 may be off by."""


def random_programme(rng: np.random.Generator, most_rows: int = 6) -> tuple[Floats, Floats, float]:
    """Draw a small programme: whole, decimal and real numbers, few different ones, zeros; shared and general costs; the
    budget often exactly what some assignment costs, or next to it."""
    n, m = int(rng.integers(1, most_rows + 1)), int(rng.integers(1, 5))
    kinds = [
        rng.integers(-3, 4, (n, m)) / 1.0,
        rng.integers(0, 11, (n, m)) / 10,
        rng.integers(0, 4, (n, m)) / 3,
        np.full((n, m), 0.5),
        rng.normal(0, 1, (n, m)),
    ]
    values = np.asarray(kinds[rng.integers(5)], dtype=np.float64)
    shape = (m,) if rng.random() < 0.5 else (n, m)
    kinds = [
        rng.integers(0, 5, shape) / 1.0,
        rng.integers(0, 11, shape) / 10,
        rng.integers(0, 4, shape) * 0.7,
        rng.integers(0, 4, shape) / 3,
        rng.random(shape),
    ]
    costs = np.asarray(kinds[rng.integers(5)], dtype=np.float64)
    table = np.broadcast_to(costs, (n, m))
    budget = float(rng.random() * table.max(axis=1).sum() * 1.1)
    if rng.random() < 0.6:
        budget = math.fsum(table[np.arange(n), rng.integers(m, size=n)].tolist())
        budget = [budget, budget, math.nextafter(budget, 0), math.nextafter(budget, 9)][rng.integers(4)]
    return values, costs, budget


def check(assignment: KnapsackAssignment, values: Floats, costs: Floats, budget: float) -> None:
    """Check that an answer says the truth about itself."""
    assert assignment.choice.shape == values.shape[:1]
    assert assignment.choice.dtype == np.int64
    assert not assignment.choice.flags.writeable
    assert assignment.value == savings(values, assignment.choice)
    assert assignment.cost == price(costs, assignment.choice) <= budget
    assert assignment.bound >= assignment.value
    assert assignment.gap == (assignment.bound - assignment.value) / max(abs(assignment.value), 1e-9)


def same(one: KnapsackAssignment, two: KnapsackAssignment) -> bool:
    """Tell whether two answers are equal to the last bit."""
    fields = [(a.choice.tolist(), a.value, a.cost, a.bound, a.gap) for a in (one, two)]
    return fields[0] == fields[1]


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_what_brute_force_finds(seed: int) -> None:
    """8 times 250 instances; with gap 0 the best value, with another one at most that far from it."""
    rng = np.random.default_rng(seed)
    infeasible = 0
    for _ in range(250):
        values, costs, budget = random_programme(rng)
        best = brute_force(values, costs, budget)
        if best is None:
            infeasible += 1
            with pytest.raises(Infeasible):
                assign(values, costs, budget)
            continue
        exact, rough = assign(values, costs, budget, gap=0), assign(values, costs, budget, gap=0.2)
        for assignment in (exact, rough):
            check(assignment, values, costs, budget)
            assert assignment.value <= best <= assignment.bound
        assert exact.value >= best - ROUNDING
        assert exact.bound <= best + ROUNDING
        assert rough.bound - rough.value <= 0.2 * max(abs(rough.value), 1e-9) + ROUNDING
    assert infeasible < 120


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_alike_are_as_good_as_others(seed: int) -> None:
    """4 times 100 instances of up to 9 rows of 1 to 3 kinds; sums of costs that differ by the last bit."""
    rng = np.random.default_rng([seed, 2])
    for _ in range(100):
        m = int(rng.integers(2, 4))
        kinds, n = int(rng.integers(1, 4)), int(rng.integers(5, 14 - 2 * m + 1))
        drawn = rng.integers(kinds, size=n)
        step = rng.choice([0.1, 1 / 3, 0.7, 1.0])
        values = (rng.integers(0, 12, (kinds, m)) / rng.choice([1, 7, 10]))[drawn]
        costs = (rng.integers(0, 25, (kinds, m)) * step)[drawn]
        budget = price(costs, rng.integers(m, size=n))
        best = brute_force(values, costs, budget)
        assignment = assign(values, costs, budget, gap=0)
        check(assignment, values, costs, budget)
        assert best is not None
        assert best - 10 * ROUNDING <= assignment.value <= best <= assignment.bound <= best + 10 * ROUNDING


def test_bounds_hold_whatever_gap_was_asked_for() -> None:
    """300 instances of 30 queries: what is not searched because it is within the gap is allowed for."""
    rng = np.random.default_rng(0)
    wider = 0
    for seed in range(case_count(300, 100)):
        values, costs = estimates(seed, 30, samples=None, weight=1.0)
        budget = float(rng.uniform(0.3, 0.8)) * 30 * costs.max()
        exact = assign(values, costs, budget, gap=0)
        for gap in (1e-4, 1e-3, 1e-2):
            assignment = assign(values, costs, budget, gap=gap)
            assert assignment.gap <= gap
            assert assignment.bound >= exact.value
            wider += assignment.value < exact.value - ROUNDING
    assert wider > case_count(20, 6)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_value_and_then_the_sum_are_what_brute_force_finds(seed: int) -> None:
    """4 times 150 instances."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(150):
        values, costs, budget = random_programme(rng, most_rows=5)
        best = brute_force_min(values, costs, budget)
        if best is None:
            with pytest.raises(Infeasible):
                assign_max_min(values, costs, budget)
            continue
        assignment = assign_max_min(values, costs, budget, gap=0)
        check(assignment, values, costs, budget)
        assert values[np.arange(len(values)), assignment.choice].min() == best[0]
        assert best[1] - ROUNDING <= assignment.value <= best[1] <= assignment.bound <= best[1] + ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_with_gap_0_it_agrees_with_highs(seed: int) -> None:
    """5 times 12 instances of 150 queries: means of few and of many answers, real values, general costs. HiGHS has 3
    seconds each, which it seldom needs; what it proves by then must agree."""
    rng = np.random.default_rng(seed)
    for i in range(12):
        samples = (3, 10, 40, None)[i % 4]
        values, costs = estimates(20 * seed + i, 150, samples=samples, weight=(0.0, 1.0, 5.0)[i % 3])
        if i % 5 == 0:
            costs = costs * rng.uniform(0.5, 1.5, values.shape)
        dearest = float(np.broadcast_to(costs, values.shape).max(axis=1).sum())
        budget = dearest * float(rng.uniform(0.25, 0.95))
        assignment, known = assign(values, costs, budget, gap=0), highs(values, costs, budget, time_limit_s=3)
        check(assignment, values, costs, budget)
        assert price(costs, known.choice) <= budget * (1 + 1e-9)
        assert known.value - 1e-7 <= assignment.value <= known.bound + 1e-7
        assert assignment.gap < 1e-12


def test_the_four_proved_optima_of_an_occam_instance_are_found() -> None:
    """1,000 queries, 7 classifiers, 40-sample means less 5 deviations."""
    path = SHARED / "occam_ilp_1000.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in shared/data beside the repository")
    with np.load(path) as data:
        values, costs, budgets = data["score"], data["cost_row"], data["budgets_minus_base"].tolist()
    optima = (-798.5981895495, -743.6935936938, -646.8006505041, -602.3207892428)
    for budget, optimum in zip(budgets, optima, strict=True):
        assignment = assign(values, costs, budget, gap=0)
        assert assignment.value == pytest.approx(optimum, abs=1e-9)
        assert assignment.gap < 1e-12
        assert assignment.cost <= budget


@pytest.mark.parametrize(
    ("samples", "weight", "share"),
    [(40, 0.0, 0.3), (40, 0.0, 0.5), (40, 5.0, 0.5), (40, 5.0, 0.9), (1, 1.0, 0.5), (3, 1.0, 0.3), (None, 5.0, 0.8)],
)
def test_many_queries_with_many_ties_are_solved_to_the_gap(samples: int | None, weight: float, share: float) -> None:
    """10,000 queries; with gap 0 the value is within the proof of the other, and nothing is left to prove."""
    values, costs = estimates(3, 10_000, samples=samples, weight=weight)
    budget = share * 10_000 * costs.max()
    assignment, exact = assign(values, costs, budget), assign(values, costs, budget, gap=0)
    for each in (assignment, exact):
        check(each, values, costs, budget)
    assert assignment.gap <= 1e-6
    assert exact.gap < 1e-12
    assert assignment.value <= exact.bound
    assert exact.value <= assignment.bound


def test_many_classifiers_are_no_trouble() -> None:
    """1,000 queries, 101 classifiers."""
    for samples in (40, None):
        values, costs = estimates(1, 1_000, samples=samples, weight=1.0, m=101)
        assignment = assign(values, costs, 0.4 * 1_000 * costs.max(), gap=0)
        check(assignment, values, costs, 0.4 * 1_000 * costs.max())
        assert assignment.gap < 1e-12


def test_more_budget_is_never_worth_less() -> None:
    """Exact values along 60 budgets, and bounds too, rise."""
    values, costs = estimates(2, 120, weight=1.0)
    budgets = np.linspace(120 * costs.min(), 120 * costs.max(), 60).tolist()
    assignments = [assign(values, costs, budget, gap=0) for budget in budgets]
    assert all(b.value >= a.value - ROUNDING for a, b in pairwise(assignments))
    assert assignments[0].value < assignments[30].value
    assert assignments[-1].choice.tolist() == values.argmax(axis=1).tolist()


def test_the_order_of_queries_does_not_matter_to_the_value_nor_that_of_classifiers() -> None:
    """Shuffled both ways, with general costs."""
    rng = np.random.default_rng(0)
    values, _ = estimates(4, 300, weight=0.0)
    costs = rng.integers(0, 30, values.shape) / 10
    best = assign(values, costs, 330.3, gap=0).value
    for _ in range(5):
        rows, columns = rng.permutation(300), rng.permutation(7)
        shuffled = assign(values[rows][:, columns], costs[rows][:, columns], 330.3, gap=0)
        assert shuffled.value == pytest.approx(best, abs=ROUNDING)


def test_the_same_input_has_the_same_answer() -> None:
    """To the last bit, and arrays that were given are not changed."""
    values, costs = estimates(5, 500)
    before = values.copy(), costs.copy()
    assert same(assign(values, costs, 130_000.0), assign(values, costs, 130_000.0))
    assert (values == before[0]).all()
    assert (costs == before[1]).all()


def test_of_equal_choices_the_cheapest_and_then_the_first_is_taken() -> None:
    """With budget to spare."""
    assert assign([[1.0, 1.0, 1.0]], [3.0, 2.0, 2.0], 9.0).choice.tolist() == [1]
    assert assign([[0.0, 1.0, 1.0]], [0.0, 2.0, 2.0], 9.0).choice.tolist() == [1]
    assert assign(np.zeros((3, 2)), [1.0, 1.0], 9.0).choice.tolist() == [0, 0, 0]


def test_a_budget_that_is_met_exactly_is_met() -> None:
    """Ten times 0.1 is 1.0 when rounded once; three times 0.1 is more than 0.3, and so are 0.1 and 0.2 together."""
    values = [[0.0, 1.0]] * 10
    assert assign(values, [0.0, 0.1], 1.0, gap=0).choice.sum() == 10
    assert assign(values, [0.0, 0.1], math.nextafter(1.0, 0), gap=0).choice.sum() == 9
    assert assign(values[:3], [0.0, 0.1], 0.3, gap=0).choice.sum() == 2
    assert assign(values[:2], [[0.0, 0.1], [0.0, 0.2]], 0.3, gap=0).value == 1
    assert assign(values[:2], [[0.0, 0.15], [0.0, 0.15]], 0.3, gap=0).value == 2


def test_costs_half_way_between_two_floats_are_rounded_as_sums_are() -> None:
    """1 + 2^-53 rounds down to 1, which is even; the next half, above an odd last digit, rounds up and is too much."""
    step = 2.0**-52
    for budget, fits in ((1.0, True), (1.0 + step, False)):
        assignment = assign([[0.0, 1.0], [0.0, 1.0]], [[0.0, budget], [0.0, step / 2]], budget, gap=0)
        assert assignment.value == (2 if fits else 1)
        assert assignment.bound == pytest.approx(assignment.value)


def test_one_classifier_free_classifiers_and_one_query_are_programmes_too() -> None:
    """Nothing to choose, or nothing to pay."""
    assert assign([[2.0], [-1.0]], [3.0], 6.0).value == 1
    assert assign([[1.0, 5.0, 3.0]], [0.0, 0.0, 0.0], 0.0).choice.tolist() == [1]
    assert assign([[1.0, 2.0, 4.0]], [1.0, 2.0, 4.0], 3.9).choice.tolist() == [1]
    assert assign([[0.0, 0.0]], [0.0, 1.0], 0.0).gap == 0


def test_tiny_and_huge_numbers_do_not_overflow() -> None:
    """The least positive values, and both ends of what costs may be."""
    assert assign([[1e-300, 1e75], [0.0, 5e-324]], [1e-75, 1e75], 1e75, gap=0).choice.tolist() == [1, 0]
    assert assign([[0.0, 5e-324], [0.0, 2e-310]], [0.0, 1.0], 1.0, gap=0).bound == pytest.approx(0, abs=1e-300)
    assert assign([[0.0, 5e-324]], [0.0, 1e75], 1e75, gap=0).bound > 0
    assert assign([[0.0, 1.0], [0.0, 1.0]], [[0.0, 1e75], [0.0, 1e-75]], 1e74).choice.tolist() == [0, 1]


def test_if_time_is_out_the_best_found_is_returned_with_what_is_proved() -> None:
    """A clock that ticks at every look: the first look starts, so many more until the limit."""
    values, costs = estimates(3, 10_000, samples=3, weight=1.0)
    budget = 0.3 * 10_000 * costs.max()
    best = assign(values, costs, budget, gap=0)
    gaps = []
    for ticks in (1, 4, 16):
        assignment = assign(values, costs, budget, gap=0, time_limit_s=ticks, clock=ticking())
        check(assignment, values, costs, budget)
        assert assignment.value <= best.value + ROUNDING
        assert assignment.bound >= best.value
        gaps.append(assignment.gap)
    assert gaps[0] >= gaps[1] - ROUNDING >= gaps[2] - 2 * ROUNDING
    assert gaps[0] > 1e-9
    assert assign(values, costs, budget, gap=0, time_limit_s=math.inf, clock=ticking()).value == best.value


def ticking() -> Callable[[], float]:
    """Make a clock that is a second later each time."""
    seconds = count()
    return lambda: float(next(seconds))


def test_without_a_time_limit_the_clock_is_not_read() -> None:
    """Solvers are pure functions unless asked to stop."""

    def broken() -> float:
        raise AssertionError("the clock was read")

    assert assign([[0.0, 1.0]], [0.0, 1.0], 1.0, clock=broken).value == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0], 1.0), r"values: must have shape .* got \(2,\)"),
        ((np.zeros((0, 3)), [1.0] * 3, 1.0), r"values: .* got \(0, 3\)"),
        (([[1.0, math.nan]], [1.0, 2.0], 1.0), r"values.0.1: must be finite .* got nan"),
        (([[1.0, 1e76], [1e80, 0.0]], [1.0, 2.0], 1.0), r"values.0.1: must be .* got 1e\+76 \(and 1 more\)"),
        (([["a", "b"]], [1.0, 2.0], 1.0), r"values: must be an array of numbers"),
        (([[1.0, 2.0]], [1.0, 2.0, 3.0], 1.0), r"costs: must have shape \(2,\) or \(1, 2\), got \(3,\)"),
        (([[1.0, 2.0]], [1.0, -2.0], 1.0), r"costs.1: must be 0 or from .* got -2.0"),
        (([[1.0, 2.0]], [[1.0, math.inf]], 1.0), r"costs.0.1: must be 0 or from .* got inf"),
        (([[1.0, 2.0]], [1.0, 2.0], math.inf), r"budget: must be a finite number, got inf"),
        (([[1.0, 2.0]], [1.0, 2.0], "9"), r"budget: must be a finite number, got '9'"),
    ],
)
def test_bad_input_is_refused_with_its_place_and_numbers(arguments: tuple[Any, Any, Any], message: str) -> None:
    """By all functions that take it."""
    for solve in (assign, assign_max_min):
        with pytest.raises(InvalidRequest, match=message):
            solve(*arguments)


@pytest.mark.parametrize(("name", "value"), [("gap", -1.0), ("gap", math.nan), ("time_limit_s", -0.5), ("gap", "0")])
def test_bad_limits_are_refused(name: str, value: Any) -> None:
    """With their names."""
    with pytest.raises(InvalidRequest, match=f"{name}: must be a number of at least 0, got "):
        assign([[1.0]], [1.0], 1.0, **{name: value})


def test_a_budget_below_the_cheapest_assignment_is_infeasible() -> None:
    """The cost of the cheapest is told."""
    with pytest.raises(Infeasible, match=r"at least 2.5, .* got 2.25"):
        assign([[1.0, 2.0], [0.0, 0.0]], [[1.0, 3.0], [4.0, 1.5]], 2.25)


def test_the_shadow_price_is_what_more_budget_is_worth() -> None:
    """It never rises with the budget, supports the optimum, and is 0 where the budget is no limit."""
    values, costs = estimates(6, 400, weight=1.0)
    budgets = np.linspace(400 * costs.min(), 400 * costs.max(), 40)
    prices = compute_shadow_prices(values, costs, budgets)
    assert prices.shape == (40,)
    assert (prices >= 0).all()
    assert (np.diff(prices) <= 0).all()
    assert prices[0] > 0
    assert prices[-1] == 0
    for budget, slope in zip(budgets.tolist(), prices.tolist(), strict=True):
        assert compute_shadow_price(values, costs, budget) == slope
        dual = math.fsum((values - slope * costs).max(axis=1).tolist()) + slope * budget
        best = assign(values, costs, budget)
        assert best.value <= dual * (1 + 1e-12)
        step = np.ptp(values, axis=1).max()
        assert dual <= best.value + step


def test_at_the_shadow_price_queries_on_their_own_spend_about_the_budget() -> None:
    """All but one query are as ``assign`` would have them, as long as nothing ties."""
    values, costs = estimates(7, 500, samples=None, weight=1.0)
    budget = 0.5 * 500 * costs.max()
    alone = (values - compute_shadow_price(values, costs, budget) * costs).argmax(axis=1)
    assert abs(price(costs, alone) - budget) <= costs.max() - costs.min()
    assert (alone != assign(values, costs, budget, gap=0).choice).mean() < 0.1


@pytest.mark.parametrize(
    ("budgets", "message"),
    [
        ([[1.0]], r"budgets: .* \(1, 1\)"),
        ([], r"\(0,\)"),
        ([1.0, math.inf], r"budgets.1: .* got inf"),
    ],
)
def test_bad_budgets_are_refused(budgets: Any, message: str) -> None:
    """A grid is a list of numbers; the least must be feasible."""
    with pytest.raises(InvalidRequest, match=message):
        compute_shadow_prices([[1.0, 2.0]], [1.0, 2.0], budgets)
    with pytest.raises(Infeasible, match=r"at least 1.0, .* got 0.5"):
        compute_shadow_prices([[1.0, 2.0]], [1.0, 2.0], [2.0, 0.5])


_NUMBERS = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e3, 1e3), st.sampled_from([0.1, 0.2, 0.3, 1 / 3]))
_COSTS = st.one_of(
    st.integers(0, 5).map(float),
    st.floats(1e-6, 1e6),
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7]),
)


@st.composite
def programmes(draw: st.DrawFn) -> tuple[Floats, Floats, float]:
    """Draw a feasible programme of up to 5 queries and 4 classifiers."""
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    values = np.array(draw(st.lists(_NUMBERS, min_size=n * m, max_size=n * m))).reshape(n, m)
    size, shape = draw(st.sampled_from([(m, (m,)), (n * m, (n, m))]))
    costs = np.array(draw(st.lists(_COSTS, min_size=size, max_size=size))).reshape(shape)
    some = np.array(draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)))
    return values, costs, price(costs, some) + draw(st.sampled_from([0.0, 0.0, 0.5]))


@settings(max_examples=case_count(400, 150))
@given(programmes(), st.sampled_from([0.0, 1e-6, 0.1]))
def test_answers_are_within_budget_and_gap_and_bounds_hold(programme: tuple[Floats, Floats, float], gap: float) -> None:
    """Whatever the numbers are: never over budget, the bound at least the optimum, the gap as asked."""
    values, costs, budget = programme
    assignment, best = assign(values, costs, budget, gap=gap), brute_force(values, costs, budget)
    check(assignment, values, costs, budget)
    assert best is not None
    assert assignment.value <= best <= assignment.bound
    scale = float(np.abs(values).max()) + 1
    assert assignment.bound - assignment.value <= gap * abs(assignment.value) + 1e-9 * scale
