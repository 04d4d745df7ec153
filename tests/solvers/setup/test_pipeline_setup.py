"""Pipelines of features that share set-up work, against all configurations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Bools, Floats
from solvers.pipeline.answer_cache import AnswerCache
from solvers.pipeline.configurations import Frontier
from solvers.pipeline.exact_front import find_front
from solvers.pipeline.objectives import Evaluator
from solvers.pipeline.unit_costs import FixedPointCosts
from solvers.setup_groups import NO_GROUPS, SetupGroups
from tests.oracles.pipeline import Groups, brute_force, fractions, random_costs, random_table, walk
from tests.oracles.setup import costs_of_sets, random_groups
from tests.support.cases import case_count


def oracle_groups(groups: SetupGroups, costs: Floats) -> Groups:
    priced = fractions(costs[len(costs) - len(groups) :].tolist())
    return [(frozenset(np.flatnonzero(own).tolist()), cost) for own, cost in zip(groups.members, priced, strict=True)]


def as_rows(front: Frontier) -> dict[tuple[int, ...], tuple[float, float, float]]:
    figures = zip(front.coverage.tolist(), front.accuracy.tolist(), front.cost.tolist(), strict=True)
    return dict(zip(map(tuple, front.chromosomes.tolist()), figures, strict=True))


@pytest.mark.parametrize("seed", range(case_count(200, 60)))
def test_the_exact_front_is_that_of_all_configurations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k, rows = int(rng.integers(2, 6)), int(rng.integers(1, 5)), int(rng.integers(1, 70))
    confident, correct = random_table(rng, n, rows)
    groups = random_groups(rng, n)
    costs = np.concatenate((random_costs(rng, n), random_costs(rng, len(groups))))
    front = as_rows(find_front(confident, correct, costs, k, groups=groups))
    known = brute_force(confident, correct, costs[:n], k, groups=oracle_groups(groups, costs))
    assert front.keys() == known.keys()
    for genes, result in known.items():
        figures = (result.covered / rows, float(result.accuracy), float(result.cost))
        assert front[genes] == pytest.approx(figures, rel=1e-9)


@pytest.mark.parametrize("seed", range(case_count(200, 60)))
def test_any_configuration_costs_what_its_rows_pay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, rows = int(rng.integers(2, 6)), int(rng.integers(1, 70))
    confident, correct = random_table(rng, n, rows)
    groups = random_groups(rng, n)
    costs = np.concatenate((random_costs(rng, n), random_costs(rng, len(groups))))
    genes = rng.integers(-1, 4, size=(20, n)).astype(np.int8)
    genes[(genes < 0).all(axis=1), 0] = 0
    scores = make_evaluator(confident, correct, FixedPointCosts.from_costs(costs, rows, groups))(genes)
    confident[0], priced, shared = False, fractions(costs[:n].tolist()), oracle_groups(groups, costs)
    for at, own in enumerate(genes.tolist()):
        paid = walk(own, confident, correct, priced, groups=shared)
        assert scores.cost[at] == pytest.approx(float(paid.cost), rel=1e-9)
        assert scores.covered[at] == paid.covered


def make_evaluator(confident: Bools, correct: Bools, prices: FixedPointCosts) -> Evaluator:
    """Return the evaluator of a table whose true class is 0 in every row."""
    labels = np.zeros(confident.shape[1], dtype=np.int64)

    def train(masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sets = masks.astype(np.int64)
        return confident[sets].astype(np.float32), np.where(correct[sets], 0, 1)

    return Evaluator(AnswerCache(train, labels), prices, 0.5)


@pytest.mark.parametrize("seed", range(10))
def test_sums_of_sets_count_each_group_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = random_groups(rng, 6)
    costs = np.concatenate((random_costs(rng, 6), random_costs(rng, len(groups))))
    prices = FixedPointCosts.from_costs(costs, 50, groups)
    assert prices.sum_sets() / prices.units == pytest.approx(costs_of_sets(costs, groups))


@given(st.lists(st.integers(0, 9), min_size=2, max_size=4), st.integers(0, 9), st.integers(0, 1000))
def test_trivial_groups_are_additive_costs(costs: list[int], price: int, seed: int) -> None:
    table = random_table(np.random.default_rng(seed), len(costs), 20)

    def find(own: list[int], groups: SetupGroups = NO_GROUPS) -> dict[tuple[int, ...], tuple[float, float, float]]:
        return as_rows(find_front(*table, np.array(own, dtype=float), 3, groups=groups))

    every, first = np.ones((1, len(costs)), dtype=bool), (np.arange(len(costs)) == 0)[None]
    plain = find(costs)
    assert find([*costs, 0], SetupGroups(every)) == plain
    assert find([*costs, price], SetupGroups(first)) == find([costs[0] + price, *costs[1:]])
    # each row pays for a group of all features with its first stage: the front is the same, at a higher cost
    shared = find([*costs, price], SetupGroups(every))
    assert shared.keys() == plain.keys()
    for genes, figures in plain.items():
        assert shared[genes] == pytest.approx((*figures[:2], figures[2] + price))
