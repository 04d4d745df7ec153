"""Assignments of large batches: within the budget, with a proved gap, and as good as the exact programme's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import Infeasible
from solvers.portfolio import large_batch
from solvers.portfolio.knapsack import assign
from solvers.portfolio.large_batch import LargeBatch, assign_large


def draw(rows: int, classifiers: int, seed: int, *, per_query: bool) -> LargeBatch:
    rng = np.random.default_rng(seed)
    values = (rng.integers(0, 20, (rows, classifiers)) / 20).astype(np.float32)  # with ties
    costs = rng.integers(1, 9, (rows if per_query else 1, classifiers)).astype(np.float64)
    return LargeBatch(values, costs, rng.integers(-2, 3, classifiers) / 20)


@given(
    rows=st.integers(1, 40), classifiers=st.integers(1, 5), seed=st.integers(0, 10**6), per_query=st.booleans(),
    share=st.floats(0, 1.2),
)  # fmt: skip
def test_an_assignment_keeps_the_budget_and_its_gap_holds(
    rows: int, classifiers: int, seed: int, per_query: bool, share: float
) -> None:
    batch = draw(rows, classifiers, seed, per_query=per_query)
    values, costs = batch.estimates + batch.added, np.broadcast_to(batch.costs, batch.estimates.shape)
    least, most = costs.min(axis=1).sum(), costs.max(axis=1).sum()
    budget = least + share * (most - least)
    solution = assign_large(batch, budget)
    chosen = np.arange(rows), solution.choice
    assert solution.cost == pytest.approx(costs[chosen].sum())
    assert solution.cost <= budget
    assert solution.value == pytest.approx(values[chosen].sum(), abs=1e-9)
    exact = assign(values, costs.copy(), budget, gap=0.0).choice
    optimum = values[np.arange(rows), exact].sum()
    assert solution.value <= optimum + 1e-9
    assert (
        optimum - solution.value
        <= solution.gap * max(abs(optimum), abs(solution.value) / max(1 - solution.gap, 1e-9)) + 1e-6
    )
    assert optimum - solution.value <= np.ptp(values) + 1e-9


def test_parts_do_not_change_an_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = draw(1000, 4, 3, per_query=True)
    whole = assign_large(batch, 3000.0)
    monkeypatch.setattr(large_batch, "ROWS_PER_PART", 77)
    parted = assign_large(batch, 3000.0)
    assert whole.choice.tolist() == parted.choice.tolist()
    assert (whole.cost, whole.price) == (parted.cost, parted.price)


def test_the_budget_is_spent_and_the_gap_is_tiny_on_a_large_batch() -> None:
    rng = np.random.default_rng(0)
    batch = LargeBatch(rng.random((200_000, 7)).astype(np.float32), np.array([[1.0, 2, 3, 5, 8, 13, 21]]), np.zeros(7))
    solution = assign_large(batch, 800_000.0)
    assert 800_000 - 20 < solution.cost <= 800_000  # less than one upgrade is left
    assert solution.gap < 1e-5


def test_a_budget_below_the_cheapest_assignment_is_refused_with_it() -> None:
    with pytest.raises(Infeasible, match="at least 20"):
        assign_large(LargeBatch(np.ones((10, 2), dtype=np.float32), np.array([[2.0, 3.0]]), np.zeros(2)), 19.0)


def test_the_least_budget_of_costs_that_no_float_is_equal_to_is_enough() -> None:
    batch = LargeBatch(np.ones((1_000_003, 2), dtype=np.float32), np.array([[0.1, 0.3]]), np.array([0.0, 0.5]))
    solution = assign_large(batch, batch.measure_least_cost())
    assert set(solution.choice.tolist()) == {0}


def test_many_equal_upgrades_are_taken_as_far_as_the_budget_allows() -> None:
    batch = LargeBatch(
        np.tile(np.array([0.2, 0.7], dtype=np.float32), (300_000, 1)), np.array([[1.0, 3.0]]), np.zeros(2)
    )
    solution = assign_large(batch, 500_001.0)
    assert (int(solution.choice.sum()), solution.cost) == (100_000, 500_000.0)
