"""Thresholds, times and replays, each against a plain loop."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from solvers.cascade.deadline_thresholds import find_threshold, measure_execution_times
from solvers.cascade.replay import ReplayRows, replay_cascade
from solvers.statistics import wilson_lower_bound


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (3, 7), (95, 100), (1000, 1000)])
def test_wilson_against_scipy(successes: int, trials: int) -> None:
    """A one-sided level of 0.95 is a two-sided one of 0.9."""
    reference = binomtest(successes, trials).proportion_ci(confidence_level=0.9, method="wilson").low
    ours = wilson_lower_bound(np.array([successes]), np.array([trials]), 0.95)[0]
    assert ours == pytest.approx(reference, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_threshold_against_a_loop_over_every_observed_confidence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    confidences = np.round(rng.random(60), 1 if seed % 2 else 3)
    correct = (rng.random(60) < 0.4 + 0.6 * confidences).astype(np.float64)
    bounds = {
        c: float(
            wilson_lower_bound(np.array([correct[confidences >= c].sum()]), np.array([(confidences >= c).sum()]), 0.9)[
                0
            ]
        )
        for c in set(confidences.tolist())
    }
    enough = [c for c, bound in bounds.items() if bound >= 0.75]
    threshold = find_threshold(confidences, correct, 0.75, 0.9)
    assert threshold.confidence == (min(enough) if enough else None)
    assert threshold.bound == max(bounds.values())


def test_mean_and_worst_of_constant_costs_are_that_constant() -> None:
    for cost in (0.0015, 0.1, 1 / 3):
        assert measure_execution_times(np.full(1001, cost), 1.0) == (cost, cost)
    times = np.array([1.0, 1.0, 1.0, 1.0, 16.0])  # an observed quantile, and not below the mean
    assert [measure_execution_times(times, quantile) for quantile in (1.0, 0.5)] == [(4.0, 16.0), (4.0, 4.0)]


def test_replay_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    rows = ReplayRows(rng.random((50, 4)) < 0.3, (rng.random((50, 4)) < 0.7).astype(float), rng.random((50, 4)))
    cascade, durations, right, by = [2, 0, 3], [], [], []
    for i in range(50):
        spent = []
        for k in cascade:
            spent.append(rows.costs[i, k])
            if rows.answers[i, k] or k == 3:
                break
        durations.append(math.fsum(spent))
        right.append(rows.quality[i, k])
        by.append(k)
    replayed = replay_cascade(rows, cascade, "abcd")
    assert replayed["mean_duration"] == pytest.approx(np.mean(durations))
    assert replayed["maximum_duration"] == pytest.approx(max(durations))
    assert replayed["accuracy"] == np.mean(right)
    assert replayed["answered"] == {"abcd"[k]: by.count(k) / 50 for k in cascade}
