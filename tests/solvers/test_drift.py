"""The sequential test of drift: it hardly ever cries wolf, however often one looks, and notices what is there."""

from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from solvers.drift import (
    FALSE_ALARM,
    SEEN,
    SLACK,
    SLACK_SHARE,
    STAKES,
    TESTS,
    Outcomes,
    compare,
    counted_on,
    drifted,
    margin,
    margin_of_means,
    outcomes_to_see,
    tally,
)


def counted(quantity: str, estimated: NDArray[np.float64], realised: NDArray[np.float64], batch: int) -> bool:
    """Count outcomes in batches, looking after each: whether drift was ever raised."""
    sums: dict[str, float] = {}
    for start in range(0, len(realised), batch):
        outcomes = Outcomes(estimated[start : start + batch], realised[start : start + batch], 2000)
        add(sums, tally(quantity, outcomes))
        if drifted(sums):
            return True
    return False


def add(sums: dict[str, float], more: dict[str, float]) -> None:
    """Add sums up, as the store does."""
    for name, value in more.items():
        sums[name] = sums.get(name, 0.0) + value


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_what_lies_at_the_margin_raises_drift_no_more_often_than_promised(share: float) -> None:
    """At the worst accuracy that counts as no drift, 200 long streams raise it in at most one in a hundred."""
    rng = np.random.default_rng(7)
    estimated = np.full(4000, share)
    worst = share - float(margin(estimated[:1], 2000)[0])
    alarms = sum(counted("accuracy", estimated, (rng.random(4000) < worst).astype(float), 50) for _ in range(200))
    assert alarms <= 200 * FALSE_ALARM


def test_costs_a_tenth_above_their_estimates_are_no_drift() -> None:
    """Skewed costs whose mean is at the margin raise it in at most one in a hundred streams."""
    rng = np.random.default_rng(8)
    estimated, above = rng.uniform(1, 5, 4000), 1 + float(margin_of_means(2000))
    alarms = sum(counted("cost", estimated, above * estimated * rng.exponential(1, 4000), 50) for _ in range(200))
    assert alarms <= 200 * FALSE_ALARM


@pytest.mark.parametrize(("items", "coverage"), [(31, None), (100, 0.1), (400, 0.1), (100, 0.01)])
@pytest.mark.parametrize("true", [0.85, 0.97])
def test_fresh_items_raise_no_drift_over_estimates_that_were_counted_on_few(
    items: int, coverage: float | None, true: float
) -> None:
    """Of 300 builds and 2,000 items like theirs after each, one in a hundred raises any quantity, at most.

    Means are of so many items, accuracies of those that got an answer.
    """
    rng = np.random.default_rng(10)
    answered, alarms = counted_on(items, coverage), 0
    for _ in range(300):
        accuracy = np.full(2000, (rng.random(answered) < true).mean())
        sums = tally("accuracy", Outcomes(accuracy, (rng.random(2000) < true).astype(float), answered))
        for quantity in ("cost", "time"):
            mean = np.full(2000, rng.exponential(1, items).mean())
            sums |= tally(quantity, Outcomes(mean, rng.exponential(1, 2000), items))
        alarms += bool(drifted(sums))
    assert alarms <= 300 * FALSE_ALARM


def test_what_all_tests_together_may_raise_wrongly_adds_up_to_the_rate() -> None:
    """Each test errs where its estimate does, beyond the margin, and where its bet wins in spite of it."""
    beyond_margin = NormalDist().cdf(-float(margin_of_means(10_000) - SLACK_SHARE) * 100)
    n, share = 10_000, np.array([0.5])
    right, farthest = int(n * share[0]), float(share[0] - margin(share, n)[0] + SLACK)
    assert binom.sf(right - 1, n, farthest) == pytest.approx(beyond_margin, rel=1e-3)
    least = brentq(lambda log: len(drifted({f"cost.above.{k}": log for k in range(len(STAKES))})) - 0.5, 0, 20)
    assert len(TESTS) * (beyond_margin + np.exp(-least)) == pytest.approx(FALSE_ALARM, rel=1e-3)


@pytest.mark.parametrize("items", [1, 2, 10, 100])
def test_true_accuracies_lie_beyond_the_margin_as_seldom_as_promised(items: int) -> None:
    """For all that can be counted on so many items, however few, and every true accuracy; on either side."""
    counted = np.arange(items + 1)
    allowed = margin(counted / items, items) - SLACK
    for true in np.linspace(0, 1, 201):
        chance = binom.pmf(counted, items, true)
        for off in (true - counted / items, counted / items - true):
            assert chance[off > allowed + 1e-9].sum() <= FALSE_ALARM / 2 / len(TESTS) + 1e-12


@pytest.mark.parametrize(
    ("quantity", "estimated", "realised"),
    [("accuracy", 0.9, 0.8), ("accuracy", 0.8, 0.95), ("cost", 2.0, 3.0), ("time", 0.001, 0.0015)],
)
def test_what_parts_is_noticed(quantity: str, estimated: float, realised: float) -> None:
    """A tenth of the answers, or half the cost, is noticed within 3,000 outcomes in each of 50 streams."""
    rng = np.random.default_rng(9)
    for _ in range(50):
        if quantity == "accuracy":
            outcomes = (rng.random(3000) < realised).astype(float)
        else:
            outcomes = realised * rng.exponential(1, 3000)
        assert counted(quantity, np.full(3000, estimated), outcomes, 100)


@pytest.mark.parametrize(("estimated", "fall"), [(0.95, 0.05), (0.9, 0.05), (0.9, 0.1), (0.6, 0.1)])
def test_a_fall_is_seen_about_when_it_is_said_to_be(estimated: float, fall: float) -> None:
    """By then in nine of ten streams, give or take their number; by a third of it in less than half of them."""
    rng = np.random.default_rng(11)
    said = outcomes_to_see(fall, estimated, float(margin(np.array([estimated]), 2000)[0]))
    assert said is not None
    streams = (rng.random((200, said)) < estimated - fall).astype(float)
    seen = [counted("accuracy", np.full(said, estimated), stream, -(-said // 30)) for stream in streams]
    early = [counted("accuracy", np.full(said // 3, estimated), stream[: said // 3], said // 30) for stream in streams]
    assert np.mean(seen) >= SEEN - 0.05
    assert np.mean(early) < 0.5


def test_a_fall_within_the_margin_is_never_seen_and_a_larger_one_sooner() -> None:
    """What the estimate itself may be wrong by is no drift, after however many outcomes."""
    allowed = float(margin(np.array([0.9]), 100)[0])
    assert outcomes_to_see(allowed, 0.9, allowed) is None
    times = [outcomes_to_see(fall, 0.9, 0.02) or 0 for fall in (0.05, 0.1, 0.5, 0.9)]
    assert times == sorted(times, reverse=True)
    assert 0 < times[-1] < 20


def test_a_cost_below_its_estimate_and_one_wrong_clock_raise_nothing() -> None:
    """Cheaper is told, not tested; a single absurd time counts for no more than twenty times its estimate."""
    cheaper = tally("cost", Outcomes(np.full(5000, 2.0), np.full(5000, 0.5), 0))
    assert drifted(cheaper) == ()
    times = np.ones(100)
    times[50] = 1e9
    assert drifted(tally("time", Outcomes(np.ones(100), times, 0))) == ()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("above", [True, False])
def test_the_mean_wealth_of_a_fair_bet_is_one(share: float, above: bool) -> None:
    """Over all outcomes of five items whose accuracy lies at the margin, each stake's expected wealth is exactly 1."""
    allowed = float(margin(np.array([share]), 500)[0])
    true = min(share + allowed, 1.0) if above else max(share - allowed, 0.0)
    test = "accuracy.above" if above else "accuracy.below"
    for stake in range(len(STAKES)):
        mean = 0.0
        for outcomes in product([0.0, 1.0], repeat=5):
            chance = float(np.prod([true if right else 1 - true for right in outcomes]))
            sums = tally("accuracy", Outcomes(np.full(5, share), np.array(outcomes), 500))
            mean += chance * np.exp(sums[f"{test}.{stake}"])
        fair = share + allowed <= 1 if above else share - allowed >= 0
        assert mean == pytest.approx(1) if fair else mean <= 1 + 1e-12


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30), st.integers(0, 29))
def test_sums_of_parts_are_the_sums_of_all(pairs: list[tuple[float, bool]], cut: int) -> None:
    """Servers may count any part in any order."""
    estimated, realised = np.array([p for p, _ in pairs]), np.array([float(r) for _, r in pairs])
    sums: dict[str, float] = {}
    for some in (slice(cut, None), slice(0, cut)):
        add(sums, tally("accuracy", Outcomes(estimated[some], realised[some], 300)))
    whole = tally("accuracy", Outcomes(estimated, realised, 300))
    assert sums.keys() == whole.keys()
    assert np.allclose([sums[name] for name in whole], list(whole.values()), rtol=1e-9, atol=1e-9)


@given(st.lists(st.tuples(st.floats(0, 1e100), st.floats(0, 1e100)), min_size=1, max_size=20))
def test_every_sum_is_finite_whatever_costs_are_told(pairs: list[tuple[float, float]]) -> None:
    """No cost, however small or large, makes a sum that the store could not add."""
    estimated, realised = np.array(pairs).T
    sums = tally("cost", Outcomes(estimated, realised, 0))
    assert all(np.isfinite(value) for value in sums.values())


def test_outcomes_without_an_estimate_are_told_and_tested_by_nobody() -> None:
    """Their mean is shown where there is nothing better."""
    sums = tally("accuracy", Outcomes(np.full(1000, np.nan), np.zeros(1000), 100))
    assert drifted(sums) == ()
    compared = compare("accuracy", sums)
    assert (compared.outcomes, compared.estimated, compared.realised) == (1000, None, 0.0)


def test_means_and_bounds_are_those_of_the_outcomes_with_estimates() -> None:
    """Wilson's bounds for shares (95 of 100: 0.888 to 0.978), the normal ones for costs."""
    sums = tally("accuracy", Outcomes(np.full(100, 0.9), np.repeat([1.0, 0.0], [95, 5]), 0))
    compared = compare("accuracy", sums)
    assert (compared.outcomes, compared.realised) == (100, 0.95)
    assert compared.estimated == pytest.approx(0.9)
    assert (round(compared.low or 0, 3), round(compared.high or 0, 3)) == (0.888, 0.978)
    costs = np.arange(1.0, 101.0)
    compared = compare("cost", tally("cost", Outcomes(np.full(100, 50.0), costs, 0)))
    width = 1.959964 * costs.std(ddof=1) / 10
    assert compared.low == pytest.approx(50.5 - width)
    assert compared.high == pytest.approx(50.5 + width)
    assert compare("time", {}).realised is None


def test_the_margin_allows_for_the_items_that_an_accuracy_was_counted_on() -> None:
    """The interval and a point; a point alone where their number is unknown; an estimate of 1 has an error too."""
    assert margin(np.array([0.9]), 900)[0] == pytest.approx(SLACK + 0.9 - 0.8663, abs=1e-3)
    assert margin(np.array([1.0]), 31)[0] == pytest.approx(SLACK + 1 - 0.00125 ** (1 / 31))
    assert margin(np.array([0.9]), 0)[0] == SLACK
    several = margin(np.array([0.9, 1.0, 0.9]), np.array([900.0, 31.0, 0.0]))
    assert several.tolist() == [margin(np.array([a]), n)[0] for a, n in ((0.9, 900), (1.0, 31), (0.9, 0))]
    assert margin_of_means(np.array([100.0, 0.0])) == pytest.approx([SLACK_SHARE + 0.3023, SLACK_SHARE], abs=1e-4)


def test_every_test_has_its_share_of_the_rate() -> None:
    """Exactly enough wealth in one test raises it, a little less does not."""
    enough = np.log(len(TESTS) / (FALSE_ALARM / 2))
    for wealth, raised in ((enough + 1e-9, ("cost",)), (enough - 1e-9, ())):
        assert drifted({f"cost.above.{place}": wealth for place in range(len(STAKES))}) == raised
