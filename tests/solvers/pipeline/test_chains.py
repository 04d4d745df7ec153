"""Chains: what EMSCO begins with, and that its front is never behind it."""

import numpy as np
import pytest

from models.arrays import Bools, Floats, Int8s
from models.pipeline import Evolution, PipelineOptions
from solvers.base import silent
from solvers.pipeline.chains import chains, forward_order
from solvers.pipeline.configurations import REMOVED, compress, stage_counts
from solvers.pipeline.emsco import Emsco, Settings
from solvers.pipeline.front import evolve_some
from solvers.pipeline.objectives import Evaluator, Scores
from tests.solvers.pipeline.test_emsco import problem

SEEDS = range(100)


def costs_of(evaluate: Evaluator) -> Floats:
    """Give the costs of the features."""
    return np.asarray(evaluate.unit_costs.of / evaluate.unit_costs.units)


def behind(front: Scores, rivals: Scores) -> Bools:
    """Tell of rivals, (r,), whether none of a front is at least as good as they are."""
    ours, theirs = front.maximised(), rivals.maximised()
    return np.asarray(~np.any(np.all(ours[:, None] >= theirs, axis=2), axis=0))


@pytest.mark.parametrize("removal", [0.0, 0.3])
def test_the_front_is_behind_no_chain_although_hardly_anything_evolves(removal: float) -> None:
    lost = 0
    for seed in SEEDS:
        evaluate, _ = problem(seed)
        every = chains(evaluate, costs_of(evaluate), 3, removal=removal > 0)
        options = PipelineOptions(
            max_stages=3, evolution=Evolution(population=2 * len(every), generations=1, removal=removal)
        )
        front = evolve_some(evaluate, options, np.random.default_rng(seed), silent)
        assert not behind(front.scores, evaluate(every)).any()
        drawn = Emsco(6, 3, Settings(population=2 * len(every), removal=removal), np.random.default_rng(seed))
        lost += int(behind(evaluate(drawn.ask()), evaluate(every)).any())
    assert lost > len(SEEDS) / 4, "what is drawn at random would do as well"


@pytest.mark.parametrize(("fewest", "most", "removal"), [(1, 3, False), (2, 6, False), (1, 9, True), (6, 6, False)])
def test_chains_are_configurations_with_as_many_stages_as_are_allowed(fewest: int, most: int, removal: bool) -> None:
    for seed in SEEDS:
        evaluate, _ = problem(seed)
        every = chains(evaluate, costs_of(evaluate), most, fewest_stages=fewest, removal=removal)
        assert np.array_equal(compress(every), every)
        assert len(np.unique(every, axis=0)) == len(every)
        stages = stage_counts(every)
        assert (stages.min(), stages.max()) == (fewest, min(most, 6))
        assert (every.min() == REMOVED) == removal
        one_by_one = np.empty(6, dtype=np.int8)
        one_by_one[np.argsort(costs_of(evaluate), kind="stable")] = np.minimum(np.arange(6), most - 1)
        assert one_by_one.tolist() in every.tolist()


def test_forward_selection_takes_what_sets_most_rows_right_for_its_cost() -> None:
    """By hand: 3 is free; 1 sets 8 right for 2; then 0 adds 6 for 3; what is left, 2, costs least for nothing."""
    right = {0b1000: 0, 0b1001: 6, 0b1010: 8, 0b1100: 3, 0b1011: 14, 0b1110: 8, 0b1111: 14}

    def evaluate(chromosomes: Int8s) -> Scores:
        masks = ((chromosomes >= 0) << np.arange(4)).sum(axis=1).tolist()
        rights = np.array([right.get(mask, 0) for mask in masks])
        return Scores(20, rights, rights, np.ones(len(masks)))

    assert forward_order(evaluate, np.array([3.0, 2.0, 1.0, 0.0])).tolist() == [3, 1, 0, 2]


def test_no_more_than_half_of_a_generation_is_given() -> None:
    given = np.zeros((50, 4), dtype=np.int8)
    given[:, 1:] = 1
    asked = Emsco(4, 3, Settings(population=20, mutation=0.9), np.random.default_rng(0), given).ask()
    assert asked[:10].tolist() == given[:10].tolist()
    assert len(asked) == 20
