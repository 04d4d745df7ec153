"""Learned estimators: never worse than single classifiers, within their budgets, reproducible, and arrays alone."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression

from app.store import codec
from models import InvalidRequest, Trace, TraceSpec
from models.errors import Infeasible
from models.portfolio import AssignmentOptions, PortfolioOptions, RouteQuery
from solvers.base import BuildContext, FitResult
from solvers.portfolio import PortfolioPlan, fit
from solvers.portfolio.baselines import make_assignment_router
from solvers.portfolio.learned import cross_fit
from solvers.portfolio.learned.contents import make_fields
from solvers.portfolio.learned.embedding import MAX_COORDINATE, ReducedEmbedding
from solvers.portfolio.learned.estimator import LearnedEstimator
from solvers.portfolio.learned.forest import MAX_NUMBERS, RandomForest
from solvers.portfolio.learned.kernel import MAX_CENTERS, RIDGES, KernelRegression
from solvers.portfolio.learned.logistic import STRENGTHS, LogisticRegressions
from solvers.portfolio.learned.mixture import RegressionMixture
from solvers.portfolio.learned.regressions import REGRESSION_KINDS
from solvers.portfolio.shadow_prices import ShadowPrices, choose_best, draw_tie_breaks
from tests.support.cases import first_quick

COSTS = (1.0, 3.0, 20.0)
ROWS = 600
"""Rows that a build learns from."""
THREE = ("a", "b", "kernel")


def drawn(seed: int, rows: int, *, useless: bool = False, dimensions: int = 4) -> tuple[Any, Any]:
    """Draw embeddings, (n, d), and how right three classifiers are, (n, 3); useless: the former tell nothing."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(rows, dimensions)).astype(np.float32)
    ease = 1 / (1 + np.exp(-2 * vectors[:, 0]))
    chances = np.column_stack((0.2 + 0.7 * ease, 0.9 - 0.5 * (vectors[:, 1] > 0.5), np.full(rows, 0.93)))
    right = (rng.random((rows, 3)) < chances).astype(np.float64)
    return (rng.normal(size=vectors.shape).astype(np.float32) if useless else vectors), right


def trace_of(vectors: Any, right: Any, costs: tuple[float, ...] = COSTS) -> Trace:
    names = [f"m{j}" for j in range(right.shape[1])]
    classifiers = [{"name": name, "quality": name, "cost": cost} for name, cost in zip(names, costs, strict=True)]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
    return Trace.from_columns(spec, {name: right[:, j] for j, name in enumerate(names)}, vectors)


def built(
    seed: int = 0, *, useless: bool = False, dimensions: int = 4, estimator: str = "auto"
) -> FitResult[PortfolioPlan]:
    """Build once for all tests, however they name the defaults."""
    return _built(seed, useless, dimensions, estimator)


@cache
def _built(seed: int, useless: bool, dimensions: int, estimator: str) -> FitResult[PortfolioPlan]:
    vectors, right = drawn(seed, ROWS, useless=useless, dimensions=dimensions)
    given = PortfolioOptions.model_validate({"curve_points": 5, "estimator": estimator})
    return fit(trace_of(vectors, right), given, np.random.default_rng(seed), BuildContext())


@cache
def built_with_every_regression(dimensions: int = 4) -> PortfolioPlan:
    plan, (vectors, right) = built(dimensions=dimensions).plan, drawn(0, ROWS, dimensions=dimensions)
    mixture = RegressionMixture(plan.means, plan.shrinks, REGRESSION_KINDS)
    return replace(plan, **make_fields(LearnedEstimator.fit(vectors, right, mixture, np.random.default_rng(0))))


def reached(plan: PortfolioPlan, vectors: Any, right: Any, budget: float) -> float:
    """Assign a batch, and say how often it was right."""
    assigned = plan.assign(plan.estimate(vectors), AssignmentOptions(budget=budget))
    return float(right[np.arange(len(right)), [int(name[1:]) for name in assigned.assignments]].mean())


def hull(right_then: Any, right: Any, budget: float) -> float:
    """Say how often the best coin between two classifiers, chosen by rows of the past, is right."""
    values = np.tile(right_then.mean(axis=0), (len(right), 1))
    return float(
        right[np.arange(len(right)), make_assignment_router(values, np.array(COSTS))(budget * len(right))].mean()
    )


@pytest.mark.parametrize(("estimator", "reported"), first_quick([("auto", "stacked"), ("occam", "occam")]))
def test_both_estimators_are_ahead_of_single_classifiers_where_embeddings_tell(estimator: str, reported: str) -> None:
    plan, (vectors, right) = built(estimator=estimator).plan, drawn(1, 2000)
    assert plan.estimator == reported
    gained = [reached(plan, vectors, right, budget) - hull(drawn(0, ROWS)[1], right, budget) for budget in (2, 4, 8)]
    assert np.mean(gained) > 0.03


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_an_embedding_that_tells_nothing_ends_at_single_classifiers(seed: int) -> None:
    plan = built(seed=seed, useless=True).plan
    vectors, right = drawn(50 + seed, 8000, useless=True)
    for budget in (2.0, 5.0, 12.0):
        assert reached(plan, vectors, right, budget) > hull(drawn(seed, ROWS, useless=True)[1], right, budget) - 0.015


def test_its_summary_tells_that_all_rows_report() -> None:
    fitted = built()
    assert fitted.summary["estimator"] == fitted.plan.estimator == "stacked"
    assert fitted.summary["rows"] == {"held_out": ROWS}


def test_samples_are_reported_only_where_they_are_used() -> None:
    sampled, plain = built(estimator="occam"), built()
    assert sampled.summary["samples"]["count"] > 0
    assert {"samples"}.isdisjoint(plain.summary)
    assert {"samples"}.isdisjoint(PortfolioOptions().model_dump())
    assert PortfolioOptions(estimator="occam").model_dump()["sampling"] == "iid"


def test_every_row_reports_and_what_is_said_comes_true() -> None:
    plan, (vectors, right) = built().plan, drawn(9, 6000)
    assert plan.held_out == ROWS
    for budget in (2.0, 4.0, 8.0, 16.0):
        assigned = plan.assign(plan.estimate(vectors), AssignmentOptions(budget=budget))
        true = right[np.arange(6000), [int(name[1:]) for name in assigned.assignments]].mean()
        assert assigned.estimated_accuracy == pytest.approx(true, abs=3 * (0.25 / ROWS) ** 0.5)


@pytest.mark.parametrize("useless", [False, True])
@pytest.mark.slow
def test_single_queries_keep_their_budget_on_average_and_spend_nearly_all_of_it(useless: bool) -> None:
    spent = []
    for seed in range(2):
        plan = built(seed=seed, useless=useless).plan
        vectors, _ = drawn(70 + seed, 5000, useless=useless)
        route = plan.make_router(plan.estimate(vectors), vectors)
        spent += [np.array(COSTS)[route(budget * 5000)].mean() / budget for budget in (1.5, 2.5, 6.0, 10.0)]
    assert np.mean(np.array(spent) <= 1.02) > 0.85
    assert 0.85 < np.mean(spent) < 1.01


def test_one_query_is_routed_as_it_would_be_among_others() -> None:
    plan, (vectors, _) = built(useless=True).plan, drawn(5, 60, useless=True)
    for budget in (2.0, 9.0):
        among = plan.make_router(plan.estimate(vectors), vectors)(budget * 60)
        alone = [plan.decide(RouteQuery(query=tuple(map(float, v)), budget=budget)) for v in vectors]
        assert [one.classifier for one in alone] == [f"m{k}" for k in among]


def test_more_budget_is_never_estimated_worse() -> None:
    plan, (vectors, _) = built().plan, drawn(5, 500)
    estimates = plan.estimate(vectors)
    said = [
        plan.assign(estimates, AssignmentOptions(budget=budget, gap=0.0)).raw_estimate
        for budget in np.linspace(1, 20, 12).tolist()
    ]
    assert np.all(np.diff(said) >= -1e-9)
    with pytest.raises(Infeasible, match=r"got 0\.5"):
        plan.decide(RouteQuery(query=(0.0,) * 4, budget=0.5))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_another_others() -> None:
    vectors, right = drawn(3, 300)
    options = PortfolioOptions(curve_points=2)
    plans = [fit(trace_of(vectors, right), options, np.random.default_rng(s), BuildContext()).plan for s in (1, 1, 2)]
    one, same, other = (codec.encode(plan, {}) for plan in plans)
    assert one == same != other


def test_what_is_kept_says_the_same_after_a_journey_and_is_small() -> None:
    plan, (vectors, _) = built().plan, drawn(5, 200)
    sent = codec.encode(plan, {})
    back = codec.decode(sent, PortfolioPlan)
    assert np.array_equal(back.estimate(vectors), plan.estimate(vectors))
    assert len(sent) < 4e6


def test_rounding_between_equal_rows_is_no_distance() -> None:
    rng = np.random.default_rng(0)
    inputs = np.repeat(rng.normal(size=(1, 128)).astype(np.float32), 200, axis=0)
    inputs[:40] = rng.normal(size=(40, 128))
    for seed in range(3):
        kernel = KernelRegression.fit(inputs, rng.random((200, 2)), np.random.default_rng(seed))
        assert kernel.width[0] > 50


def test_equal_embeddings_are_never_in_two_folds() -> None:
    vectors = np.repeat(drawn(0, 100)[0], 3, axis=0)
    fold = cross_fit.assign_folds(np.arange(len(vectors)), vectors, np.random.default_rng(0))
    assert np.array_equal(fold.reshape(100, 3).min(axis=1), fold.reshape(100, 3).max(axis=1))
    assert np.bincount(fold, minlength=cross_fit.FOLDS).min() >= 27


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [60, 3, 1])
def test_queries_of_a_few_kinds_are_told_apart(kinds: int) -> None:
    rng = np.random.default_rng(kinds)
    centres, chances = rng.normal(size=(kinds, 8)), rng.choice([0.1, 0.95], size=(kinds, 3))
    chances[:, 2] = 0.96
    for rows in (40, 900):
        kind = np.arange(rows) % kinds
        vectors, right = centres[kind].astype(np.float32), (rng.random((rows, 3)) < chances[kind]).astype(float)
        plan = fit(
            trace_of(vectors, right), PortfolioOptions(curve_points=3), np.random.default_rng(0), BuildContext()
        ).plan
    if kinds > 1:
        own = plan.estimate(centres.astype(np.float32))
        assert np.abs(own - chances).mean() < 0.2


def test_one_classifier_alone_and_more_coordinates_than_rows_are_no_fault() -> None:
    rng = np.random.default_rng(0)
    one = trace_of(rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 2, (60, 1)).astype(float), (2.0,))
    wide = trace_of(rng.normal(size=(60, 300)).astype(np.float32), rng.integers(0, 2, (60, 3)).astype(float))
    for data in (one, wide):
        plan = fit(data, PortfolioOptions(curve_points=3), np.random.default_rng(0), BuildContext()).plan
        assert np.isfinite(plan.estimate(data.embeddings)).all()


@pytest.mark.slow
def test_repeated_rows_do_not_make_estimates_look_better_than_they_are() -> None:
    vectors, right = drawn(0, 400, useless=True)
    data = trace_of(np.repeat(vectors, 4, axis=0), np.repeat(right, 4, axis=0))
    plan = fit(data, PortfolioOptions(), np.random.default_rng(0), BuildContext()).plan
    assert plan.shrinks.max() < 0.35


@pytest.mark.parametrize("seed", range(5))
def test_shrinking_is_least_squares_between_nothing_and_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    right = (rng.random((200, 3)) < 0.6).astype(np.float64)
    estimates = {"a": np.clip(right * rng.uniform(0, 1) + rng.normal(0, 0.4, right.shape), 0, 1)}
    mixture = RegressionMixture.fit(estimates, right)
    off = estimates["a"] - right.mean(axis=0)
    common = off.mean(axis=1, keepdims=True)

    def missed(shrinks: Any) -> float:
        said = right.mean(axis=0) + shrinks[0] * common + shrinks[1] * (off - common)
        return float(((said - right) ** 2).sum())

    tried = [missed((a, b)) for a in np.linspace(0, 1, 21) for b in np.linspace(0, 1, 21)]
    assert missed(mixture.shrinks) <= min(tried) + 0.2
    assert mixture.shrinks.min() >= 0
    assert mixture.shrinks.max() <= 1


def test_where_no_kind_helps_each_classifier_has_its_mean() -> None:
    right = drawn(0, 500)[1]
    against = {"a": 1 - right, "b": 0.9 - 0.5 * right}
    mixture = RegressionMixture.fit(against, right)
    assert mixture.apply(against) == pytest.approx(np.tile(right.mean(axis=0), (500, 1)))


@pytest.mark.parametrize("weak", [False, True])
def test_estimates_of_noise_are_hardly_believed_and_weak_ones_that_tell_are(weak: bool) -> None:
    """Of 100 rows."""
    rng, nearer, kept = np.random.default_rng(0), [], []
    for _ in range(60):
        chances = np.array([0.5, 0.6, 0.7]) + 0.15 * rng.choice([-1, 1], (100, 3))
        right = (rng.random((100, 3)) < chances).astype(np.float64)
        shares = chances if weak else right.mean(axis=0)
        estimates = {kind: np.clip(shares + rng.normal(0, 0.1, (100, 3)), 0, 1) for kind in THREE}
        mixture = RegressionMixture.fit(estimates, right)
        true = chances if weak else np.tile([0.5, 0.6, 0.7], (100, 1))
        nearer.append(((mixture.means - true) ** 2).mean() - ((mixture.apply(estimates) - true) ** 2).mean())
        kept.append(mixture.shrinks[1] > 0.1)
    if weak:
        assert np.mean(nearer) > 0.01
        assert np.mean(kept) > 0.9
    else:
        assert np.mean(nearer) > -0.0005
        assert np.mean(kept) < 0.35


def test_a_forest_in_arrays_says_what_scikit_learn_says() -> None:
    vectors, right = drawn(0, 500)
    own = RandomForest.fit(vectors, right, 3)
    theirs = ExtraTreesRegressor(100, min_samples_leaf=3, max_leaf_nodes=2000, max_features=1, random_state=3).fit(
        vectors, right
    )
    asked = drawn(1, 300)[0]
    assert own.estimate(asked) == pytest.approx(theirs.predict(asked), abs=1e-6)
    assert own.estimate(asked[:7]) == pytest.approx(own.estimate(asked)[:7], abs=1e-6)


def test_trees_of_many_classifiers_are_smaller_so_that_a_forest_has_room() -> None:
    rng = np.random.default_rng(0)
    forest = RandomForest.fit(rng.normal(size=(600, 12)).astype(np.float32), rng.random((600, 200)), 0)
    assert MAX_NUMBERS // 2 < forest.values.size + 3 * len(forest.columns) <= MAX_NUMBERS


def test_a_kernel_is_that_of_ridge_regression_with_one_of_its_ridges() -> None:
    vectors, right = drawn(0, 300)
    own, asked = KernelRegression.fit(vectors, right[:, :1], np.random.default_rng(0)), drawn(1, 50)[0]
    mean, said = right[:, 0].mean(), own.estimate(asked)[:, 0]
    theirs = [
        mean
        + KernelRidge(alpha=ridge, kernel="rbf", gamma=1 / own.width[0]).fit(vectors, right[:, 0] - mean).predict(asked)
        for ridge in RIDGES
    ]
    assert min(np.abs(np.clip(each, 0, 1) - said).max() for each in theirs) < 1e-3


@pytest.mark.parametrize("rows", [60, 400])
def test_logistic_regressions_are_those_of_scikit_learn_with_nearly_the_best_strength_of_each(rows: int) -> None:
    vectors, right = drawn(0, rows, dimensions=20)
    (asked, then), own = drawn(1, 4000, dimensions=20), LogisticRegressions.fit(vectors, right)
    for j in range(2):
        theirs = [
            LogisticRegression(C=strength, tol=1e-8).fit(vectors, right[:, j]).predict_proba(asked)[:, 1]
            for strength in STRENGTHS
        ]
        said = own.estimate(asked)[:, j]
        assert min(np.abs(each - said).max() for each in theirs) < 0.01
        missed = [((each - then[:, j]) ** 2).mean() for each in theirs]
        assert ((said - then[:, j]) ** 2).mean() < min(missed) + 0.01


def test_logistic_regressions_of_graded_and_constant_quality_are_finite() -> None:
    vectors, right = drawn(0, 100)
    graded = np.column_stack((0.3 + 0.5 * right[:, 0], np.ones(100), np.zeros(100)))
    own = LogisticRegressions.fit(vectors, graded)
    said = own.estimate(np.full((1, 4), 1e6, dtype=np.float32))
    assert np.isfinite(said).all()
    assert own.estimate(vectors).mean(axis=0) == pytest.approx(graded.mean(axis=0), abs=0.01)


def test_where_lines_separate_the_mixture_has_logistic_regressions_alone() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random((500, 3)) < 0.5).astype(np.float64)
    good, bad = 0.5 + 0.4 * (right - 0.5), rng.random((500, 3))
    mixture = RegressionMixture.fit({"forest": bad, "kernel": 1 - bad * 0.5, "logistic": good}, right)
    assert mixture.kinds == ("logistic",)
    assert RegressionMixture.fit({"forest": good, "kernel": good}, right).kinds == ("forest", "kernel")


def test_a_kernel_of_many_rows_has_so_many_centres_and_finds_curves_that_lines_do_not() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3000, 3)).astype(np.float32)
    chances = 0.1 + 0.8 * (np.linalg.norm(vectors, axis=1, keepdims=True) > 1.5)
    right = (rng.random((3000, 1)) < chances).astype(np.float64)
    kernel = KernelRegression.fit(vectors[:2000], right[:2000], rng)
    assert kernel.centres.shape == (MAX_CENTERS, 3)
    missed = [np.mean((each - chances[2000:]) ** 2) for each in (right[:2000].mean(), kernel.estimate(vectors[2000:]))]
    assert missed[1] < 0.3 * missed[0]
    equal = KernelRegression.fit(np.ones((50, 3), dtype=np.float32), right[:50], rng)
    assert equal.estimate(vectors[:2]) == pytest.approx(np.full((2, 1), right[:50].mean()), abs=1e-6)


@pytest.mark.slow
def test_a_kernel_sees_more_directions_than_a_forest() -> None:
    plan = built_with_every_regression(dimensions=150)
    assert plan.kernel_centres.shape[1] == plan.embedding_axes.shape[1] == 128
    assert plan.forest_columns.max(initial=0) < 64


def test_many_coordinates_are_reduced_and_far_ones_bounded() -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(300, 5)) @ rng.normal(size=(5, 200))).astype(np.float32)
    embedding = ReducedEmbedding.fit(vectors)
    assert embedding.axes.shape == (200, 128)
    assert np.linalg.matrix_rank(embedding.apply(vectors), tol=1e-2) == 5
    assert np.abs(embedding.apply(np.full((1, 200), 1e30, dtype=np.float32))).max() == MAX_COORDINATE
    plan = built().plan
    assert np.isfinite(plan.estimate(np.full((2, 4), 1e30))).all()


def test_quality_between_0_and_1_and_classifiers_that_never_fail_are_learned_from() -> None:
    vectors, right = drawn(0, 400)
    graded = 0.3 + 0.5 * right
    graded[:, 2] = 1.0
    plan = fit(
        trace_of(vectors, graded), PortfolioOptions(curve_points=2), np.random.default_rng(0), BuildContext()
    ).plan
    assert plan.estimate(vectors)[:, 2] == pytest.approx(1.0, abs=0.02)
    assert 0.3 < plan.estimate(vectors)[:, 0].mean() < 0.8


def test_lots_are_drawn_evenly_and_by_the_numbers_alone() -> None:
    vectors = drawn(0, 4000)[0]
    lots = draw_tie_breaks(vectors)
    assert np.histogram(lots, bins=10, range=(0, 1))[0].min() > 320
    assert np.array_equal(draw_tie_breaks(vectors[::-1]), lots[::-1])


def test_equals_are_shared_so_that_the_budget_is_spent() -> None:
    means, values = np.array([1.0, 5.0]), np.tile([0.5, 0.9], (2000, 1))
    prices = ShadowPrices.with_confidence(values, means, np.tile(means, (2000, 1)), 0.5)
    lots = np.random.default_rng(0).random(2000)
    for budget in (1.0, 2.0, 3.0, 4.5):
        choice = prices.choose_each(values, means, budget, lots)
        assert means[choice].mean() == pytest.approx(budget, abs=0.15)
        one = [prices.choose(values[i], means, budget, tie_break=lots[i]) for i in range(50)]
        assert one == choice[:50].tolist()


def test_of_equals_the_cheapest_is_taken_or_the_dearest_and_none_that_is_not_affordable() -> None:
    values, costs = np.array([[0.5, 0.7, 0.9], [0.9, 0.7, 0.5]]), np.array([1.0, 2.0, 3.0])
    assert choose_best(values, costs, 0.2).tolist() == [0, 0]
    assert choose_best(values, costs, 0.2, np.array([True, True])).tolist() == [2, 0]
    prices = ShadowPrices(np.array([1.0, 3.0]), np.array([0.2, 0.0]), np.array([1.0, 1.0]))
    assert prices.choose(values[0], costs, 1.5, max_cost=2.0, tie_break=0.0) == 1


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        ("shrinks", np.array([0.5, np.nan])),
        ("means", np.array([0.5, 0.5, 1.5])),
        ("embedding_centre", np.zeros(3)),
        ("embedding_axes", np.zeros((4, 0))),
        ("forest_left", None),
        ("forest_columns", None),
        ("forest_roots", np.array([10**6], dtype=np.int32)),
        ("forest_roots", np.zeros(5000, dtype=np.int32)),
        ("embedding_axes", np.full((4, 4), 1e300)),
        ("kernel_centres", np.zeros((500, 3), dtype=np.float32)),
        ("kernel_centres", np.zeros((501, 4), dtype=np.float32)),
        ("kernel_width", np.zeros(1)),
        ("kernel_width", np.full(1, 5e-324)),
        ("kernel_weights", np.full((500, 3), np.nan)),
        ("kernel_base", np.array([0.5, 0.5, -1.0])),
        ("logistic_weights", np.full((4, 3), np.nan)),
        ("logistic_intercepts", np.zeros(2)),
        ("forest_roots", np.zeros(0, dtype=np.int32)),
        ("price_shares", np.array([2.0])),
    ],
)
def test_forged_arrays_are_refused_before_they_can_hang_or_crash(field: str, forged: Any) -> None:
    plan = built_with_every_regression()
    if forged is None:
        forged = np.array(getattr(plan, field))
        forged[...] = {"forest_left": 0, "forest_columns": 99}[field]
    with pytest.raises(InvalidRequest):
        replace(plan, **{field: forged})


def test_a_forest_that_asks_too_much_or_wraps_around_is_refused() -> None:
    plan = built_with_every_regression()
    chain = 20_001
    columns = np.zeros(chain, dtype=np.int32)
    columns[-2:] = -1
    left = np.minimum(np.arange(1, chain + 1), chain - 2).astype(np.int32)
    nodes: dict[str, Any] = {
        "forest_columns": columns,
        "forest_left": left,
        "forest_roots": np.zeros(1, dtype=np.int32),
    }
    values: dict[str, Any] = {
        "forest_thresholds": np.zeros(chain, np.float32),
        "forest_values": np.zeros((chain, 3), np.float32),
    }
    with pytest.raises(InvalidRequest, match="a regression of the kind forest"):
        replace(plan, **nodes, **values)
    wrapped = np.array(plan.forest_left)
    wrapped[plan.forest_columns >= 0] = 2**31 - 1
    with pytest.raises(InvalidRequest, match="a regression of the kind forest"):
        replace(plan, forest_left=wrapped)


def test_given_samples_mean_the_papers_estimator() -> None:
    vectors, right = drawn(0, 1500)
    options = PortfolioOptions.model_validate({"samples": {"count": 4, "size": 50}, "curve_points": 3})
    fitted = fit(trace_of(vectors, right), options, np.random.default_rng(0), BuildContext())
    assert fitted.plan.estimator == "occam"
    assert fitted.plan.samples.shape == (4, 50)
    assert fitted.summary["rows"]["held_out"] == 375
