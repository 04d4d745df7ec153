"""The frontier of cost, error and worst-case time: exact where it says so, and true of rows that it has not seen."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import InvalidRequest, Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Int64s
from models.cascade import CascadeOptions, CascadeQuery
from models.errors import Infeasible
from solvers.base import BuildContext, make_generator
from solvers.cascade import CascadePlan, fit, kind
from solvers.cascade.frontier.acceptance_levels import AcceptanceProgram, choose_levels, choose_prices, find_candidates
from solvers.cascade.frontier.calibration import CalibratedConfidences, calibrate_confidences
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.frontier.search import compute_complexity_penalty, search_frontier, select_cascades
from solvers.cascade.frontier.separate_thresholds import RankedRows
from solvers.cascade.setting_replays import replay_frontier
from tests.support.replays import COSTS, NAMES, World
from tests.support.strategies import random_trace

BUDGETS = (1.0, 2.0, 3.0, 6.0, 8.0, 10.0)
"""Budgets of the comparison with single classifiers: the prices of these, and some between."""


def unlabeled(confidences: Floats) -> Int64s:
    return np.full(confidences.shape, -1, dtype=np.int64)


def calibrate(confidences: Floats, quality: Floats, items: Int64s) -> CalibratedConfidences:
    return calibrate_confidences(confidences, quality, items, unlabeled(confidences), 0)


def random_rows(seed: int, count: int, n: int, *, measured: bool = False) -> CalibratedRows:
    """Draw rows on which dearer classifiers are right more often, and surer of it."""
    rng = np.random.default_rng(seed)
    skill = np.sort(rng.uniform(0.4, 0.95, n))
    chances = np.clip(skill + 0.25 * rng.normal(size=(count, n)), 0.01, 0.99).round(2)
    wrong = (rng.random((count, n)) > chances).astype(np.float64)
    costs = np.tile(np.sort(rng.uniform(1, 20, n)), (count, 1))
    costs *= 1 + 0.5 * rng.random(costs.shape) * measured
    return CalibratedRows(
        chances, wrong, costs, costs.max(axis=0), np.ones(n, dtype=bool), np.arange(count), unlabeled(chances)
    )


def all_cascades(n: int, level: float) -> list[ThresholdCascade]:
    orders = [order for size in range(1, n + 1) for order in permutations(range(n), size)]
    return [ThresholdCascade(order, (level,) * (len(order) - 1)) for order in orders]


@pytest.mark.parametrize("seed", range(60))
def test_one_level_is_exact_over_all_subsets_orders_and_last_classifiers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    rows = random_rows(seed, int(rng.integers(3, 40)), n, measured=bool(seed % 2))
    level, prices = float(rng.uniform(0.3, 1.0)), np.geomspace(1e-3, 1.0, 5)
    programme = AcceptanceProgram.from_rows(rows, rows.confidences >= level)
    value, _ = programme.solve_values(prices)
    for i, price in enumerate(prices.tolist()):
        completed = programme.add_last(value[:, i], price).min()
        every = [np.dot(rows.mean_outcome(one), (price, 1.0)) for one in all_cascades(n, level)]
        assert completed == pytest.approx(min(every), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_what_a_level_finds_is_the_best_that_any_order_of_it_reaches_for_every_price(seed: int) -> None:
    rows = random_rows(seed, 40, 3)
    prices = choose_prices(rows, 7)
    means = [np.array(rows.mean_outcome(one)) for one in find_candidates(rows, prices)]
    every = [np.array(rows.mean_outcome(one)) for level in choose_levels(rows) for one in all_cascades(3, level)]
    for scale in (1e-6, 1e6):
        assert choose_prices(replace(rows, costs=rows.costs * scale), 7) * scale == pytest.approx(prices)
    for price in prices.tolist():
        assert min(m @ (price, 1.0) for m in means) == pytest.approx(min(m @ (price, 1.0) for m in every), abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_a_threshold_is_the_best_of_all_where_the_others_stay(seed: int) -> None:
    rows = random_rows(seed, 50, 2)
    price = float(np.random.default_rng(seed).choice([1e-3, 0.01, 0.05]))
    ranked = RankedRows.from_rows(rows)
    improved = ranked.improve(ThresholdCascade((0, 1), (0.5,)), price)
    every = [ThresholdCascade((1,), ())] + [
        ThresholdCascade((0, 1), (t,)) for t in np.unique(rows.confidences[:, 0]).tolist()
    ]
    assert ranked.evaluate_objective(improved, price) == pytest.approx(
        min(ranked.evaluate_objective(one, price) for one in every), abs=1e-9
    )


@given(st.integers(0, 10_000), st.floats(1e-4, 1.0))
@settings(max_examples=60, deadline=None)
def test_improving_never_harms(seed: int, price: float) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    rows = random_rows(seed, 60, n, measured=True)
    start = ThresholdCascade(tuple(rng.permutation(n).tolist()), tuple(rng.uniform(0.2, 1.0, n - 1).tolist()))
    ranked = RankedRows.from_rows(rows)
    assert (
        ranked.evaluate_objective(ranked.improve(start, price), price) <= ranked.evaluate_objective(start, price) + 1e-9
    )


@pytest.mark.parametrize("seed", range(10))
def test_what_is_kept_is_the_best_for_every_price_within_the_tightest_and_without_a_deadline(seed: int) -> None:
    rows = random_rows(seed, 60, 4)
    every = sorted(find_candidates(rows, choose_prices(rows, 9)), key=lambda one: (one.members, one.thresholds))
    kept = select_cascades(rows, every)

    def longest_of(one: ThresholdCascade) -> float:
        return float(rows.maximum_duration(one.members))

    for limit in (min(map(longest_of, every)), max(map(longest_of, every))):
        for price in np.geomspace(1e-4, 1.0, 12).tolist():
            of_all, of_kept = (
                min(
                    np.dot(rows.mean_outcome(one), (price, 1.0)) + compute_complexity_penalty(one, 60)
                    for one in some
                    if longest_of(one) <= limit
                )
                for some in (every, kept)
            )
            assert of_kept == pytest.approx(of_all, abs=1e-12)


def test_separate_thresholds_are_kept_where_rows_carry_them_and_not_where_they_are_few() -> None:
    assert not search_frontier(random_rows(1, 100, 4)).separate
    rng = np.random.default_rng(0)
    chances = rng.random((4000, 3))
    right = np.column_stack((chances[:, 0] > 0.7, chances[:, 1] > 0.2, np.ones(4000)))
    wrong = 1 - right.astype(np.float64)
    costs = np.array([1.0, 2.0, 20.0])
    rows = CalibratedRows(
        chances, wrong, np.tile(costs, (4000, 1)), costs, np.ones(3, bool), np.arange(4000), unlabeled(chances)
    )
    kept = search_frontier(rows)
    assert kept.separate
    assert any(rows.mean_outcome(one)[1] == 0 and rows.mean_outcome(one)[0] < 12 for one in kept.cascades)


@pytest.mark.parametrize(("rows", "kinds"), [(60, {"logistic", "constant"}), (5000, {"isotonic", "logistic"})])
def test_chances_rise_with_the_confidence_whatever_its_scale(rows: int, kinds: set[str]) -> None:
    rng = np.random.default_rng(rows)
    confidences = rng.random(rows)
    quality = (rng.random(rows) < confidences**2).astype(np.float64)
    plain, percent = (calibrate(scale * confidences, quality, np.arange(rows)) for scale in (1, 100))
    ordered = plain.values[np.argsort(confidences)]
    assert plain.kind in kinds
    assert np.all(np.diff(ordered) >= -1e-12)
    assert ordered.min() >= 0
    assert ordered.max() <= 1
    assert percent.values == pytest.approx(plain.values, abs=1e-6)
    assert np.abs(plain.values - confidences**2).mean() < 0.12


def test_a_confidence_that_tells_nothing_or_the_contrary_gives_one_chance() -> None:
    quality = np.array([1.0, 0.0] * 30)
    assert set(calibrate(np.full(60, 0.7), quality, np.arange(60)).values.tolist()) == {0.5}
    contrary = calibrate(np.linspace(1, 0, 60), np.sort(np.random.default_rng(0).random(60)), np.arange(60))
    assert np.ptp(contrary.values) == 0


def test_rows_of_one_item_do_not_calibrate_each_other() -> None:
    """Confidences that name the item and tell nothing of it fit a step function to rows of the same item only."""
    stepped = {True: 0, False: 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        items = rng.permutation(np.repeat(np.arange(150), 8))
        confidences, quality = rng.random(150)[items], (rng.random(150) < 0.7).astype(np.float64)[items]
        for named, codes in ((True, items), (False, np.arange(len(items)))):
            stepped[named] += calibrate(confidences, quality, codes).kind == "isotonic"
    assert stepped[True] <= 5
    assert stepped[False] >= 15


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(3, 3000)


@pytest.fixture(scope="module")
def plan(world: World) -> CascadePlan:
    return build(world.dataset("cascade", measured=True))


def build(trace: Any, **options: Any) -> CascadePlan:
    return fit(trace, CascadeOptions(**options), np.random.default_rng(7), BuildContext()).plan


def least_cost(plan: CascadePlan, deadline: float | None) -> float:
    """Give the least cost of a cascade that keeps a deadline, with a standard error to spare."""
    costs = plan.point_costs + plan.point_cost_errors
    return float(costs[plan.point_maxima <= (deadline or np.inf)].min())


def safe(plan: CascadePlan, query: CascadeQuery) -> tuple[float, float]:
    """Reckon the cost and the accuracy of a decision, each with a standard error to spare."""
    chosen = plan.select_points(query)
    assert chosen is not None
    accuracy = plan.point_accuracies - plan.point_accuracy_errors
    return chosen.mix(plan.point_costs + plan.point_cost_errors), chosen.mix(accuracy)


def test_figures_of_points_hold_on_unseen_rows_walked_one_by_one(plan: CascadePlan) -> None:
    unseen = World.of(77, 4000)
    for _, i in plan.list_points_within(None)[::3]:
        point = plan.describe_point(i)
        right, spent = [], []
        for row in range(4000):
            paid = 0.0
            for name, threshold in zip(point["cascade"], point["thresholds"], strict=True):
                k = NAMES.index(name)
                paid += unseen.costs[row, k]
                if threshold is None or unseen.confidences[row, k] >= threshold:
                    right.append(unseen.correct[row, k])
                    break
            spent.append(paid)
        error = (plan.point_accuracy_errors[i] ** 2 + np.var(right) / 4000) ** 0.5
        assert plan.point_accuracies[i] == pytest.approx(np.mean(right), abs=3.5 * error)
        error = (plan.point_cost_errors[i] ** 2 + np.var(spent) / 4000) ** 0.5
        assert plan.point_costs[i] == pytest.approx(np.mean(spent), abs=3.5 * error)


def test_more_cost_is_never_less_accurate_where_it_was_learned_and_no_limit_is_broken(plan: CascadePlan) -> None:
    maxima = np.unique(plan.point_maxima).tolist()
    for deadline in (maxima[0], maxima[len(maxima) // 2], None):
        before = 0.0
        for most in np.linspace(0.5, 20, 60).tolist():
            query = CascadeQuery(budget=most, deadline=deadline, item="some")
            if most < least_cost(plan, deadline):
                with pytest.raises(Infeasible, match="the budget is"):
                    plan.decide(query)
                continue
            decision = plan.decide(query)
            assert safe(plan, query)[0] <= most * (1 + 1e-9)
            assert safe(plan, query)[0] >= min(most, safe(plan, CascadeQuery(budget=1e9, deadline=deadline))[0]) - 0.5
            assert decision.maximum_duration <= (deadline or np.inf)
            chosen = plan.select_points(query)
            assert chosen is not None
            assert chosen.mix(plan.point_learned_accuracies) >= before - 1e-12
            before = chosen.mix(plan.point_learned_accuracies)


def test_an_accuracy_is_reached_at_the_least_cost_and_a_budget_that_it_breaks_is_named(plan: CascadePlan) -> None:
    most = max((plan.point_accuracies - plan.point_accuracy_errors)[i] for _, i in plan.list_reachable_points())
    refused = (
        ({"min_accuracy": 0.99}, r"0\.99$"),
        ({"budget": 5.0, "deadline": 0.5}, "fastest"),
        ({"budget": 0.5}, "0.5"),
    )
    for asked, reason in refused:
        with pytest.raises(Infeasible, match=reason):
            plan.decide(CascadeQuery.model_validate(asked))
    for wanted in np.linspace(0.5, most, 30).tolist():
        query = CascadeQuery(min_accuracy=wanted, item="some")
        cost, accuracy = safe(plan, query)
        assert accuracy >= wanted - 1e-9
        if cost * 0.999 >= least_cost(plan, None):
            assert safe(plan, CascadeQuery(budget=cost * 0.999, item="some"))[1] < wanted
        with pytest.raises(Infeasible, match=r"needs .* per item, the budget is"):
            plan.decide(CascadeQuery(min_accuracy=wanted, budget=cost * 0.9, item="some"))
        alone = plan.decide(CascadeQuery(min_accuracy=wanted))
        assert not alone.shares
        assert safe(plan, CascadeQuery(min_accuracy=wanted))[1] >= wanted


def test_two_cascades_share_the_items_by_their_ids(plan: CascadePlan) -> None:
    for most in (2.2, 3.7, 5.1):
        decisions = [plan.decide(CascadeQuery(budget=most, item=f"image-{i}")) for i in range(4000)]
        assert decisions[5] == plan.decide(CascadeQuery(budget=most, item="image-5"))
        (first, second) = decisions[0].shares
        assert first.share + second.share == pytest.approx(1)
        dearer = np.mean([one.steps != decisions[0].steps for one in decisions])
        assert min(abs(dearer - first.share), abs(dearer - second.share)) < 0.03
        without = plan.decide(CascadeQuery(budget=most))
        assert plan.decide(CascadeQuery(budget=most)) == without
        assert without.shares == ()
        assert without.cascade == first.cascade


def test_the_frontier_is_nowhere_behind_single_classifiers(world: World, plan: CascadePlan) -> None:
    costs, accuracies = plan.point_costs, plan.point_accuracies
    for k in range(3):
        cost, right = world.costs[:, k].mean(), world.correct[:, k].mean()
        assert accuracies[costs <= cost * 1.02].max() >= right - 0.01


def test_a_budget_of_exactly_a_price_is_feasible_and_figures_of_single_classifiers_are_their_own() -> None:
    rng = np.random.default_rng(0)
    prices = (0.02, 0.07, 0.41)  # means of equal prices are not exact
    columns: dict[str, Any] = {}
    for k in range(3):
        columns |= {f"m{k}": (rng.random(300) < 0.6 + 0.1 * k).astype(float), f"c{k}": rng.random(300)}
    classifiers = [
        {"name": f"m{k}", "correct": f"m{k}", "confidence": f"c{k}", "cost": cost} for k, cost in enumerate(prices)
    ]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
    plan = build(Trace.from_columns(spec, columns))
    for k, price in enumerate(prices):
        chosen = plan.select_points(CascadeQuery(budget=price, item="some"))
        assert chosen is not None
        assert chosen.mix(plan.point_expected) <= price * (1 + 1e-9)
        assert chosen.mix(plan.point_learned_accuracies) >= columns[f"m{k}"].mean() - 0.01
    alone = [i for i in range(len(plan.point_maxima)) if len(plan.describe_point(i)["cascade"]) == 1]
    assert plan.point_costs[alone] == pytest.approx(prices, rel=1e-12)
    assert plan.point_accuracies[alone] == pytest.approx([columns[f"m{k}"].mean() for k in range(3)], rel=1e-12)
    with pytest.raises(Infeasible, match="the budget is"):
        plan.decide(CascadeQuery(budget=0.0199))


def reach(plan: CascadePlan, world: World, budget: float) -> float:
    """Return the share of a world's rows that the mixture of a budget answers correctly."""
    chosen = plan.select_points(CascadeQuery(budget=budget, item="some"))
    assert chosen is not None
    dataset = world.dataset("cascade")
    assert isinstance(dataset, Trace)
    replays = replay_frontier(plan, dataset, np.arange(dataset.rows))
    shares = [float(one.replay.right.mean()) for one in replays]
    points = [point for _, point in plan.list_reachable_points()]
    first, second = (shares[points.index(point)] for point in (chosen.first, chosen.second))
    return first + chosen.share * (second - first)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [60, 200, 1000])
def test_no_budget_is_behind_the_best_single_classifier_that_it_affords(rows: int) -> None:
    """Each of six budgets, over ten seeds: the mean difference is at least 0 within two standard errors."""
    unseen, ahead = World.of(99, 8000), []
    for seed in range(10):
        world = World.of(seed, rows)
        plan = build(world.dataset("cascade"))
        accuracies, prices = world.correct.mean(axis=0), np.array(COSTS)
        best = [int(np.where(prices <= most, accuracies, -1.0).argmax()) for most in BUDGETS]
        alone = unseen.correct.mean(axis=0)[best]
        ahead.append([reach(plan, unseen, most) for most in BUDGETS] - alone)
    means, errors = np.mean(ahead, axis=0), np.std(ahead, axis=0, ddof=1) / 10**0.5
    assert np.all(means >= -2 * errors - 1e-9)


def test_permuting_the_classifiers_changes_no_figure(world: World, plan: CascadePlan) -> None:
    trace = world.dataset("cascade", measured=True)
    assert isinstance(trace, Trace)
    order = [2, 0, 1]
    spec = trace.spec.model_copy(update={"classifiers": tuple(trace.spec.classifiers[k] for k in order)})
    columns = {name: getattr(trace, name)[:, order] for name in ("predictions", "quality", "confidences", "costs")}
    other = build(replace(trace, spec=spec, **columns))
    assert other.point_costs == pytest.approx(plan.point_costs)
    assert other.point_accuracies == pytest.approx(plan.point_accuracies)


def test_classifiers_without_confidence_come_last_or_alone() -> None:
    trace = random_trace(np.random.default_rng(0), 600, 4)
    silent = tuple(k.model_copy(update={"confidence": None}) for k in trace.spec.classifiers)
    plan = build(replace(trace, spec=trace.spec.model_copy(update={"classifiers": silent})))
    assert all(len(plan.describe_point(i)["cascade"]) == 1 for _, i in plan.list_points_within(None))
    half = (silent[0], *trace.spec.classifiers[1:])
    plan = build(replace(trace, spec=trace.spec.model_copy(update={"classifiers": half})))
    assert all(silent[0].name not in plan.describe_point(i)["cascade"][:-1] for _, i in plan.list_points_within(None))


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        ("point_members", np.array([9] * 1, dtype=np.int32)),
        ("point_offsets", np.array([0, 5], dtype=np.int64)),
        ("point_costs", np.array([np.nan])),
        ("point_accuracies", np.array([1.5])),
        ("point_accuracies", np.full(99, 0.5)),
        ("point_thresholds", np.array([np.inf])),
        ("point_names", ("a", "a")),
        ("point_labels", ("a",)),
        ("point_label_thresholds", np.array([0.5])),
        ("point_reaching", np.array([2.0])),
        ("point_maxima", np.array(3.0)),
    ],
)
def test_a_forged_frontier_is_refused(plan: CascadePlan, field: str, forged: Any) -> None:
    with pytest.raises(InvalidRequest):
        replace(plan, **{field: forged})


def test_offsets_that_leap_beyond_64_bits_do_not_rise(plan: CascadePlan) -> None:
    """Differences of these wrap around to what is above 0; all else fits a frontier of five points and one member."""
    of_points = ("maxima", "expected", "costs", "cost_errors", "accuracies", "accuracy_errors", "learned_accuracies")
    forged: dict[str, Any] = {f"point_{name}": np.full(5, 0.5) for name in of_points}
    forged |= {name: getattr(plan, name)[:1] for name in ("point_members", "point_thresholds", "point_reaching")}
    ends = np.array([0, 2**62, 2**63 - 1, -(2**63), -(2**62), 1], dtype=np.int64)
    with pytest.raises(InvalidRequest, match=r"missing: offsets that cut the members into points$"):
        replace(plan, point_offsets=ends, **forged)


@pytest.mark.slow
def test_what_is_said_of_points_is_true_where_all_are_alike() -> None:
    """CalibratedRows that report choose no point, so the best of many noisy ones is not told."""
    promised = []
    for seed in range(14):
        rng = np.random.default_rng(seed)
        columns: dict[str, Any] = {}
        for k in range(4):
            columns |= {f"m{k}": (rng.random(400) < 0.7).astype(float), f"c{k}": rng.random(400)}
        classifiers = [{"name": f"m{k}", "correct": f"m{k}", "confidence": f"c{k}", "cost": 1.0 + k} for k in range(4)]
        spec = TraceSpec.model_validate({"kind": "trace", "unit": "ms", "classifiers": classifiers})
        fitted = fit(Trace.from_columns(spec, columns), CascadeOptions(), rng, BuildContext())
        chosen = fitted.plan.select_points(CascadeQuery(budget=100.0))
        assert chosen is not None
        assert fitted.savings is not None
        promised.append((chosen.mix(fitted.plan.point_accuracies), fitted.savings.accuracy))
    assert np.mean(promised, axis=0) == pytest.approx(0.7, abs=3 * 0.46 / (14 * 200) ** 0.5)


def test_a_classifier_that_only_the_frontier_calls_is_known_to_feedback(plan: CascadePlan) -> None:
    world = World.of(3, 400)
    strict = build(world.dataset("cascade"), target_precision=0.999)
    decided = strict.decide(CascadeQuery(budget=4.0))
    assert set(decided.cascade) <= set(kind.list_called_names(strict))
    assert set(decided.cascade) - set(strict.names)


@pytest.mark.slow
def test_of_many_unbeaten_classifiers_the_cheapest_and_the_most_accurate_stay() -> None:
    rng = np.random.default_rng(0)
    columns = {f"m{k}": (rng.random(2000) < 0.3 + 0.045 * k).astype(float) for k in range(15)}
    classifiers = [{"name": f"m{k}", "correct": f"m{k}", "cost": 1.0 + k} for k in range(15)]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "ms", "classifiers": classifiers})
    plan = build(Trace.from_columns(spec, columns))
    assert {"m0", "m14"} <= set(plan.point_names)
    assert len(plan.point_names) == 12
    trace = random_trace(np.random.default_rng(0), 400, 14)
    fitted = fit(trace, CascadeOptions(dependence="independent"), np.random.default_rng(0), BuildContext())
    assert len(fitted.plan.point_names) == 12
    assert len(fitted.summary["frontier"]["not_considered"]) == 3


def test_a_further_classifier_has_to_set_more_rows_right_than_chance_would() -> None:
    rng = np.random.default_rng(0)
    right = np.column_stack((np.arange(200) % 50 > 0, rng.random(200) < 0.9))
    right[:1, 1] = True  # of the four rows that the first is wrong about, the second is right about one
    right[50::50, 1] = False
    chances = np.column_stack((np.where(np.arange(200) % 50 > 0, 0.9, 0.1), np.full(200, 0.5)))
    costs = np.tile([1.0, 1.1], (200, 1))
    rows = CalibratedRows(
        chances,
        1 - right.astype(float),
        costs,
        costs.max(axis=0),
        np.ones(2, bool),
        np.arange(len(costs)),
        unlabeled(chances),
    )
    pair = ThresholdCascade((0, 1), (0.5,))
    assert rows.mean_outcome(pair)[1] < rows.mean_outcome(ThresholdCascade((0,), ()))[1]
    assert pair not in select_cascades(rows, [ThresholdCascade((0,), ()), pair])
    many = replace(rows, wrong=np.where(np.arange(200)[:, None] % 50 == 0, [1.0, 0.0], rows.wrong))
    assert pair in select_cascades(many, [ThresholdCascade((0,), ()), pair])


def test_an_older_version_refuses_a_cost_and_says_what_to_do(plan: CascadePlan) -> None:
    kept = {name: getattr(plan, name) for name in plan.__dataclass_fields__ if name[0] != "_" and name[:6] != "point_"}
    old = CascadePlan(**kept)
    assert old.decide(CascadeQuery()) == plan.decide(CascadeQuery())
    assert old.list_reachable_points() == []
    with pytest.raises(InvalidRequest, match="build it again"):
        old.decide(CascadeQuery(budget=3.0))


@pytest.mark.parametrize("seed", range(6))
def test_no_point_promises_less_than_its_first_call_costs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=600)
    columns: dict[str, Any] = {"truth": np.where(truth, "a", "b")}
    for name, skill in (("small", 1.0), ("large", 2.0)):
        seen = rng.normal((2 * truth - 1) * skill, 1)
        columns[f"{name} answer"] = np.where(seen > 0, "a", "b")
        columns[f"{name} sure"] = np.round(0.5 + np.minimum(np.abs(seen), 2.4) / 5, 3)
    cost = {"small": 1.7, "large": 4.5}
    classifiers = [
        {"name": name, "cost": paid, "prediction": f"{name} answer", "confidence": f"{name} sure"}
        for name, paid in cost.items()
    ]
    spec = {"kind": "trace", "label": "truth", "unit": "ct", "classifiers": classifiers}
    trace: Any = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    plan: Any = fit(trace, CascadeOptions(), make_generator(seed), BuildContext()).plan
    for _, point in plan.list_reachable_points():
        first = plan.describe_point(point)["cascade"][0]
        assert plan.point_costs[point] >= cost[first] - 1e-9
