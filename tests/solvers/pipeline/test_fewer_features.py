"""Fronts of fewer features, against every configuration of each number of them, and what a person would try."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Bools, Floats, Int8s
from models.pipeline import Evolution, PipelineOptions
from solvers.base import no_progress
from solvers.pipeline.configurations import REMOVED, compress_chromosomes, count_stages, make_single_stage
from solvers.pipeline.exact_front import find_packed_front
from solvers.pipeline.fewer_features import (
    MAX_PAIRED,
    find_forward_orders,
    list_chains,
    list_singles_and_pairs,
    list_truncations,
    make_exact_search,
    merge_fronts,
    search_first_features,
)
from solvers.pipeline.forward_selection import split_into_stages
from solvers.pipeline.front import FrontResult, search_by_evolution, search_exactly, search_fewer_features
from solvers.pipeline.objectives import ConfigurationScores, Evaluator
from tests.solvers.pipeline.test_emsco import problem


def costs_of(evaluate: Evaluator) -> Floats:
    """Give the costs of the features."""
    return np.asarray(evaluate.unit_costs.by_feature / evaluate.unit_costs.units)


def behind(front: ConfigurationScores, rivals: ConfigurationScores) -> Bools:
    """Tell of rivals, (r,), whether none of a front is at least as good as they are."""
    ours, theirs = front.stack_objectives(), rivals.stack_objectives()
    return np.asarray(~np.any(np.all(ours[:, None] >= theirs, axis=2), axis=0))


def by_force(order: list[int], stages: int) -> Int8s:
    """List every configuration of at most so many stages of each number of first features, all among them."""
    first = [set(order[:length]) for length in range(1, len(order) + 1)]
    every = np.array(list(product(range(REMOVED, stages), repeat=len(order))), dtype=np.int8)
    kept = [set(np.flatnonzero(genes >= 0).tolist()) in first for genes in every]
    return np.unique(compress_chromosomes(every[kept]), axis=0)


def simple_ones(evaluate: Evaluator, stages: int) -> Int8s:
    """List, in plain Python, single features and chains by forward selection, by gain and by gain for the cost."""
    costs, rows = costs_of(evaluate).tolist(), []
    n = len(costs)
    right = {
        known: int(evaluate(make_single_stage(sorted(known), n)[None]).right[0]) if known else 0
        for known in map(frozenset, ([f for f in range(n) if mask >> f & 1] for mask in range(1 << n)))
    }

    def savings(order: list[int], f: int, by_cost: bool) -> tuple[bool, float, float, int]:
        gain, paid = right[frozenset([*order, f])] - right[frozenset(order)], by_cost and costs[f] > 0
        return paid, -gain / (costs[f] if paid else 1.0), costs[f], f

    for by_cost in (False, True):
        order: list[int] = []
        for _ in range(n):
            left = [f for f in range(n) if f not in order]
            order.append(min(left, key=lambda f: savings(order, f, by_cost)))
            for cut in split_into_stages(np.arange(len(order)), stages):
                genes = np.full(n, REMOVED, dtype=np.int8)
                genes[order] = cut
                rows.append(genes)
    return np.array([*rows, *(make_single_stage([f], n) for f in range(n))])


def fronts(seed: int, stages: int, *, answers: bool, evolved: bool) -> tuple[Evaluator, FrontResult, FrontResult]:
    """Search as a build by default does, by looking at all or, hardly, by evolution: before and after joining."""
    evaluate = replace(problem(seed)[0], always_answers=answers)
    evolution = Evolution(population=4, generations=1)
    options = PipelineOptions(
        max_stages=stages,
        after_last_stage="answer" if answers else "reject",
        evolution=evolution if evolved else Evolution(),
    )
    if evolved:
        front = search_by_evolution(evaluate, options, np.random.default_rng(seed), no_progress)
    else:
        front = search_exactly(evaluate, stages, no_progress)
    return evaluate, front, search_fewer_features(evaluate, options, front, no_progress)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("after_last_stage", [False, True])
def test_the_front_is_that_of_every_configuration_by_force(seed: int, after_last_stage: bool) -> None:
    evaluate = replace(problem(seed)[0], always_answers=after_last_stage)
    orders, stages = find_forward_orders(evaluate), 2
    bits = evaluate.answers.get_lattice(np.arange(6), evaluate.threshold, always_answers=after_last_stage)
    whole = find_packed_front(*bits, evaluate.answers.rows, costs_of(evaluate), stages).chromosomes
    fewer = search_first_features(orders, make_exact_search(evaluate, stages))
    genes, scores = merge_fronts(evaluate, whole, fewer, only_where_they_dominate=False)
    known = evaluate(np.concatenate([by_force(order.tolist(), stages) for order in orders]))
    assert not behind(scores, known).any()
    assert not behind(known, scores).any()
    assert len(np.unique(scores.stack_objectives(), axis=0)) == len(genes)
    assert len(fewer) >= 5
    chains = list_chains(evaluate, orders, stages)
    _, of_chains = merge_fronts(evaluate, whole, chains, only_where_they_dominate=False)
    assert not behind(of_chains, evaluate(whole)).any(), "nothing is lost"
    assert not behind(of_chains, evaluate(chains)).any()


@given(st.integers(0, 2**20), st.integers(1, 4), st.booleans())
@pytest.mark.slow
def test_no_chain_of_forward_selection_and_no_single_feature_beats_the_front_within_its_cost(
    seed: int, stages: int, evolved: bool
) -> None:
    evaluate, _, joined = fronts(seed, stages, answers=True, evolved=evolved)
    simple = evaluate(simple_ones(evaluate, stages))
    for right, cost in zip(simple.right, simple.cost, strict=True):
        assert joined.scores.right[joined.scores.cost <= cost].max(initial=-1) >= right
    assert count_stages(joined.chromosomes).max() <= stages
    assert np.array_equal(compress_chromosomes(joined.chromosomes), joined.chromosomes)


@given(st.integers(0, 2**20), st.integers(1, 4), st.booleans())
@pytest.mark.slow
def test_where_items_may_be_rejected_only_what_dominates_one_of_the_front_leaves_features_out(
    seed: int, stages: int, evolved: bool
) -> None:
    evaluate, front, joined = fronts(seed, stages, answers=False, evolved=evolved)
    before, after = front.scores.stack_objectives(), joined.scores.stack_objectives()
    assert not behind(joined.scores, front.scores).any(), "nothing is lost"
    assert not any(np.any(np.all(after >= one, axis=1) & np.any(after > one, axis=1)) for one in after)
    chains = list_chains(evaluate, find_forward_orders(evaluate), stages)
    whole = np.concatenate((before, evaluate(chains[(chains >= 0).all(axis=1)]).stack_objectives()))
    for genes, one in zip(joined.chromosomes, after, strict=True):
        assert genes.min() >= 0 or np.any(np.all(one >= whole, axis=1) & np.any(one > whole, axis=1))
    tried = np.concatenate((simple_ones(evaluate, stages), list_truncations(joined.chromosomes)))
    simple = evaluate(tried).stack_objectives()
    for one in before:
        assert not np.any(np.all(simple >= one, axis=1)) or np.any(np.all(after >= one, axis=1))
    beaten = np.array([np.any(np.all(simple >= one, axis=1) & np.any(simple > one, axis=1)) for one in after])
    assert not beaten.any(), "what a person would try first is cheaper and no worse"


def test_features_are_left_out_by_default_where_items_may_be_rejected() -> None:
    left_out = [fronts(seed, 3, answers=False, evolved=False)[2].chromosomes.min() < 0 for seed in range(20)]
    assert sum(left_out) >= 5


def test_of_equal_ones_the_first_that_was_found_stays() -> None:
    evaluate, _ = problem(0)
    whole, none = np.zeros((2, 6), dtype=np.int8), np.zeros((0, 6), dtype=np.int8)
    genes, _ = merge_fronts(evaluate, whole, none, only_where_they_dominate=True)
    assert genes.tolist() == whole[:1].tolist()


@pytest.mark.parametrize("stages", [1, 2])
def test_pairs_are_listed_where_there_are_few(stages: int) -> None:
    few = list_singles_and_pairs(5, stages)
    assert len(np.unique(few, axis=0)) == len(few) == 5 + 10 * (3 if stages > 1 else 1)
    assert set((few >= 0).sum(axis=1).tolist()) == {1, 2}
    assert len(list_singles_and_pairs(MAX_PAIRED + 1, stages)) == MAX_PAIRED + 1


def test_nothing_is_left_without_the_only_stage() -> None:
    assert list_truncations(np.zeros((2, 3), dtype=np.int8)).shape == (0, 3)
