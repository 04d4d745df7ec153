"""Off-policy estimates are held against worlds whose truth is known."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from models.arrays import Floats
from solvers.off_policy import (
    DecisionRule,
    RuleScores,
    estimate_difference,
    estimate_mean,
    estimate_snips,
    joint_propensities,
    make_single_call_rule,
    measure_overlap,
    score_rules,
)
from solvers.partial_traces import FAST_KINDS, CrossFittedRegressions
from solvers.statistics import effective_sample_size, wilson_interval
from tests.support.cases import first_quick
from tests.support.logged_worlds import Draw, LoggedWorld, measure_truth

WORLDS = {
    "good overlap": LoggedWorld(floor=0.25),
    "dependent logging": LoggedWorld(dependence=2, floor=0.05),
    "logged seldom": LoggedWorld(dependence=-3, floor=0.04),
    "unknown propensities": LoggedWorld(dependence=1.5, floor=0.08, has_propensities=False),
    "independent calls": LoggedWorld(threshold=0.75, joint="independent", floor=0.25),
    "explored at once": LoggedWorld(threshold=0.75, joint="at_once", floor=0.15),
    "nested calls": LoggedWorld(threshold=0.75, joint="nested", floor=0.15),
    "repeated items": LoggedWorld(dependence=1, floor=0.15, repeats=4),
}


def scored(draw: Draw) -> tuple[DecisionRule, RuleScores]:
    trace = draw.trace()
    rule = draw.rule(trace)
    return rule, score_rules(trace, [rule])[0]


def covered(world: LoggedWorld, runs: int, rows: int) -> dict[str, float]:
    """Return the share of runs whose intervals hold the truth, by estimate."""
    accuracy, cost = measure_truth(world)
    hits: dict[str, list[bool]] = {}
    for seed in range(runs):
        draw = world.draw(seed, rows)
        rule, scores = scored(draw)
        if not measure_overlap(rule, scores, draw.items).is_sufficient:
            continue
        for name, aim, values, known in (
            ("accuracy", accuracy, scores.quality, rule.quality),
            ("cost", cost, scores.costs, rule.costs),
        ):
            is_share = name == "accuracy"
            for method, one in (
                ("dr", estimate_mean(values, scores.weights, draw.items, is_share=is_share)),
                ("snips", estimate_snips(known, scores.weights, draw.items, is_share=is_share)),
            ):
                hits.setdefault(f"{method} {name}", []).append(one.interval[0] <= aim <= one.interval[1])
    assert min(map(len, hits.values())) >= 0.98 * runs
    return {name: float(np.mean(each)) for name, each in hits.items()}


@pytest.mark.parametrize("name", first_quick(["explored at once", "good overlap"]))
def test_intervals_hold_the_truth_in_most_of_sixty_runs(name: str) -> None:
    found = covered(WORLDS[name], 60, 400)
    assert min(found.values()) >= 0.85, found


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_hold_the_truth_in_95_percent_of_runs(name: str) -> None:
    """In two worlds within two points of 500 runs, in the others within two standard deviations of 150."""
    runs, tolerance = (500, 0.02) if name in ("dependent logging", "nested calls") else (150, 0.0356)
    found = covered(WORLDS[name], runs, 1000)
    assert found["dr accuracy"] == pytest.approx(0.95, abs=tolerance)
    assert found["dr cost"] == pytest.approx(0.95, abs=tolerance)


def test_complete_rows_are_replayed() -> None:
    draw = LoggedWorld().draw(0, 200)
    draw = replace(draw, called=np.ones_like(draw.called))
    rule, scores = scored(draw)
    assert scores.is_replayed
    np.testing.assert_array_equal(scores.quality, rule.quality)
    one = estimate_mean(scores.quality, scores.weights, draw.items, is_share=True)
    assert one.value == pytest.approx(rule.quality.mean())
    assert one.effective_rows == 200


def test_differences_of_paired_rows_are_closer_than_those_of_unpaired_ones() -> None:
    draw = LoggedWorld(floor=0.25).draw(1, 1000)
    trace = draw.trace()
    rule = draw.rule(trace)
    almost = make_single_call_rule(trace, np.where(draw.embeddings[:, 0] < 0.6, 0, 2))
    own, other = score_rules(trace, [rule, almost])
    value, (low, high) = estimate_difference(own.quality, other.quality, draw.items, 100.0)
    separate = [estimate_mean(each.quality, each.weights, draw.items, is_share=True) for each in (own, other)]
    assert low <= value <= high
    assert value == pytest.approx(separate[0].value - separate[1].value)
    assert high - low < 0.6 * sum(one.interval[1] - one.interval[0] for one in separate)


def never_for_easy_items(draw: Draw) -> Draw:
    easy = draw.embeddings[:, :1] < 0.38
    return replace(draw, called=np.where(easy, [False, True, False], draw.called))


def hardly_ever(draw: Draw) -> Draw:
    late = np.arange(len(draw.called))[:, None] >= 20
    return replace(draw, called=np.where(late, [False, True, False], draw.called))


@pytest.mark.parametrize("change", [never_for_easy_items, hardly_ever])
def test_rows_that_do_not_support_a_rule_are_refused(change: Callable[[Draw], Draw]) -> None:
    draw = change(LoggedWorld(floor=0.25).draw(2, 1000))
    rule, scores = scored(draw)
    overlap = measure_overlap(rule, scores, draw.items)
    assert not overlap.is_sufficient
    assert overlap.supported_rows == rule.supported.sum()
    assert overlap.covered < 0.8


def test_joint_propensities_follow_how_calls_depend_on_each_other() -> None:
    explored = LoggedWorld(threshold=0.75, joint="at_once", floor=0.15).draw(0, 300)
    explored.called[np.flatnonzero(explored.called[:, 1])[0], 1] = False  # this call failed
    rule, joint = joints(explored)
    np.testing.assert_allclose(joint[rule.supported & rule.paths[:, 2]], 0.15)
    independent = LoggedWorld(threshold=0.75, joint="independent", floor=0.15).draw(0, 300)
    product = independent.propensities[:, 0] * independent.propensities[:, 2]
    rule, joint = joints(independent)
    both = rule.supported & rule.paths[:, 2]
    np.testing.assert_allclose(joint[both], product[both])


def test_the_joint_propensity_of_nested_calls_is_the_smallest() -> None:
    draw = LoggedWorld(joint="nested", floor=0.25).draw(0, 300)
    trace = draw.trace()
    paths = np.tile([False, True, True], (300, 1))
    supported = np.asarray((trace.called | ~paths).all(axis=1))
    unknown = np.full(300, np.nan)
    rule = DecisionRule(paths=paths, supported=supported, quality=unknown, costs=unknown)
    (joint,) = joint_propensities(trace, [rule], CrossFittedRegressions.from_trace(trace, 0, FAST_KINDS))
    np.testing.assert_allclose(joint[supported], 0.25)
    assert (supported / np.where(supported, joint, 1.0)).mean() == pytest.approx(1, abs=0.3)


def joints(draw: Draw) -> tuple[DecisionRule, Floats]:
    trace = draw.trace()
    rule = draw.rule(trace)
    return rule, joint_propensities(trace, [rule], CrossFittedRegressions.from_trace(trace, 0, FAST_KINDS))[0]


def test_rows_of_one_item_count_together() -> None:
    assert effective_sample_size(np.ones(8), np.repeat(np.arange(2), 4)) == pytest.approx(2)
    assert effective_sample_size(np.array([1.0, 0.0, 3.0]), np.arange(3)) == pytest.approx(1.6)


def test_a_share_of_rows_of_equal_weight_has_wilsons_interval() -> None:
    """It adds half an error, and takes a quantile of t: both are small at 400 rows."""
    right = np.repeat([1.0, 0.0], [320, 80])
    estimate = estimate_mean(right, np.ones(400), np.arange(400), is_share=True)
    assert estimate.interval == pytest.approx(wilson_interval(0.8, 400), abs=0.002)
    assert estimate.effective_rows == pytest.approx(400)
