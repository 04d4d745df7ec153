"""Fronts of fewer features, against every configuration of every number of them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from models.arrays import Int8s, Int64s
from solvers.base import silent
from solvers.pipeline.configurations import REMOVED, compress
from solvers.pipeline.exact_front import frontier_of_words
from solvers.pipeline.fewer_features import chains_of, every_one, join_fewer, order_of
from tests.solvers.pipeline.test_chains import behind, costs_of
from tests.solvers.pipeline.test_emsco import problem


def by_force(order: list[int], stages: int) -> Int8s:
    """List every configuration of at most so many stages of each number of first features, all among them."""
    first = [set(order[:length]) for length in range(1, len(order) + 1)]
    every = np.array(list(product(range(REMOVED, stages), repeat=len(order))), dtype=np.int8)
    kept = [set(np.flatnonzero(genes >= 0).tolist()) in first for genes in every]
    return np.unique(compress(every[kept]), axis=0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("at_the_end", [False, True])
def test_the_front_is_that_of_every_configuration_by_force(seed: int, at_the_end: bool) -> None:
    evaluate = replace(problem(seed)[0], answers_at_the_end=at_the_end)
    order, stages = order_of(evaluate), 2
    bits = evaluate.answers.lattice(np.arange(len(order)), evaluate.threshold, answers_at_the_end=at_the_end)
    whole = frontier_of_words(*bits, evaluate.answers.rows, costs_of(evaluate), stages).chromosomes
    genes, scores, joined = join_fewer(evaluate, order, whole, every_one(evaluate, stages), silent)
    known = evaluate(by_force(order.tolist(), stages))
    assert not behind(scores, known).any()
    assert not behind(known, scores).any()
    assert len(np.unique(scores.maximised(), axis=0)) == len(genes)
    assert joined >= len(order) - 1
    _, of_chains, _ = join_fewer(evaluate, order, whole, chains_of(order, stages), silent)
    assert not behind(scores, of_chains).any(), "chains are some of them"
    assert not behind(of_chains, evaluate(whole)).any(), "nothing is lost"


def test_of_equal_ones_the_first_that_was_found_stays() -> None:
    evaluate, _ = problem(0)
    order, whole = order_of(evaluate), np.zeros((2, 6), dtype=np.int8)

    def none_of(features: Int64s) -> Int8s:
        return np.zeros((0, len(features)), dtype=np.int8)

    genes, _, joined = join_fewer(evaluate, order, whole, none_of, silent)
    assert (genes.tolist(), joined) == (whole[:1].tolist(), 0)
