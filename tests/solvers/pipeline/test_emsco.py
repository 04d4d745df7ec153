"""EMSCO: its operators, the properties that the paper proves, and its front against the exact one."""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.arrays import Int8s, Int64s
from models.errors import Cancelled, InvalidRequest
from solvers.pipeline.answer_cache import AnswerCache
from solvers.pipeline.configurations import REMOVED, Frontier, compress_chromosomes, count_stages
from solvers.pipeline.emsco import Emsco, EvolutionResult, EvolutionSettings, compute_log_fitness, evolve_front
from solvers.pipeline.exact_front import find_front
from solvers.pipeline.objectives import ConfigurationScores, Evaluator
from solvers.pipeline.operators import (
    beta_binomial,
    draw_parents,
    mutate_genes,
    recombine_parents,
    selection_probabilities,
)
from solvers.pipeline.unit_costs import FixedPointCosts
from tests.oracles.pipeline import random_costs, random_table
from tests.solvers.pipeline.test_objectives import random_chromosomes
from tests.support.cases import case_count

QUICK = EvolutionSettings(population=30, generations=20, patience=1000, mutation=0.2)


def problem(seed: int, n: int = 6, k: int = 3, rows: int = 60) -> tuple[Evaluator, Frontier]:
    """Draw a table of classifiers; give its evaluator and its exact front."""
    rng = np.random.default_rng(seed)
    confident, correct = random_table(rng, n, rows)
    costs = random_costs(rng, n)
    labels = np.ones(rows, dtype=np.int64)

    def train(masks: NDArray[np.uint64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        return np.where(confident, 0.9, 0.6)[masks.astype(int)], correct.astype(np.int64)[masks.astype(int)]

    evaluate = Evaluator(AnswerCache(train, labels), FixedPointCosts.from_costs(costs, rows), 0.75)
    return evaluate, find_front(confident, correct, costs, k)


def feasible(genes: Int8s, k: int, removal: bool = False) -> bool:
    """Tell whether all chromosomes are compressed and have a number of stages that is allowed."""
    stages = count_stages(genes)
    low = genes.min(initial=0) >= (REMOVED if removal else 0)
    return bool(low and np.array_equal(compress_chromosomes(genes), genes) and np.all((stages >= 1) & (stages <= k)))


@given(st.integers(0, 12), st.floats(0.3, 8))
def test_the_mutation_distribution_is_the_beta_binomial(most: int, beta: float) -> None:
    """Eq. 7: probabilities that fall if beta > 1, with mean |Q| / (beta + 1)."""
    odds = beta_binomial(most, beta)
    assert math.fsum(odds.tolist()) == pytest.approx(1)
    assert float(odds @ np.arange(most + 1)) == pytest.approx(most / (beta + 1))
    if beta > 1.001:
        assert all(before > after for before, after in pairwise(odds.tolist()))


def test_mutation_really_draws_from_it() -> None:
    """Three stages, k = 5: a mutated gene goes to stages 0 to 3 as often as BB(3, 1, beta) says."""
    genes = np.tile(np.array([0, 0, 1, 1, 2, 2], dtype=np.int8), (60_000, 1))
    rng = np.random.default_rng(0)
    mutated = mutate_genes(genes, 0.02, 5, 2.0, rng)
    moved = mutated[(mutated != genes).sum(axis=1) == 1]
    odds = beta_binomial(3, 2.0)
    for gene, own in ((0, 0), (2, 1), (4, 2)):
        new = moved[moved[:, gene] != own, gene]
        expected = np.where(np.arange(4) == own, 0, odds) / (1 - odds[own])
        assert np.abs(np.bincount(new, minlength=4) / len(new) - expected).max() < 0.04
    assert abs((mutated[:, 0] != 0).mean() / (0.02 * (1 - odds[0])) - 1) < 0.15


@given(st.integers(1, 20), st.integers(1, 6), st.floats(0, 1), st.integers(0, 2**32))
def test_mutation_keeps_chromosomes_feasible(n: int, k: int, rate: float, seed: int) -> None:
    """No stage becomes empty, none beyond k opens."""
    rng = np.random.default_rng(seed)
    genes = compress_chromosomes(random_chromosomes(rng, 30, n, k))
    assert feasible(mutate_genes(genes, rate, k, 2.0, rng), k)
    some = compress_chromosomes(random_chromosomes(rng, 30, n, k, 0.3))
    assert feasible(mutate_genes(some, rate, k, 2.0, rng), k, True)
    assert np.array_equal(mutate_genes(genes, 0.0, k, 2.0, rng), genes)


def mutants(genes: tuple[int, ...], k: int, at: int = 0) -> set[tuple[int, ...]]:
    """List all that mutating each gene, in order, can lead to, as Algorithm 1 has it."""
    if at == len(genes):
        return {genes}
    stages = range(min(max(genes) + 1, k - 1) + 1) if genes.count(genes[at]) > 1 else [genes[at]]
    return {mutant for stage in stages for mutant in mutants((*genes[:at], stage, *genes[at + 1 :]), k, at + 1)}


@pytest.mark.parametrize(("genes", "k"), [((0, 0, 1), 2), ((0, 0, 0, 0), 4), ((1, 0, 1, 0), 3), ((0, 1, 2), 9)])
def test_mutants_are_all_those_of_the_algorithm_and_no_others(genes: tuple[int, ...], k: int) -> None:
    """A gene that leaves or joins a stage counts for the genes after it, and so does a stage that it opens."""
    many = np.tile(np.array(genes, dtype=np.int8), (20_000, 1))
    assert set(map(tuple, mutate_genes(many, 1.0, k, 1.5, np.random.default_rng(3)).tolist())) == mutants(genes, k)


def test_mutation_of_every_gene_opens_stages_for_later_genes() -> None:
    """From one stage, n genes can come to more than two; a feature alone in its stage stays."""
    rng = np.random.default_rng(0)
    genes = mutate_genes(np.zeros((500, 8), dtype=np.int8), 1.0, 8, 0.5, rng)
    assert count_stages(genes).max() > 3
    alone = np.tile(np.array([0, 1, 2], dtype=np.int8), (50, 1))
    assert np.array_equal(mutate_genes(alone, 1.0, 5, 2.0, rng), alone)


@given(st.integers(1, 20), st.integers(1, 6), st.floats(0, 0.5), st.integers(0, 2**32))
def test_children_are_feasible_and_have_no_more_stages_than_a_parent(n: int, k: int, removed: float, seed: int) -> None:
    """With and without removed features; without a cross a child is one of its parents."""
    rng = np.random.default_rng(seed)
    one, two = (compress_chromosomes(random_chromosomes(rng, 40, n, k, removed)) for _ in range(2))
    children = recombine_parents(one, two, 0.7, rng)
    assert feasible(children, k, True)
    assert np.all(count_stages(children) <= np.maximum(count_stages(one), count_stages(two)))
    same = recombine_parents(one, two, 0.0, rng)
    assert np.all((same == one).all(axis=1) | (same == two).all(axis=1))


def crossed(one: tuple[int, ...], two: tuple[int, ...]) -> set[tuple[int, ...]]:
    """List all children of two parents, gene by gene as Algorithm 2 has it, gaps closed."""
    a, b = max(one) + 1, max(two) + 1
    children = set()
    for wanted, picks in product({a, b, (a + b) // 2}, product((0, 1), repeat=len(one))):
        pairs = [(one[i] + 1) / a if pick == 0 else (two[i] + 1) / b for i, pick in enumerate(picks)]
        genes = [max(round(share * wanted) - 1, 0) for share in pairs]
        order = {stage: i for i, stage in enumerate(sorted(set(genes)))}
        children.add(tuple(order[gene] for gene in genes))
    return children


@pytest.mark.parametrize(
    ("one", "two"), [((0, 1, 2, 3, 4), (0, 0, 0, 0, 1)), ((2, 1, 0, 0), (0, 1, 1, 0)), ((0, 0, 0), (2, 0, 1))]
)
def test_children_are_all_those_of_the_algorithm_and_no_others(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    """Each is drawn sooner or later."""
    first, second = (np.tile(np.array(each, dtype=np.int8), (20_000, 1)) for each in (one, two))
    children = recombine_parents(first, second, 1.0, np.random.default_rng(3))
    assert set(map(tuple, children.tolist())) == crossed(one, two)


def test_stages_are_taken_in_proportion() -> None:
    """A gene in the last stage of either parent is in the child's last, whichever number that is; the second of five
    stages is the first of two (Algorithm 2)."""
    one = np.tile(np.array([0, 1, 2, 3, 4], dtype=np.int8), (400, 1))
    two = np.tile(np.array([0, 0, 0, 0, 1], dtype=np.int8), (400, 1))
    children = recombine_parents(one, two, 1.0, np.random.default_rng(1))
    assert np.all(children[:, 4] == children.max(axis=1))
    assert np.all(children[children.max(axis=1) == 1][:, :2] == 0)
    assert set(count_stages(children).tolist()) >= {2, 3}


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(0.01, 2)), min_size=2, max_size=30), st.floats(0.001, 1))
def test_selection_prefers_rank_and_within_it_the_norm(pairs: list[tuple[int, float]], epsilon: float) -> None:
    """Property 2: the probability of selection rises strictly with the rank, and within a rank with the norm."""
    rank, norms = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    norms = np.round(norms, 6)
    fitness = compute_log_fitness(rank, norms, epsilon)
    odds = selection_probabilities(fitness)
    assert odds.sum() == pytest.approx(1)
    gamma = norms.max() / norms.min() + epsilon
    assert np.allclose(fitness, np.log(gamma**rank * norms))
    order = np.lexsort((norms, rank))
    for low, high in pairwise(order.tolist()):
        if (rank[low], norms[low]) != (rank[high], norms[high]):
            assert fitness[low] < fitness[high]
            assert odds[low] < odds[high]


def test_selection_survives_ranks_whose_fitness_overflows_and_norms_of_zero() -> None:
    """gamma^rank far beyond float64; what has norm 0 is never chosen, unless all have."""
    fitness = compute_log_fitness(np.arange(2000), np.linspace(0.01, 1.7, 2000), 0.01)
    assert np.all(np.diff(fitness) > 0)
    rng = np.random.default_rng(0)
    assert draw_parents(fitness, 50, rng).min() > 1990
    some = compute_log_fitness(np.array([0, 0, 1]), np.array([0.0, 0.5, 0.0]), 0.01)
    assert set(draw_parents(some, 50, rng).tolist()) == {1}
    none = compute_log_fitness(np.array([0, 0]), np.zeros(2), 0.01)
    assert set(draw_parents(none, 50, rng).tolist()) == {0, 1}


@settings(max_examples=case_count(25, 10))
@given(st.integers(0, 10_000))
def test_nothing_that_is_not_dominated_is_ever_lost(seed: int) -> None:
    """Property 1, generation by generation, against all that was evaluated: the front told is the front of all."""
    evaluate, exact = problem(seed)
    run = Emsco(6, 3, QUICK, np.random.default_rng(seed))
    seen: dict[tuple[float, ...], tuple[int, ...]] = {}
    best = set(map(tuple, np.column_stack((exact.coverage, exact.accuracy, -exact.cost)).tolist()))
    while run.halted is None:
        asked = run.next_chromosomes()
        scores = evaluate(asked)
        for vector, genes in zip(scores.stack_objectives().tolist(), asked.tolist(), strict=True):
            own = (max(genes), *genes)
            seen[tuple(vector)] = min(seen.get(tuple(vector), own), own)
        run.report_scores(scores)
        front = run.get_front()
        vectors = list(map(tuple, front.scores.stack_objectives().tolist()))
        undominated = {
            one
            for one in seen
            if not any(other != one and all(a >= b for a, b in zip(other, one, strict=True)) for other in seen)
        }
        assert len(vectors) == len(set(vectors))
        assert set(vectors) == undominated
        assert set(vectors) >= best & set(seen)
        assert [tuple(genes) for genes in front.chromosomes.tolist()] == [seen[vector][1:] for vector in vectors]


@pytest.mark.parametrize("seed", range(12))
def test_every_point_is_weakly_dominated_by_the_exact_front(seed: int) -> None:
    """Nothing better than exact is ever told; what is told is feasible, and not dominated by itself."""
    evaluate, exact = problem(seed)
    evolved = evolve_front(evaluate, 6, 3, QUICK, np.random.default_rng(seed)).front
    assert feasible(evolved.chromosomes, 3)
    for coverage, accuracy, negative in evolved.scores.stack_objectives().tolist():
        assert np.any((exact.coverage >= coverage) & (exact.accuracy >= accuracy) & (-exact.cost >= negative))
    again = evaluate(evolved.chromosomes)
    assert np.array_equal(again.stack_objectives(), evolved.scores.stack_objectives())


def test_small_problems_are_solved_whole() -> None:
    """6 features, 3 stages: 603 configurations; the whole front is found in most runs."""
    whole = 0
    for seed in range(case_count(10, 5)):
        evaluate, exact = problem(seed)
        using = replace(QUICK, population=200, generations=60)
        scores = evolve_front(evaluate, 6, 3, using, np.random.default_rng(seed)).front.scores
        points = set(map(tuple, np.column_stack((exact.coverage, exact.accuracy, -exact.cost)).tolist()))
        whole += points == set(map(tuple, scores.stack_objectives().tolist()))
    assert whole >= case_count(8, 4)


def test_a_seed_gives_the_same_run() -> None:
    """And another seed another."""
    evaluate, _ = problem(1)

    def run(seed: int) -> EvolutionResult:
        return evolve_front(evaluate, 6, 3, replace(QUICK, generations=3), np.random.default_rng(seed))

    one, two, other = run(5), run(5), run(6)
    assert np.array_equal(one.front.chromosomes, two.front.chromosomes)
    assert np.array_equal(one.front.log_fitness, two.front.log_fitness)
    assert (one.generations, one.evaluated, one.halted) == (two.generations, two.evaluated, two.halted)
    assert not np.array_equal(one.front.chromosomes, other.front.chromosomes)


def test_elites_are_the_share_or_the_front_and_unique() -> None:
    """The fittest per vector of objectives: max(ceil(b |G*|), |E0*|), in order of fitness (Section 3.2.2)."""
    evaluate, _ = problem(3)
    for elite in (0.01, 0.5):
        run = Emsco(6, 3, replace(QUICK, elite=elite), np.random.default_rng(0))
        for _ in range(5):
            run.report_scores(evaluate(run.next_chromosomes()))
            first = dict[tuple[float, ...], int]()
            for place, vector in enumerate(map(tuple, run.current.scores.stack_objectives().tolist())):
                first.setdefault(vector, place)
            unique = list(first.values())
            front = sum(run.current.rank[place] == run.current.rank[0] for place in unique)
            kept = unique[: max(math.ceil(elite * len(unique)), front)]
            elites = run.select_elites().chromosomes
            assert elites.tolist() == run.current.chromosomes[kept].tolist()
            assert len(run.next_chromosomes()) == 30 - len(elites)


def test_the_three_halting_rules() -> None:
    """Generations; a population that is all front; the fittest unchanged for so long."""
    evaluate, _ = problem(3)
    rng = np.random.default_rng(0)
    assert evolve_front(evaluate, 6, 3, replace(QUICK, generations=0), rng).generations == 0
    by_count = evolve_front(evaluate, 6, 3, replace(QUICK, generations=4), rng)
    assert (by_count.halted, by_count.generations) == ("generations", 4)
    patient = evolve_front(evaluate, 6, 3, replace(QUICK, generations=900, patience=3), rng)
    assert patient.halted == "patience"
    assert patient.generations >= 3

    def scored(genes: Int8s, covered: Int64s) -> ConfigurationScores:
        right, cost = (np.asarray(1.0 + covered, dtype=np.float64) for _ in range(2))
        return ConfigurationScores(1 + int(covered.max()), 1 + covered, right, cost)

    def alike(genes: Int8s) -> ConfigurationScores:
        return scored(genes, np.zeros(len(genes), dtype=np.int64))

    def different(genes: Int8s) -> ConfigurationScores:
        return scored(genes, genes.astype(np.int64) @ 3 ** np.arange(6))

    using = replace(QUICK, mutation=0.9)
    full = evolve_front(different, 6, 3, replace(using, generations=900), rng)
    assert full.halted == "population"
    assert len(full.front.rank) >= using.population
    one = evolve_front(alike, 6, 3, using, rng)
    assert (one.halted, len(one.front.rank)) == ("generations", 1)


def test_false_positives_are_a_fourth_objective() -> None:
    evaluate, _ = problem(4)
    rng = np.random.default_rng(0)

    def alarmed(genes: Int8s) -> ConfigurationScores:
        scores = evaluate(genes)
        return replace(scores, alarms=genes[:, 0].astype(np.int64), negatives=5)

    front = evolve_front(alarmed, 6, 3, QUICK, rng).front
    assert front.scores.stack_objectives().shape[1] == 4
    assert front.scores.alarms is not None
    assert len(set(front.scores.alarms.tolist())) > 1


def test_one_feature_and_63_features_work() -> None:
    """The ends of what a mask holds."""

    def evaluate(genes: Int8s) -> ConfigurationScores:
        stages = count_stages(genes)
        return ConfigurationScores(100, 100 - stages, np.asarray(90.0 - stages, dtype=np.float64), 10.0 / stages)

    assert evolve_front(evaluate, 1, 5, QUICK, np.random.default_rng(0)).front.chromosomes.tolist() == [[0]]
    wide = evolve_front(evaluate, 63, 5, QUICK, np.random.default_rng(0)).front
    assert feasible(wide.chromosomes, 5)
    with pytest.raises(InvalidRequest, match="features: must be from 1 to 63, got 64"):
        Emsco(64, 5, QUICK, np.random.default_rng(0))


def test_a_run_can_be_cancelled_and_tells_its_generations() -> None:
    """What progress raises comes out."""
    evaluate, _ = problem(0)
    generations: list[int] = []

    def stop(done: int, total: int, message: str) -> None:
        generations.append(done)
        if done == 3:
            raise Cancelled("told to stop")

    with pytest.raises(Cancelled):
        evolve_front(evaluate, 6, 3, QUICK, np.random.default_rng(0), progress=stop)
    assert generations == [0, 1, 2, 3]


def test_parameters_out_of_range_are_refused_with_numbers() -> None:
    """Each by its name."""
    wrong = {"population": 1, "mutation": 1.5, "recombination": -0.1, "elite": 1.0, "beta": 0.0, "epsilon": math.nan}
    for name, value in (wrong | {"generations": -1, "patience": 0}).items():
        with pytest.raises(InvalidRequest, match=f"{name}: must be .*, got {value}"):
            replace(QUICK, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="max_stages: must be at least 1, got 0"):
        Emsco(6, 0, QUICK, np.random.default_rng(0))
    run = Emsco(6, 3, QUICK, np.random.default_rng(0))
    with pytest.raises(InvalidRequest, match="must be 30, got 3"):
        run.report_scores(problem(0)[0](run.next_chromosomes()[:3]))
