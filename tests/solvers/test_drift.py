"""Drift detection, by simulation: false alarms are rare, changes are found soon and at the right place."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from solvers.change_detection import (
    MIN_BLOCK,
    RESOLUTION,
    WINDOW,
    OutcomeBlocks,
    append_outcomes,
    make_empty_blocks,
    scan_blocks,
)
from solvers.drift import (
    FALSE_ALARM_RATE,
    LIKELIHOODS,
    LIMITS,
    DetectedChange,
    Outcomes,
    compare_moments,
    count_answered,
    count_prior_rows,
    count_reference,
    detect_changes,
    estimate_detection_delay,
    reference_mean,
    start_from_dataset,
    sum_moments,
)
from tests.support.cases import first_quick

Values = NDArray[np.float64]
STEP = 20


def blocks_of(values: Values, number: int, promised: Values | float, rows: float) -> OutcomeBlocks:
    """Make one block of the outcomes of many streams; values: (outcomes, streams)."""
    size, streams = values.shape
    sums = [np.broadcast_to(each, (1, streams)) for each in (values.sum(0), (values**2).sum(0))]
    weights = [np.full((1, streams), size) * each for each in (promised, rows)]
    return OutcomeBlocks(np.array([float(size)]), np.array([float(number)]), np.zeros(1), *sums, *weights)


def simulate(
    quantity: str, draw: Any, outcomes: int, *, blocks: OutcomeBlocks, promised: Values | float, rows: float
) -> tuple[OutcomeBlocks, Values, Values]:
    """Run a detector on many streams at once.

    Returns:
        The blocks, when each stream raised its first alarm in outcomes (infinite: never), and its change point.
    """
    start, streams = blocks.size.sum(), blocks.realized.shape[1]
    alarm, first = np.full(streams, np.inf), np.full(streams, np.nan)
    for place in range(0, outcomes, STEP):
        blocks = append_outcomes(blocks, blocks_of(draw((STEP, streams)), int(start) + place, promised, rows))
        for direction, limit in LIMITS[quantity].items():
            scan = scan_blocks(blocks, LIKELIHOODS.get(quantity, "bernoulli"), rising=direction == "above")
            new = (scan.ratio >= limit) & np.isinf(alarm)
            alarm[new], first[new] = place + STEP, blocks.first[scan.cut[new]] - start
    return blocks, alarm, first


def shares(rng: np.random.Generator, share: float) -> Any:
    """Draw outcomes of 0 and 1."""
    return lambda shape: np.asarray(rng.random(shape) < share, dtype=float)


def multiples(rng: np.random.Generator, mean: float, variation: float) -> Any:
    """Draw costs, as multiples of their estimate, of a gamma distribution."""
    return lambda shape: rng.gamma(1 / variation**2, mean * variation**2, shape)


def settled(
    quantity: str, draw: Any, good: int, rows: float, promised: Values | float = 1.0, streams: int = 200
) -> OutcomeBlocks:
    """Give the streams after good outcomes."""
    blocks = make_empty_blocks((streams,))
    for start in range(0, good, 100):
        blocks = append_outcomes(blocks, blocks_of(draw((100, streams)), start, promised, rows))
    return blocks


def count_false_alarms(quantity: str, draw: Any, promised: Values | float) -> float:
    """Measure false alarms per outcome over 4,000,000 outcomes of an unchanged world."""
    streams, length = 400, 10_000
    _, alarm, _ = simulate(quantity, draw, length, blocks=make_empty_blocks((streams,)), promised=promised, rows=1000.0)
    return float(np.isfinite(alarm).sum()) / (streams * length)


@pytest.mark.slow
def test_false_alarms_of_all_detectors_together_are_rarer_than_promised() -> None:
    """At most one in 100,000 outcomes of an unchanged world; promises err as those of 1,000 rows do."""
    rng = np.random.default_rng(1)
    accuracy = count_false_alarms("accuracy", shares(rng, 0.92), rng.binomial(1000, 0.92, 400) / 1000)
    coverage = count_false_alarms("coverage", shares(rng, 0.7), rng.binomial(1000, 0.7, 400) / 1000)
    means = multiples(rng, 1.0, 0.8)((1000, 400)).mean(axis=0)
    cost = count_false_alarms("cost", lambda shape: multiples(rng, 1.0, 0.8)(shape) / means, 1.0)
    assert accuracy + coverage + 2 * cost <= FALSE_ALARM_RATE


@pytest.mark.parametrize(
    ("fall", "good", "median", "ninth"),
    first_quick(
        [(0.1, 500, 300, 500), (0.05, 1000, 1000, 1500)]
        + [(0.1, good, 300, 500) for good in (1000, 2000, 10_000)]
        + [(0.05, good, 1000, 1500) for good in (2000, 10_000)],
        2,
    ),
)
def test_a_fall_of_accuracy_raises_an_alarm_whatever_came_before(
    good: int, fall: float, median: int, ninth: int
) -> None:
    """Within the targets in half and in nine of ten of 200 streams; the change point is found."""
    rng = np.random.default_rng(good)
    rows = float(count_prior_rows(np.array([0.92]), np.array([1000.0]))[0])
    blocks = settled("accuracy", shares(rng, 0.92), good, rows, promised=0.92)
    _, alarm, first = simulate("accuracy", shares(rng, 0.92 - fall), 2000, blocks=blocks, promised=0.92, rows=rows)
    assert np.median(alarm) <= median
    assert np.quantile(alarm, 0.9) <= ninth
    assert abs(np.nanmedian(first)) <= 0.15 * median


@pytest.mark.parametrize("good", [500, 10_000])
def test_a_rise_of_cost_by_a_fifth_raises_an_alarm(good: int) -> None:
    """Within 300 outcomes in half of the streams, where costs vary by half of their mean."""
    rng = np.random.default_rng(good)
    blocks = settled("cost", multiples(rng, 1.0, 0.5), good, 1000.0)
    _, alarm, _ = simulate("cost", multiples(rng, 1.2, 0.5), 1000, blocks=blocks, promised=1.0, rows=1000.0)
    assert np.median(alarm) <= 300


@pytest.mark.parametrize(
    ("good", "rows", "fall"), first_quick([(0, 400, 0.1), (5000, 400, 0.05), (0, 2000, 0.1), (500, 400, 0.1)], 2)
)
def test_the_reported_number_of_outcomes_is_when_nine_in_ten_alarms_come(good: int, rows: int, fall: float) -> None:
    """Within a third of it, also where the promise alone is the reference."""
    rng = np.random.default_rng(rows)
    weight = float(count_prior_rows(np.array([0.92]), np.array([float(rows)]))[0])
    promised = rng.binomial(rows, 0.92, 200) / rows
    blocks = settled("accuracy", shares(rng, 0.92), good, weight, promised=promised)
    reported = estimate_detection_delay(fall, 0.92, good + weight)
    assert reported is not None
    _, alarm, _ = simulate("accuracy", shares(rng, 0.92 - fall), 2500, blocks=blocks, promised=promised, rows=weight)
    assert np.quantile(alarm, 0.9) == pytest.approx(reported, rel=0.35)


def test_a_fall_within_the_uncertainty_of_the_reference_may_stay_undetected() -> None:
    assert estimate_detection_delay(0.02, 0.9, 100.0) is None
    assert estimate_detection_delay(0.05, 0.9, 0.0) is None
    counts = [estimate_detection_delay(fall, 0.9, 2000.0) or 0 for fall in (0.05, 0.1, 0.5, 0.9)]
    assert counts == sorted(counts, reverse=True)
    assert 0 < counts[-1] < 50


def outcomes_of(realized: Values, *, estimated: float, start: int = 0, evidence_rows: float = 1000.0) -> Outcomes:
    """Give the outcomes of one stream."""
    n = len(realized)
    number = np.arange(start + 1.0, start + n + 1)
    return Outcomes(number, number, np.full(n, estimated), realized, np.full(n, evidence_rows))


def test_a_stream_is_judged_alike_however_its_outcomes_are_split_into_requests() -> None:
    """One request of all outcomes and requests of seven find the same change."""
    rng = np.random.default_rng(2)
    realized = np.concatenate([shares(rng, 0.92)(1400), shares(rng, 0.7)(700)])
    _, (whole,) = detect_changes("accuracy", make_empty_blocks(), outcomes_of(realized, estimated=0.92))
    blocks, changes = make_empty_blocks(), list[DetectedChange]()
    for start in range(0, len(realized), 7):
        part = outcomes_of(realized[start : start + 7], estimated=0.92, start=start)
        blocks, found = detect_changes("accuracy", blocks, part)
        changes += found
    assert len(changes) == 1
    for change in (whole, changes[0]):
        assert not change.rises
        assert abs(change.first - 1400) <= 50
        assert change.at == change.first
        assert 1400 < change.detected <= 1700
        assert change.before == pytest.approx(0.92, abs=0.02)
        assert change.after == pytest.approx(0.7, abs=0.1)


def test_the_detector_restarts_after_an_alarm() -> None:
    """The world after the change is the reference: it raises no second alarm, a recovery does."""
    rng = np.random.default_rng(3)
    realized = np.concatenate([shares(rng, share)(3000) for share in (0.9, 0.7, 0.7, 0.9)])
    _, changes = detect_changes("accuracy", make_empty_blocks(), outcomes_of(realized, estimated=0.9))
    assert [change.rises for change in changes] == [False, True]
    assert np.allclose([change.first for change in changes], [3000, 9000], atol=100)


def test_promises_that_differ_between_decisions_are_each_compared_with_their_outcomes() -> None:
    """A mix that shifts from easy to hard decisions is no drift; the same outcomes on easy ones are."""
    rng = np.random.default_rng(4)
    estimated = np.repeat([0.95, 0.75], 1500)
    realized = (rng.random(3000) < estimated).astype(float)
    number = np.arange(1.0, 3001)
    mixed = Outcomes(number, number, estimated, realized, np.full(3000, 1000.0))
    assert detect_changes("accuracy", make_empty_blocks(), mixed)[1] == ()
    assert detect_changes("accuracy", make_empty_blocks(), outcomes_of(realized, estimated=0.95))[1]


def test_a_cost_below_its_estimate_and_one_wrong_clock_raise_no_alarm() -> None:
    assert detect_changes("cost", make_empty_blocks(), outcomes_of(np.full(5000, 0.5), estimated=2.0))[1] == ()
    times = np.ones(500)
    times[250] = 1e9
    assert detect_changes("time", make_empty_blocks(), outcomes_of(times, estimated=1.0))[1] == ()


def test_outcomes_without_an_estimate_are_reported_and_not_tested() -> None:
    blocks, changes = detect_changes("accuracy", make_empty_blocks(), outcomes_of(np.zeros(1000), estimated=np.nan))
    assert (len(blocks.size), changes) == (0, ())
    compared = compare_moments("accuracy", sum_moments("accuracy", np.full(1000, np.nan), np.zeros(1000)))
    assert (compared.outcomes, compared.estimated, compared.actual) == (1000, None, 0.0)


def test_a_stream_takes_few_blocks_that_keep_every_sum() -> None:
    """Of a million outcomes some sixty blocks; none of the last WINDOW outcomes is longer than its age allows."""
    rng, blocks = np.random.default_rng(5), make_empty_blocks((1,))
    total = 0.0
    for start in range(0, 1_000_000, 1000):
        values = shares(rng, 0.9)((1000, 1))
        total += values.sum()
        for part in range(0, 1000, 100):
            blocks = append_outcomes(blocks, blocks_of(values[part : part + 100], start + part, 0.9, 1000.0))
    assert len(blocks.size) < 80
    assert (blocks.size.sum(), blocks.realized.sum()) == (1_000_000, total)
    after = np.cumsum(blocks.size[::-1])[::-1] - blocks.size
    recent = after < WINDOW
    assert (blocks.size[recent] <= np.maximum(after[recent] / RESOLUTION, max(MIN_BLOCK, 100))).all()


@given(st.lists(st.tuples(st.floats(0, 1e100), st.floats(0, 1e100)), min_size=1, max_size=300))
def test_every_sum_is_finite_whatever_costs_come(pairs: list[tuple[float, float]]) -> None:
    """No cost, however small or large, makes a sum or a ratio that is no number."""
    estimated, realized = np.array(pairs).T
    number = np.arange(1.0, len(pairs) + 1)
    outcomes = Outcomes(number, number, estimated, realized, np.zeros(len(pairs)))
    blocks, changes = detect_changes("cost", make_empty_blocks(), outcomes)
    assert all(np.isfinite(getattr(blocks, name)).all() for name in OutcomeBlocks.__slots__)
    assert all(np.isfinite([change.before, change.after]).all() for change in changes)
    assert all(np.isfinite(value) for value in sum_moments("cost", estimated, realized).values())


def test_a_promise_counts_as_the_rows_behind_it_less_its_possible_bias() -> None:
    shares_of = np.array([0.9, 0.9, 0.9, 1.0])
    weights = count_prior_rows(shares_of, np.array([100.0, 1e9, 0.0, 31.0]))
    assert weights == pytest.approx([99, 10_000, 10_000, 30.1], rel=0.01)
    assert (count_answered(400, 0.1), count_answered(400, None), count_answered(0, 0.1)) == (40, 400, 0)


def test_the_reference_is_the_promise_and_the_outcomes_that_came() -> None:
    blocks, _ = detect_changes(
        "accuracy", make_empty_blocks(), outcomes_of(np.tile(np.repeat([1.0, 0.0], [7, 1]), 50), estimated=0.9)
    )
    weight = float(count_prior_rows(np.array([0.9]), np.array([1000.0]))[0])
    assert count_reference(blocks) == pytest.approx(400 + weight)
    assert reference_mean(blocks) == pytest.approx((350 + 0.9 * weight) / (400 + weight))
    seed = start_from_dataset(0.8, 1000)
    assert reference_mean(seed) == pytest.approx(0.8)


def test_means_and_bounds_are_those_of_the_outcomes_with_estimates() -> None:
    """Wilson's bounds for shares (95 of 100: 0.888 to 0.978), the normal ones for costs."""
    compared = compare_moments("accuracy", sum_moments("accuracy", np.full(100, 0.9), np.repeat([1.0, 0.0], [95, 5])))
    assert (compared.outcomes, compared.actual) == (100, 0.95)
    assert compared.estimated == pytest.approx(0.9)
    assert (round(compared.low or 0, 3), round(compared.high or 0, 3)) == (0.888, 0.978)
    costs = np.arange(1.0, 101.0)
    compared = compare_moments("cost", sum_moments("cost", np.full(100, 50.0), costs))
    width = 1.959964 * costs.std(ddof=1) / 10
    assert compared.low == pytest.approx(50.5 - width)
    assert compared.high == pytest.approx(50.5 + width)
    assert compare_moments("time", {}).actual is None
