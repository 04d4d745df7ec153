"""Groups of sensors against enumeration, and the reward's own laws."""

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.arrays import Bools
from solvers.policy.subsets import choose_subsets, reward
from tests.oracles.policy import best_reward


def coverage(seed: int, sensors: int, rows: int) -> Callable[[frozenset[int]], Bools]:
    """Make answers that only get better with more sensors: a row is answered rightly once any of its own is there."""
    answered = np.random.default_rng(seed).random((sensors, rows)) < 0.3

    def right(group: frozenset[int]) -> Bools:
        return np.asarray(answered[sorted(group)].any(axis=0))

    return right


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 2), st.integers(0, 5))
def test_the_greedy_reward_is_within_the_promise_of_the_best(seed: int, sensors: int, count: int, limit: int) -> None:
    """Theorem 3.2, for sensors of one cost: at least 1 - 1/e of the best."""
    right, costs = coverage(seed, sensors, 24), np.ones(sensors)
    chosen = choose_subsets(right, costs, count, float(limit))
    assert sum(len(group) for group in chosen.groups) <= limit
    assert chosen.reward == reward(right, chosen.groups)
    assert chosen.reward >= (1 - 1 / np.e) * best_reward(right, costs, count, limit) - 1e-12


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 2))
def test_with_unlike_costs_it_keeps_within_the_limit_and_half_the_promise(seed: int, sensors: int, count: int) -> None:
    """Leskovec and others: the better of the two greedy ways reaches half of 1 - 1/e of the best."""
    rng = np.random.default_rng(seed)
    right, costs = coverage(seed, sensors, 24), rng.uniform(0.1, 3.0, sensors)
    limit = float(rng.uniform(0.1, costs.sum() * count))
    chosen = choose_subsets(right, costs, count, limit)
    assert sum(costs[m] for group in chosen.groups for m in group) <= limit * (1 + 1e-9)
    assert chosen.reward >= 0.5 * (1 - 1 / np.e) * best_reward(right, costs, count, limit) - 1e-12


def test_a_cheap_sensor_does_not_keep_out_a_dear_one_that_is_worth_far_more() -> None:
    """By the rise for a unit of cost alone the cheap one comes first, and nothing is left for the other."""
    answered = {0: np.arange(100) < 2, 1: np.arange(100) < 90}

    def right(group: frozenset[int]) -> Bools:
        return np.any([answered[m] for m in group], axis=0) if group else np.zeros(100, dtype=np.bool_)

    assert choose_subsets(right, np.array([0.01, 1.0]), 1, 1.0).reward == 0.9


@given(st.integers(0, 2**32))
def test_the_reward_never_falls_with_a_sensor_more_and_its_rise_gets_smaller(seed: int) -> None:
    """Lemma 3.1, for classifiers that only get better."""
    right = coverage(seed, 5, 30)
    small, large, more = [frozenset({0})], [frozenset({0}), frozenset({1, 2})], frozenset({3})
    rises = [reward(right, [*groups, more]) - reward(right, groups) for groups in (small, large)]
    assert -1e-12 <= rises[1] <= rises[0] + 1e-12


def test_no_group_is_asked_for_twice() -> None:
    asked: list[frozenset[int]] = []
    answers = coverage(1, 4, 20)

    def right(group: frozenset[int]) -> Bools:
        asked.append(group)
        return answers(group)

    choose_subsets(right, np.array([1.0, 2.0, 1.0, 3.0]), 3, 9.0)
    assert len(asked) == len(set(asked))
