"""Sequential tests: error rates under continuous looks, power, and pairs."""

import math

import numpy as np
import pytest

from models.arrays import Floats
from solvers.base import make_generator
from solvers.sequential_tests import (
    BETS,
    MAX_BLOCKS,
    ConfidenceSequence,
    Hypothesis,
    SequentialTest,
    VersionOutcomes,
    log_evidence,
    make_extra_cost_null,
    make_inferiority_null,
    make_noninferiority_null,
    make_savings_null,
    pair_outcomes,
    place_bets,
)
from tests.support.cases import first_quick

ERROR_RATE = 0.05


def ever_rejected(hypothesis: Hypothesis, active: Floats, candidate: Floats) -> Floats:
    """Return which simulations, one per row, ever reject the hypothesis when they look after every pair."""
    wealth, peak = np.zeros((len(active), BETS)), np.zeros(len(active))
    for k in range(active.shape[1]):
        wealth = place_bets(wealth, hypothesis.score_pairs(active[:, k], candidate[:, k]), hypothesis.bets)
        peak = np.maximum(peak, log_evidence(wealth))
    return np.asarray(peak >= -math.log(ERROR_RATE))


def draw_pairs(seed: int, runs: int, pairs: int, rates: tuple[float, float], block: int = 9) -> tuple[Floats, Floats]:
    rng = make_generator(seed)
    active = rng.binomial(block, rates[0], (runs, pairs)) / block
    return active, (rng.random((runs, pairs)) < rates[1]).astype(float)


def check_false_promotions(runs: int, pairs: int) -> None:
    """On the boundary of each hypothesis the share of simulations that ever reject it is at most 5 %."""
    at_bounds = [
        (make_noninferiority_null(0.01), (0.9, 0.89)),
        (make_noninferiority_null(0.05), (0.6, 0.55)),
        (make_noninferiority_null(0.0), (0.97, 0.97)),
        (make_inferiority_null(0.01), (0.8, 0.79)),
        (make_savings_null(0.2), (0.5, 0.4)),
        (make_extra_cost_null(0.1), (0.4, 0.44)),
    ]
    for seed, (hypothesis, rates) in enumerate(at_bounds):
        rejected = ever_rejected(hypothesis, *draw_pairs(seed, runs, pairs, rates))
        assert rejected.mean() <= ERROR_RATE + 3 * math.sqrt(ERROR_RATE / runs), hypothesis


def test_false_promotions_are_rare_in_1000_simulated_rollouts() -> None:
    check_false_promotions(1000, 400)


@pytest.mark.slow
def test_false_promotions_are_rare_in_10000_simulated_rollouts() -> None:
    check_false_promotions(10_000, 2000)


@pytest.mark.parametrize(
    ("hypothesis", "rates"),
    [
        (make_noninferiority_null(0.02), (0.8, 0.9)),
        (make_inferiority_null(0.01), (0.9, 0.75)),
        (make_savings_null(0.1), (0.6, 0.3)),
        (make_extra_cost_null(0.1), (0.3, 0.5)),
    ],
)
def test_clear_differences_are_found(hypothesis: Hypothesis, rates: tuple[float, float]) -> None:
    assert ever_rejected(hypothesis, *draw_pairs(7, 200, 500, rates)).mean() >= 0.95


def test_the_state_of_a_test_equals_the_simulation() -> None:
    hypothesis, test = make_noninferiority_null(0.02), SequentialTest()
    active, candidate = draw_pairs(3, 1, 200, (0.8, 0.85))
    wealth = np.zeros((1, BETS))
    for k in range(200):
        test.observe_pair(hypothesis, active[0, k], candidate[0, k])
        wealth = place_bets(wealth, hypothesis.score_pairs(active[:, k], candidate[:, k]), hypothesis.bets)
    np.testing.assert_allclose(test.log_wealth, wealth[0], rtol=1e-12)
    assert test.evidence == pytest.approx(math.exp(log_evidence(wealth)[0]))
    assert test.peak >= math.log(test.evidence)


@pytest.mark.parametrize(
    "hypothesis",
    [
        make_noninferiority_null(0.0),
        make_noninferiority_null(1.0),
        make_inferiority_null(0.0),
        make_inferiority_null(0.5),
        make_savings_null(0.0),
        make_savings_null(0.99),
        make_extra_cost_null(3.0),
    ],
)
def test_wealth_stays_positive_at_the_worst_outcomes(hypothesis: Hypothesis) -> None:
    corners = np.array([[a, c] for a in (0.0, 1.0) for c in (0.0, 1.0)])
    scores = hypothesis.score_pairs(*corners.T)
    assert np.isfinite(place_bets(np.zeros((4, BETS)), scores, hypothesis.bets)).all()


def test_confidence_sequences_cover_at_all_times() -> None:
    missed = 0
    for seed in range(200):
        values, sequence = (make_generator(seed).random(400) < 0.3).astype(float), ConfidenceSequence()
        covers = True
        for value in values:
            sequence.observe_value(value, ERROR_RATE)
            low, high = sequence.find_interval(ERROR_RATE)
            covers &= low <= 0.3 <= high
        missed += not covers
        assert high - low < 0.25
    assert missed <= 10


def test_blocks_are_paired_in_any_order_of_arrival() -> None:
    rng = make_generator(5)
    values = {False: rng.random(90), True: rng.random(10)}
    outcomes = [(is_candidate, float(value)) for is_candidate in (False, True) for value in values[is_candidate]]
    mixed = [outcomes[k] for k in sorted(range(100), key=lambda k: (k % 90) * (1 if k < 90 else 9))]
    active, candidate = VersionOutcomes(), VersionOutcomes()
    pairs = list(pair_outcomes(active, candidate, outcomes, 0.1))
    np.testing.assert_allclose(pairs, np.column_stack((values[False].reshape(10, 9).mean(axis=1), values[True])))
    np.testing.assert_allclose(list(pair_outcomes(VersionOutcomes(), VersionOutcomes(), mixed, 0.1)), pairs)
    assert (active.count, candidate.count, active.blocks, candidate.blocks) == (90, 10, [], [])
    assert candidate.total == pytest.approx(values[True].sum())


def test_the_oldest_blocks_go_if_the_other_arm_has_no_outcomes() -> None:
    active, candidate = VersionOutcomes(), VersionOutcomes()
    assert list(pair_outcomes(active, candidate, [(False, k / 2000) for k in range(1500)], 0.5)) == []
    oldest = (1500 - MAX_BLOCKS) / 2000
    assert (len(active.blocks), active.blocks[0]) == (MAX_BLOCKS, oldest)
    assert list(pair_outcomes(active, candidate, [(True, 1.0)], 0.5)) == [(oldest, 1.0)]


@pytest.mark.parametrize(("share", "reported"), first_quick([(0.1, 0.8), (0.3, 1.0), (0.5, 1.0)]))
def test_a_change_of_the_world_promotes_no_worse_candidate(share: float, reported: float) -> None:
    """Both arms improve at once, in the middle, and the candidate stays at the bound of its loss.

    reported: share of the candidate's outcomes that arrive.
    """
    rejected = 0
    for seed in range(40):
        rng, test, arms = make_generator(seed), SequentialTest(), (VersionOutcomes(), VersionOutcomes())
        is_candidate = rng.random(4000) < share
        chances = np.repeat([0.65, 0.85], 2000) - 0.01 * is_candidate
        values, arrives = rng.random(4000) < chances, ~is_candidate | (rng.random(4000) < reported)
        outcomes = list(zip(is_candidate[arrives].tolist(), values[arrives].astype(float).tolist(), strict=True))
        for some in np.array_split(np.arange(len(outcomes)), 800):
            for active, candidate in pair_outcomes(*arms, [outcomes[k] for k in some], share):
                test.observe_pair(make_noninferiority_null(0.01), active, candidate)
        rejected += test.is_rejected(ERROR_RATE)
    assert rejected <= 6


@pytest.mark.parametrize(("share", "sizes"), [(0.01, (99, 1)), (0.1, (9, 1)), (0.5, (1, 1)), (0.9, (1, 9))])
def test_blocks_have_the_sizes_of_the_shares(share: float, sizes: tuple[int, int]) -> None:
    outcomes = [(False, 1.0)] * sizes[0] + [(True, 0.0)] * sizes[1]
    assert list(pair_outcomes(VersionOutcomes(), VersionOutcomes(), outcomes, share)) == [(1.0, 0.0)]
    assert list(pair_outcomes(VersionOutcomes(), VersionOutcomes(), outcomes[1:], share)) == []


def test_a_hypothesis_is_rejected_once_the_evidence_is_one_over_the_error_rate() -> None:
    test = SequentialTest()
    for peak, is_rejected in ((math.log(20) - 1e-9, False), (math.log(20) + 1e-9, True)):
        test.peak = peak
        assert test.is_rejected(ERROR_RATE) == is_rejected
