"""Chromosomes, the bank and the objectives against plain Python."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.arrays import UInt64s
from models.errors import InvalidRequest
from solvers.base import no_progress
from solvers.pipeline.answer_cache import AnswerCache
from solvers.pipeline.bit_packing import count_bits, pack_bits, unpack_bits
from solvers.pipeline.configurations import (
    check_chromosomes,
    compress_chromosomes,
    count_configurations,
    count_partitions,
    count_stage_features,
    make_stage_masks,
)
from solvers.pipeline.exact_front import find_front
from solvers.pipeline.front import search_exactly
from solvers.pipeline.objectives import ConfigurationScores, Evaluator, compute_inverse_cost
from solvers.pipeline.unit_costs import FixedPointCosts
from tests.oracles.pipeline import brute_force, every_chromosome, fractions, random_costs, walk
from tests.support.cases import first_quick

Answers = tuple[NDArray[np.float32], NDArray[np.int64]]


def answers(features: int, labels: NDArray[np.int64], classes: int = 2, seed: int = 0) -> Callable[[UInt64s], Answers]:
    """Make a trainer whose classifiers answer at random, the same for the same feature set."""

    def train(masks: UInt64s) -> Answers:
        confidence = np.zeros((len(masks), len(labels)), dtype=np.float32)
        predicted = np.zeros((len(masks), len(labels)), dtype=np.int64)
        for i, mask in enumerate(masks.tolist()):
            rng = np.random.default_rng([seed, mask])
            savings = mask.bit_count() / features
            confidence[i] = rng.choice([0.5, 0.6, 0.75, 0.9, 1.0], len(labels))
            guess = rng.integers(classes, size=len(labels))
            predicted[i] = np.where(rng.random(len(labels)) < 0.3 + 0.6 * savings, labels, guess)
        return confidence, predicted

    return train


def random_chromosomes(rng: np.random.Generator, c: int, n: int, k: int, removed: float = 0.0) -> NDArray[np.int8]:
    """Draw chromosomes, gaps and all, that acquire at least one feature."""
    genes = rng.integers(k, size=(c, n)).astype(np.int8)
    genes[rng.random((c, n)) < removed] = -1
    genes[(genes < 0).all(axis=1), 0] = 0
    return genes


def test_counts_are_those_of_the_paper_and_of_listing_them() -> None:
    """Eq. 1 and 2."""
    assert [count_configurations(n, 4) for n in (14, 12, 8)] == [254152083, 15199275, 46875]
    for n, k in product(range(1, 6), range(1, 5)):
        assert count_configurations(n, k) == len(list(every_chromosome(n, k)))
    assert count_partitions(3, 5) == 0


@given(st.integers(1, 63), st.integers(1, 12), st.integers(0, 2**32))
def test_compression_keeps_the_order_of_stages(n: int, k: int, seed: int) -> None:
    """Stages are 0 to s - 1 afterwards, in the same order; removed features stay removed; twice changes nothing."""
    genes = random_chromosomes(np.random.default_rng(seed), 20, n, k, 0.2)
    closed = compress_chromosomes(genes)
    assert closed.dtype == np.int8
    for before, after in zip(genes.tolist(), closed.tolist(), strict=True):
        order = {stage: i for i, stage in enumerate(sorted({gene for gene in before if gene >= 0}))}
        assert after == [order.get(gene, -1) for gene in before]
    assert np.array_equal(compress_chromosomes(closed), closed)


@given(st.integers(1, 63), st.integers(1, 9), st.integers(0, 2**32))
def test_masks_hold_what_each_stage_knows(n: int, k: int, seed: int) -> None:
    """Up to 63 features; sizes of stages with them."""
    genes = random_chromosomes(np.random.default_rng(seed), 5, n, k, 0.2)
    masks, sizes = make_stage_masks(genes, k), count_stage_features(genes, k)
    for i, row in enumerate(genes.tolist()):
        assert masks[i].tolist() == [sum(1 << f for f, g in enumerate(row) if 0 <= g <= s) for s in range(k)]
        assert sizes[i].tolist() == [row.count(s) for s in range(k)]


@given(st.integers(1, 200), st.integers(0, 2**32))
def test_packing_keeps_every_row(rows: int, seed: int) -> None:
    """Unpacked it is the same; spare bits are 0, so that counting counts rows."""
    flags = np.random.default_rng(seed).random((3, rows)) < 0.5
    packed = pack_bits(flags)
    assert packed.shape == (3, -(-rows // 64))
    assert np.array_equal(unpack_bits(packed, rows), flags)
    assert count_bits(packed).tolist() == flags.sum(axis=1).tolist()


@pytest.mark.parametrize("after_last_stage", ["reject", "answer"])
@pytest.mark.parametrize("seed", first_quick(range(20), 6))
def test_objectives_are_those_of_walking_each_row(seed: int, after_last_stage: str) -> None:
    """Random classifiers of two or three classes; gaps, removed features and both ends; false alarms."""
    rng = np.random.default_rng(seed)
    n, k, rows, classes = int(rng.integers(1, 7)), int(rng.integers(1, 5)), int(rng.integers(1, 150)), 2 + seed % 2
    labels = rng.integers(classes, size=rows)
    threshold = float(rng.choice([0.55, 0.75, 0.95]))
    answer_bank = AnswerCache(answers(n, labels, classes), labels, classes=classes, positive=1)
    costs = random_costs(rng, n)
    genes = random_chromosomes(rng, 40, n, k, 0.2 * (seed % 3))
    answered = after_last_stage == "answer"
    scores = Evaluator(answer_bank, FixedPointCosts.from_costs(costs, rows), threshold, answered)(genes)
    confidence, predicted = answers(n, labels, classes)(np.arange(1 << n, dtype=np.uint64))
    confident, correct = confidence >= np.float32(threshold), predicted == labels
    confident[0] = False
    right_or_quiet = ~((predicted == 1) & (labels != 1))
    for i, row in enumerate(genes.tolist()):
        result = walk(row, confident, correct, fractions(costs.tolist()), answers=answered)
        assert (scores.covered[i], scores.right[i]) == (result.covered, result.right)
        assert scores.coverage[i] == result.covered / rows
        assert scores.accuracy[i] == pytest.approx(float(result.accuracy), abs=1e-15)
        assert scores.cost[i] == pytest.approx(float(result.cost), rel=1e-11)
        quiet = walk(row, confident, right_or_quiet, fractions(costs.tolist()), answers=answered)
        assert scores.alarms is not None
        assert scores.alarms[i] == quiet.covered - quiet.right
        negatives = np.count_nonzero(labels != 1)
        assert scores.false_positive_rate[i] == (scores.alarms[i] / negatives if negatives else 0)


@pytest.mark.parametrize("seed", range(20))
def test_where_the_end_answers_the_exact_front_is_that_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k, rows = int(rng.integers(1, 5)), int(rng.integers(1, 5)), 40
    labels, costs = rng.integers(2, size=rows), random_costs(rng, n)
    evaluate = Evaluator(AnswerCache(answers(n, labels), labels), FixedPointCosts.from_costs(costs, rows), 0.75, True)
    front = search_exactly(evaluate, k, no_progress)
    confidence, predicted = answers(n, labels)(np.arange(1 << n, dtype=np.uint64))
    known = brute_force(confidence >= np.float32(0.75), predicted == labels, costs, k, answers=True)
    assert sorted(map(tuple, front.chromosomes.tolist())) == sorted(known)
    assert front.scores.covered.tolist() == [rows] * len(known)


def test_the_exact_front_and_the_objectives_say_the_same_to_the_last_bit() -> None:
    """Chromosomes of the front, scored, have its numbers."""
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=90)
    answer_bank = AnswerCache(answers(6, labels), labels)
    costs = rng.uniform(1, 2, 6)
    confidence, predicted = answers(6, labels)(np.arange(64, dtype=np.uint64))
    front = find_front(confidence >= 0.75, predicted == labels, costs, 4)
    scores = Evaluator(answer_bank, FixedPointCosts.from_costs(costs, 90), 0.75)(front.chromosomes)
    assert np.array_equal(scores.coverage, front.coverage)
    assert np.array_equal(scores.accuracy, front.accuracy)
    assert np.array_equal(scores.cost, front.cost)


def test_many_configurations_are_scored_in_parts_as_one_by_one() -> None:
    """More than are evaluated at once."""
    rng = np.random.default_rng(6)
    labels = rng.integers(2, size=70)
    evaluate = Evaluator(
        AnswerCache(answers(5, labels), labels, positive=0), FixedPointCosts.from_costs(np.ones(5), 70), 0.75
    )
    genes = random_chromosomes(rng, 5000, 5, 3)
    together = evaluate(genes)
    places = rng.integers(5000, size=20)
    assert np.array_equal(together.take(places).stack_objectives(), evaluate(genes[places]).stack_objectives())
    assert together.stack_objectives().shape == (5000, 4)
    assert len(evaluate(genes[:0]).cost) == 0


def test_norms_take_the_objectives_within_0_and_1() -> None:
    """With inverse cost normalised by the least of these (Eq. 5), and the false-positive rate if there is one."""
    scores = ConfigurationScores(10, np.array([5, 10]), np.array([4, 5]), np.array([2.0, 8.0]))
    assert scores.compute_norms().tolist() == pytest.approx([(0.25 + 0.64 + 1) ** 0.5, (1 + 0.25 + 1 / 16) ** 0.5])
    alarmed = ConfigurationScores(
        10, scores.covered, scores.right, scores.cost, np.array([0, 1]), 4
    )  # not a half, which is what it leaves
    assert alarmed.compute_norms()[1] == pytest.approx((1 + 0.25 + 1 / 16 + 0.75**2) ** 0.5)
    assert compute_inverse_cost(np.array([0.0, 0.0, 3.0])).tolist() == [1.0, 1.0, 0.0]


def test_each_feature_set_is_trained_once_whatever_the_threshold() -> None:
    """Thresholds for all classes and for each; answers do not depend on what was asked before."""
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=40)
    asked: list[int] = []

    def train(masks: UInt64s) -> Answers:
        asked.extend(masks.tolist())
        return answers(4, labels, 3)(masks)

    answer_bank = AnswerCache(train, labels, classes=3)
    confidence, predicted = answers(4, labels, 3)(np.arange(16, dtype=np.uint64))
    thresholds: list[float | NDArray[np.float64]] = [0.5, 0.9, np.array([0.6, 0.9, 0.5]), 0.5]
    for threshold in thresholds:
        masks = rng.permutation(16)[:12].astype(np.uint64)
        votes = answer_bank.get_votes(masks, threshold)
        accepted = confidence >= np.broadcast_to(np.float32(threshold), 3)[predicted]
        accepted[0] = False
        assert np.array_equal(unpack_bits(votes[:, 0], 40), accepted[masks.astype(int)])
        assert np.array_equal(unpack_bits(votes[:, 1], 40), (accepted & (predicted == labels))[masks.astype(int)])
    whole, right = answer_bank.get_lattice(np.arange(4), 0.9)
    assert count_bits(whole)[1:].tolist() == (confidence >= np.float32(0.9)).sum(axis=1)[1:].tolist()
    assert not np.any(right & ~whole)
    assert sorted(asked) == list(range(1, 16))
    assert answer_bank.trained == 15


def test_memory_is_bounded_and_forgetting_changes_no_answer() -> None:
    """Room for ten feature sets: what was asked for last is kept, and one large request is still answered."""
    rng = np.random.default_rng(1)
    labels = rng.integers(2, size=64)
    small = AnswerCache(answers(6, labels), labels, max_bytes=10 * (64 * 5 + 16))
    large = AnswerCache(answers(6, labels), labels)
    for _ in range(60):
        masks = rng.choice(64, size=4, replace=False).astype(np.uint64)
        threshold = float(rng.choice([0.6, 0.9]))
        assert np.array_equal(small.get_votes(masks, threshold), large.get_votes(masks, threshold))
        before = small.trained
        small.get_votes(masks, threshold)
        assert small.trained == before
    assert large.trained < small.trained
    assert np.array_equal(small.get_lattice(np.arange(6), 0.7)[0], large.get_lattice(np.arange(6), 0.7)[0])


def test_wrong_input_to_bank_and_evaluator_is_refused() -> None:
    """Labels, thresholds, answers, chromosomes."""
    labels = np.array([0, 1, 1])
    good = AnswerCache(answers(3, labels), labels)
    one = np.array([1], dtype=np.uint64)
    for wrong in (np.array([0, 2]), np.array([-1, 0]), np.zeros((2, 2), dtype=int), np.zeros(0, dtype=int)):
        with pytest.raises(InvalidRequest, match="labels"):
            AnswerCache(answers(3, labels), wrong)
    with pytest.raises(InvalidRequest, match=r"positive: .*got 2"):
        AnswerCache(answers(3, labels), labels, positive=2)
    for threshold in (1.5, np.nan, np.array([0.5]), np.array([0.5, -0.1])):
        with pytest.raises(InvalidRequest, match="threshold"):
            good.get_votes(one, threshold)
    with pytest.raises(InvalidRequest, match=r"must be \(1, 3\), got \(1, 2\)"):
        AnswerCache(lambda masks: (np.zeros((1, 2)), np.zeros((1, 2), dtype=int)), labels).get_votes(one, 0.5)
    with pytest.raises(InvalidRequest, match="codes must be from 0 to 1"):
        AnswerCache(lambda masks: (np.zeros((1, 3)), np.full((1, 3), 2)), labels).get_votes(one, 0.5)
    for genes in (np.zeros(3, dtype=int), np.zeros((2, 64), dtype=int), np.zeros((2, 3)), np.full((1, 3), 127)):
        with pytest.raises(InvalidRequest, match="chromosomes"):
            check_chromosomes(genes)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="must have 3 features, got 4"):
        Evaluator(good, FixedPointCosts.from_costs(np.ones(3), 3), 0.5)(np.zeros((1, 4), dtype=np.int8))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12), st.integers(1, 5000))
def test_unit_costs_are_whole_and_close_and_sums_stay_exact(costs: list[float], rows: int) -> None:
    """Any costs: whole numbers of units, at most 2^50 for all rows, off by less than 1e-10 of their sum."""
    prices = FixedPointCosts.from_costs(np.array(costs), rows)
    assert np.array_equal(prices.by_feature, np.rint(prices.by_feature))
    assert float(prices.by_feature.sum()) * rows <= 2**50
    assert np.allclose(prices.by_feature / prices.units, costs, rtol=0, atol=1e-10 * sum(costs) + 1e-300)


def test_unit_costs_with_few_decimals_are_exact() -> None:
    """Tenths, and equal costs however small or large; 0.1 + 0.2 is 0.3."""
    prices = FixedPointCosts.from_costs(np.array([0.1, 0.2, 0.3]), 1000)
    assert (prices.by_feature.tolist(), prices.units) == ([1.0, 2.0, 3.0], 10.0)
    for cost in (5e-324, 1e-200, 1 / 3, 1e300, 0.0):
        equal = FixedPointCosts.from_costs(np.full(5, cost), 100)
        assert len(set(equal.by_feature.tolist())) == 1
        assert equal.compute_mean(equal.by_feature * 100, 100).tolist() == pytest.approx(
            [cost] * 5, rel=1e-9, abs=1e-300
        )
