"""The yardstick: hulls of simple alternatives against brute force, intervals that cover, verdicts that come true."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.arrays import Floats
from models.savings import Interval, format_share
from solvers.savings import (
    AS_LOGGED,
    BaselineReplays,
    Replay,
    best_mixture_accuracies,
    cheapest_mixture_costs,
    choose_default_setting,
    measure_savings,
)

shares = st.integers(0, 20).map(lambda k: k / 20)
amounts = st.integers(0, 12).map(float)


def _alternatives(names: tuple[str, ...], right: Floats, costs: Floats) -> BaselineReplays:
    return BaselineReplays(names, right, costs, np.arange(len(right)))


@st.composite
def _compared(draw: st.DrawFn) -> tuple[Floats, Floats, float, float]:
    count = draw(st.integers(1, 6))
    each = st.lists(shares, min_size=count, max_size=count)
    costs = draw(st.lists(amounts, min_size=count, max_size=count))
    return np.array(draw(each)), np.array(costs), draw(shares), draw(amounts)


def _coins(accuracies: Floats, costs: Floats) -> list[tuple[float, float]]:
    """Every alternative, and every coin between two in steps of a thousandth."""
    pairs = product(range(len(costs)), repeat=2)
    steps = np.linspace(0, 1, 1001)[:, None]
    points = [steps * (accuracies[j], costs[j]) + (1 - steps) * (accuracies[i], costs[i]) for i, j in pairs]
    return [(float(a), float(c)) for a, c in np.concatenate(points)]


@given(_compared())
def test_costs_and_accuracies_of_coins_are_those_of_all_coins(case: tuple[Floats, Floats, float, float]) -> None:
    accuracies, costs, wanted, within = case
    coins = _coins(accuracies, costs)
    least = float(cheapest_mixture_costs(accuracies[None], costs[None], np.array([wanted]))[0])
    most = float(best_mixture_accuracies(accuracies[None], costs[None], np.array([within]))[0])
    reaching = [cost for accuracy, cost in coins if accuracy >= wanted - 1e-12]
    affordable = [accuracy for accuracy, cost in coins if cost <= within + 1e-12]
    best = [cost for accuracy, cost in zip(accuracies, costs, strict=True) if accuracy == accuracies.max()]
    cheapest = [accuracy for accuracy, cost in zip(accuracies, costs, strict=True) if cost == costs.min()]
    assert least == pytest.approx(min(reaching, default=min(best)), abs=0.02)
    assert most == pytest.approx(max(affordable, default=max(cheapest)), abs=0.02)
    assert least <= min(reaching, default=min(best)) + 1e-9
    assert most >= max(affordable, default=max(cheapest)) - 1e-9


def _rows(rng: np.random.Generator, n: int) -> tuple[Replay, BaselineReplays]:
    """Items that are easy or hard: ``small`` is right about the easy ones, ``large`` about nearly all; a plan sends the
    hard ones to ``large``, told by a signal that is right seven times of eight."""
    hard = rng.random(n) < 0.3
    small = np.where(hard, rng.random(n) < 0.3, rng.random(n) < 0.96)
    large = rng.random(n) < 0.95
    looks_hard = np.where(rng.random(n) < 0.875, hard, ~hard)
    right, costs = np.column_stack((small, large)).astype(float), np.tile((1.0, 10.0), (n, 1))
    plan = np.where(looks_hard, right[:, 1], right[:, 0]), np.where(looks_hard, 10.0, 1.0)
    return Replay(*plan), _alternatives(("always small", "always large"), right, costs)


def _holds(interval: Interval | None, value: float) -> bool:
    assert interval is not None
    return interval[0] <= value <= interval[1]


@pytest.mark.slow
def test_intervals_of_what_is_saved_and_gained_cover_the_truth() -> None:
    """Of 300 samples of 400 rows about 95 % hold the figure of a million rows."""
    everything, alternatives = _rows(np.random.default_rng(0), 1_000_000)
    means = alternatives.right.mean(axis=0)[None], alternatives.costs.mean(axis=0)[None]
    accuracy, cost = everything.right.mean(keepdims=True), everything.costs.mean(keepdims=True)
    saved = 1 - float(cost[0] / cheapest_mixture_costs(*means, accuracy)[0])
    gained = float(accuracy[0] - best_mixture_accuracies(*means, cost)[0])
    held = np.zeros(2)
    for seed in range(300):
        rng = np.random.default_rng(seed + 1)
        savings = measure_savings("", *_rows(rng, 400), rng)
        held += _holds(savings.saved_interval, saved), _holds(savings.gained_interval, gained)
    assert np.all(np.abs(held / 300 - 0.95) <= 0.03), held


def test_a_plan_that_saves_says_beside_what_and_by_how_much() -> None:
    rng = np.random.default_rng(3)
    savings = measure_savings("a deadline of 9 ms", *_rows(rng, 4000), rng)
    assert (savings.verdict, savings.has_savings) == ("significant", True)
    assert savings.baseline.kind == "random_mixture"
    assert re.fullmatch(r"a random mixture \(\d+ % always large, else always small\)", savings.baseline.name)
    assert savings.baseline.accuracy == pytest.approx(savings.accuracy)
    assert savings.saved == pytest.approx(1 - savings.cost / savings.baseline.cost)
    for figure in (format_share(savings.saved, savings.saved_interval), "4,000"):
        assert figure in savings.headline
    assert savings.advice is None
    assert [one.name for one in savings.baselines] == ["always small", "always large"]


def test_a_plan_that_is_one_of_the_alternatives_saves_nothing() -> None:
    rng = np.random.default_rng(4)
    _, alternatives = _rows(rng, 500)
    savings = measure_savings("", Replay(alternatives.right[:, 1], alternatives.costs[:, 1]), alternatives, rng)
    assert (savings.verdict, savings.baseline.kind, savings.baseline.name) == (
        "not significant",
        "single",
        "always large",
    )
    assert (savings.saved, savings.gained) == (0.0, 0.0)
    assert "always large" in str(savings.advice)


def test_a_plan_that_an_alternative_beats_says_which_and_by_how_much() -> None:
    rng = np.random.default_rng(5)
    _, alternatives = _rows(rng, 500)
    savings = measure_savings("", Replay(alternatives.right[:, 0], np.full(500, 5.0)), alternatives, rng)
    assert (savings.verdict, savings.baseline.name) == ("worse", "always small")
    assert "5 times" in savings.headline
    assert "always small" in str(savings.advice)


def test_of_alternatives_that_cost_the_same_the_most_accurate_stands_beside() -> None:
    rng = np.random.default_rng(9)
    free = _alternatives(("a", "b"), (rng.random((400, 2)) < (0.5, 0.7)).astype(float), np.zeros((400, 2)))
    savings = measure_savings("", Replay((rng.random(400) < 0.4).astype(float), np.zeros(400)), free, rng)
    assert (savings.verdict, savings.baseline.name) == ("worse", "b")


def test_a_saving_that_costs_accuracy_says_so() -> None:
    rng = np.random.default_rng(10)
    hard = rng.random(2000) < 0.5
    right = np.column_stack((~hard, np.ones(2000))).astype(float)
    every = _alternatives(("always small", "always large"), right, np.tile((1.0, 100.0), (2000, 1)))
    savings = measure_savings(
        "", Replay((~hard | (rng.random(2000) < 0.5)).astype(float), np.full(2000, 5.0)), every, rng
    )
    assert (savings.verdict, savings.has_savings) == ("significant", True)
    assert f"{savings.accuracy:.1%} correct; always large is 100.0%" in savings.headline


def test_a_plan_may_gain_where_all_costs_nothing() -> None:
    rng = np.random.default_rng(6)
    free = _alternatives(("always a", "always b"), (rng.random((600, 2)) < 0.6).astype(float), np.zeros((600, 2)))
    savings = measure_savings("", Replay(np.ones(600), np.zeros(600)), free, rng)
    assert (savings.verdict, savings.saved) == ("significant", None)
    assert savings.gained_interval[0] > 0.3


def test_the_order_of_rows_and_of_alternatives_does_not_matter() -> None:
    plan, alternatives = _rows(np.random.default_rng(7), 300)
    order = np.random.default_rng(8).permutation(300)
    turned = _alternatives(alternatives.names[::-1], alternatives.right[order, ::-1], alternatives.costs[order, ::-1])
    one = measure_savings("", plan, alternatives, np.random.default_rng(0))
    other = measure_savings("", plan.take(order), turned, np.random.default_rng(0))
    assert one.baselines == other.baselines
    assert (one.baseline, one.verdict) == (other.baseline, other.verdict)
    assert one.saved == pytest.approx(other.saved)
    assert one.gained == pytest.approx(other.gained)
    assert one.gained_interval == pytest.approx(other.gained_interval, abs=0.01)


def test_an_error_of_the_cost_widens_the_intervals() -> None:
    plan, alternatives = _rows(np.random.default_rng(7), 300)
    known = replace(alternatives, today=alternatives.names[0])
    exact, uncertain = (
        measure_savings("", plan, known, np.random.default_rng(0), cost_error=error) for error in (0.0, 0.2)
    )
    assert (exact.saved, exact.cost) == (uncertain.saved, uncertain.cost)
    assert exact.today is not None
    assert uncertain.today is not None
    assert exact.today.saved_interval is not None
    assert uncertain.today.saved_interval is not None
    today = alternatives.costs[:, 0].mean()
    spread = [(one[1] - one[0]) / (2 * 1.96) for one in (exact.today.saved_interval, uncertain.today.saved_interval)]
    assert spread[1] == pytest.approx(np.hypot(spread[0], 0.2 / today), rel=0.15)


@pytest.mark.slow
def test_the_gain_over_today_has_an_interval_that_covers() -> None:
    covered = []
    for seed in range(200):
        right = (np.random.default_rng(seed).random((400, 2)) < (0.8, 0.75)).astype(float)
        known = replace(_alternatives(("always a",), right[:, 1:], np.ones((400, 1))), today="always a")
        today = measure_savings("", Replay(right[:, 0], np.ones(400)), known, np.random.default_rng(seed)).today
        assert today is not None
        assert today.gained_interval is not None
        assert today.gained == pytest.approx(right[:, 0].mean() - right[:, 1].mean(), abs=0.005)
        covered.append(today.gained_interval[0] <= 0.05 <= today.gained_interval[1])
    assert 0.91 <= np.mean(covered) <= 0.99


def test_a_headline_speaks_of_the_cheapest_point_that_is_nearly_as_accurate_as_any_alternative() -> None:
    alternatives = _alternatives(("always a",), np.array([[1.0]] * 90 + [[0.0]] * 10), np.full((100, 1), 8.0))
    points = [
        Replay(np.repeat((1.0, 0.0), (right, 100 - right)), np.full(100, cost))
        for right, cost in ((80, 1.0), (89, 3.0), (95, 6.0))
    ]
    assert choose_default_setting(points, alternatives) == 1
    assert choose_default_setting(points[:1], alternatives) == 0
    logged = np.repeat((1.0, 0.0), (80, 20))[:, None]
    known = _alternatives(("always a", AS_LOGGED), np.hstack((alternatives.right, logged)), np.full((100, 2), 8.0))
    assert choose_default_setting(points, replace(known, today=AS_LOGGED)) == 0
    assert choose_default_setting(points[1:], replace(known, today=AS_LOGGED)) == 0
    assert (
        choose_default_setting([points[2], points[0]], replace(known, right=known.right + 0.005, today=AS_LOGGED)) == 0
    )


def test_a_plan_that_costs_more_for_nothing_that_can_be_shown_is_said_to_be_worse() -> None:
    """Also where it may be a little more accurate: what it costs is sure."""
    rng = np.random.default_rng(1)
    right = (rng.random(400) < 0.9).astype(float)
    own = right.copy()
    own[np.flatnonzero(own == 0)[:1]] = 1.0
    plan = Replay(own, np.full(400, 3.0))
    savings = measure_savings("a plan", plan, _alternatives(("always small",), right[:, None], np.ones((400, 1))), rng)
    assert savings.verdict == "worse"
    assert "3 times" in savings.headline
    free = measure_savings("a plan", plan, _alternatives(("nothing",), right[:, None], np.zeros((400, 1))), rng)
    assert free.verdict == "worse"


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_that_is_an_alternative_is_never_worse_by_rounding(seed: int) -> None:
    """Sums of the same rows differ in their last digits."""
    rng = np.random.default_rng(seed)
    right, costs = (rng.random(360) < 0.98).astype(float), 1.5 + 0.3 * rng.random(360)
    same = Replay(right, costs)
    rivals = BaselineReplays.from_replays(
        {"always a": same, "always b": Replay((rng.random(360) < 0.7).astype(float), costs / 3)}, np.arange(360)
    )
    savings = measure_savings("it", same, rivals, rng)
    assert savings.verdict == "not significant"
    assert "always a" in str(savings.advice)
