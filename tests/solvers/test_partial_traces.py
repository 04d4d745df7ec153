"""Doubly robust values of partial traces: held against worlds whose truth is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import Dataset, DatasetFacts, InvalidRequest, Trace, TraceSpec
from models.advice import AdviceLimits
from models.arrays import Bools, Floats
from models.portfolio import PortfolioOptions
from solvers.advice import advise
from solvers.base import BuildContext, make_generator
from solvers.dataset_profile import profile_dataset
from solvers.partial_traces import (
    effective_calls,
    impute_uncalled,
    list_missing_call_warnings,
    measure_classifiers,
    prepare_rows,
    replay_on_complete_rows,
    take_complete_rows,
)
from solvers.portfolio.kind import PortfolioKind
from solvers.savings import AS_LOGGED, Replay, SettingReplay
from solvers.trace_baselines import find_current_baseline, replay_trace_baselines

NAMES = ("cheap", "strong")
PRICES = np.array([1.0, 10.0])


class LoggedWorld:
    """Items with a difficulty that their embedding shows; difficult ones were sent to the strong classifier."""

    def __init__(self, seed: int, rows: int = 1200, both: float = 0.15, *, has_propensities: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.hard = rng.random(rows)
        self.embeddings = np.column_stack((self.hard, rng.normal(size=(rows, 3)))).astype(np.float32)
        chances = np.column_stack((0.95 - 0.8 * self.hard, 0.97 - 0.2 * self.hard))
        self.right = (rng.random((rows, 2)) < chances).astype(float)
        self.costs = PRICES * (0.5 + self.hard[:, None])
        self.strong_share = 0.1 + 0.8 * self.hard
        to_strong = rng.random(rows) < self.strong_share
        called = np.column_stack((~to_strong, to_strong)) | (rng.random(rows) < both)[:, None]
        self.called: Bools = np.asarray(called)
        self.has_propensities, self.both = has_propensities, both

    @property
    def propensities(self) -> Floats:
        chosen = np.column_stack((1 - self.strong_share, self.strong_share))
        return self.both + (1 - self.both) * chosen

    def spec(self) -> TraceSpec:
        own: list[dict[str, Any]] = [{"name": n, "correct": n, "cost": {"column": f"{n}_usd"}} for n in NAMES]
        if self.has_propensities:
            own = [{**one, "propensity": f"{one['name']}_p"} for one in own]
        return TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": own})

    def trace(self, *, is_complete: bool = False, embeds: bool = True) -> Trace:
        known = np.ones_like(self.called) if is_complete else self.called
        columns: dict[str, Any] = {}
        for j, name in enumerate(NAMES):
            columns[name] = np.where(known[:, j], self.right[:, j], np.nan)
            columns[f"{name}_usd"] = np.where(known[:, j], self.costs[:, j], np.nan)
            columns[f"{name}_p"] = self.propensities[:, j]
        return Trace.from_columns(self.spec(), columns, self.embeddings if embeds else None)


def estimated(trace: Trace, seed: int = 0) -> Trace:
    dataset = impute_uncalled(trace, seed)
    assert isinstance(dataset, Trace)
    return dataset


@pytest.mark.slow
def test_means_are_unbiased_where_those_of_the_calls_are_not() -> None:
    """Over twelve worlds: intervals of doubly robust means hold the truth; means of calls are wrong by ten points."""
    inside, biases, errors = 0, [], []
    for seed in range(12):
        world = LoggedWorld(seed, 600)
        values = estimated(world.trace()).quality
        truth = 0.95 - 0.8 * world.hard.mean()
        error = values[:, 0].std() / len(values) ** 0.5
        inside += abs(values[:, 0].mean() - truth) < 1.96 * error
        errors.append(values[:, 0].mean() - truth)
        biases.append(np.nanmean(world.trace().quality, axis=0)[0] - truth)
    assert inside >= 9
    assert abs(np.mean(errors)) < 0.02
    assert np.mean(biases) > 0.05


def test_recorded_propensities_need_no_embeddings() -> None:
    errors = []
    for seed in range(10):
        world = LoggedWorld(seed, 2000, has_propensities=True)
        values = estimated(world.trace(embeds=False))
        errors.append(values.quality.mean(axis=0) - world.right.mean(axis=0))
    assert np.abs(np.mean(errors, axis=0)).max() < 0.02


def test_a_complete_trace_stays_as_it_is() -> None:
    complete = LoggedWorld(0, 100).trace(is_complete=True)
    assert impute_uncalled(complete, 0) is complete
    assert prepare_rows(complete, 0, takes_partial=False) is complete
    assert not list(list_missing_call_warnings(complete))


@pytest.mark.slow
def test_the_choices_of_a_log_are_todays_baseline() -> None:
    world = LoggedWorld(3, 400)
    trace, rows = estimated(world.trace()), np.arange(400)
    baselines = replay_trace_baselines(trace, rows)
    assert find_current_baseline(baselines, trace, rows) == AS_LOGGED
    counts = world.called.sum(axis=1)
    paid, right = ((each * world.called).sum(axis=1) / counts for each in (world.costs, world.right))
    assert baselines[AS_LOGGED].costs == pytest.approx(paid)
    assert baselines[AS_LOGGED].right == pytest.approx(right)
    savings = PortfolioKind().fit(trace, PortfolioOptions(curve_points=5), make_generator(0), BuildContext()).savings
    assert savings is not None
    assert savings.today is not None
    assert savings.today.name == AS_LOGGED
    assert savings.today.cost == pytest.approx(paid.mean(), rel=0.1)
    world.costs = np.tile(PRICES, (400, 1))
    fixed = replace(trace, observed_costs=world.costs)  # known without a call
    paid = (world.costs * world.called).sum(axis=1) / counts
    assert replay_trace_baselines(fixed, rows)[AS_LOGGED].costs == pytest.approx(paid)
    explored = replace(trace, spec=trace.spec.model_copy(update={"joint_propensity": "smallest"}))
    assert AS_LOGGED not in replay_trace_baselines(explored, rows)
    filled = estimated(LoggedWorld(3, 400, both=0.8).trace())
    assert AS_LOGGED not in replay_trace_baselines(filled, rows)


def test_equal_seeds_give_equal_values() -> None:
    trace = LoggedWorld(3, 300).trace()
    np.testing.assert_array_equal(estimated(trace, 5).quality, estimated(trace, 5).quality)
    np.testing.assert_array_equal(estimated(trace, 5).observed, trace.quality)


def test_costs_that_are_known_without_a_call_stay() -> None:
    sizes = np.random.default_rng(0).uniform(1, 100, 200)
    own = [{"name": n, "correct": n, "cost": {"polynomial": [0.0, p]}} for n, p in zip(NAMES, PRICES, strict=True)]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "size": "size", "classifiers": own})
    world = LoggedWorld(0, 200)
    columns = {n: np.where(world.called[:, j], world.right[:, j], np.nan) for j, n in enumerate(NAMES)}
    trace = Trace.from_columns(spec, {**columns, "size": sizes})
    np.testing.assert_allclose(trace.costs, sizes[:, None] * PRICES)
    np.testing.assert_array_equal(estimated(trace).costs, trace.costs)


def test_complete_rows_of_one_sort_of_items_only_are_refused() -> None:
    world = LoggedWorld(5, 1500, both=0.0)
    world.called[world.hard < 0.4] = True
    with pytest.raises(InvalidRequest, match=r"in \d+% of the rows, the propensity"):
        take_complete_rows(world.trace(), 0)


def test_occam_samples_need_a_complete_trace() -> None:
    facts = DatasetFacts.from_dataset(LoggedWorld(0, 200).trace())
    with pytest.raises(InvalidRequest, match="estimator"):
        PortfolioKind().check(facts, PortfolioOptions(estimator="occam"))


def test_few_calls_and_classifiers_without_overlap_are_refused_with_numbers() -> None:
    world = LoggedWorld(1, 600, both=0.0)
    world.called[:] = [[True, False]] * 580 + [[False, True]] * 20
    with pytest.raises(InvalidRequest, match=r"30 .*got 20 of 'strong'"):
        impute_uncalled(world.trace(), 0)
    apart = LoggedWorld(1, 1200, both=0.0)
    apart.called[:, 0], apart.called[:, 1] = apart.hard < 0.5, apart.hard >= 0.5
    with pytest.raises(InvalidRequest, match=r"'(cheap|strong)'.* \d+%"):
        impute_uncalled(apart.trace(), 0)


def test_complete_rows_are_repeated_by_their_inverse_propensity() -> None:
    world = LoggedWorld(2, 3000)
    world.called[:] = [True, False]
    world.called[np.random.default_rng(0).random(3000) < 0.1 + 0.8 * world.hard] = True
    complete = take_complete_rows(world.trace(), 0)
    assert not complete.is_partial
    assert abs(complete.embeddings[:, 0].mean() - world.hard.mean()) < 0.03
    assert abs(world.hard[world.called[:, 1]].mean() - world.hard.mean()) > 0.1
    assert len(np.unique(complete.item_codes)) == world.called[:, 1].sum()


def test_too_few_complete_rows_are_refused() -> None:
    world = LoggedWorld(2, 400, both=0.01)
    with pytest.raises(InvalidRequest, match=r"at least 30 rows in which all classifiers were called, got \d+ of 400"):
        take_complete_rows(world.trace(), 0)


def test_replays_of_complete_rows_estimate_the_mean_over_all_rows() -> None:
    world = LoggedWorld(4, 3000, both=0.3)
    trace = world.trace()

    def replay(rows: Trace) -> list[SettingReplay]:
        return [SettingReplay({}, Replay(rows.quality[:, 0], rows.costs[:, 0]))]

    (one,) = replay_on_complete_rows(trace, 0, replay)
    assert one.replay.right.shape == (3000,)
    assert abs(one.replay.right.mean() - world.right[:, 0].mean()) < 0.04
    assert abs(one.replay.costs.mean() - world.costs[:, 0].mean()) < 0.05


def test_effective_calls_are_fewer_where_called_items_differ() -> None:
    called = np.ones((100, 1), dtype=bool)
    even = effective_calls(called, np.full((100, 1), 0.5))
    uneven = effective_calls(called, np.linspace(0.05, 1, 100)[:, None])
    assert even[0] == pytest.approx(100)
    assert uneven[0] < 60


def test_the_profile_has_the_calls_and_means_of_all_items() -> None:
    world = LoggedWorld(6, 1000)
    profile: Any = profile_dataset(world.trace())
    cheap = profile.classifiers[0]
    assert cheap.calls == world.called[:, 0].sum()
    assert cheap.effective_calls < cheap.calls
    assert abs(cheap.accuracy - world.right[:, 0].mean()) < 0.06
    assert profile.agreement.wrong[0] == ((world.right[:, 0] == 0) & world.called[:, 0]).sum()
    few = LoggedWorld(6, 40, both=0.0)
    means = measure_classifiers(few.trace())
    assert (means.effective_calls, means.accuracies) == ([None, None], np.nanmean(few.trace().quality, axis=0).tolist())


def test_the_warning_counts_calls() -> None:
    world = LoggedWorld(6, 200)
    (warning,) = list_missing_call_warnings(world.trace())
    assert warning.code == "partial-calls"
    assert warning.share == pytest.approx(1 - world.called.mean())
    assert f"{world.called.all(axis=1).sum()}" in warning.message


@pytest.fixture(scope="module")
def built() -> tuple[Any, Any, LoggedWorld]:
    """Build one portfolio from all outcomes, and one from the log of the same world."""
    world, kind = LoggedWorld(8, 900), PortfolioKind()
    plans: list[Any] = []
    for trace in (world.trace(is_complete=True), world.trace()):
        rows: Dataset = prepare_rows(trace, 0, takes_partial=True)
        assert isinstance(rows, Trace)
        plans.append(kind.fit(rows, kind.options(), make_generator(0), BuildContext()).plan)
    return plans[0], plans[1], world


@pytest.mark.slow
def test_a_portfolio_of_a_log_routes_nearly_as_well_as_one_of_all_outcomes(built: tuple[Any, Any, LoggedWorld]) -> None:
    complete, partial, _ = built
    fresh = LoggedWorld(99, 4000)
    rows = np.arange(4000)
    for budget in (3.0, 5.0):
        reached = []
        for plan in (complete, partial):
            choice = plan.make_router(plan.estimate(fresh.embeddings), fresh.embeddings)(budget * 4000)
            reached.append(fresh.right[rows, choice].mean())
            assert (fresh.costs[rows, choice]).mean() < budget * 1.08
        assert reached[1] > reached[0] - 0.03


@pytest.mark.slow
def test_advice_compares_what_a_log_suffices_for(built: tuple[Any, Any, LoggedWorld]) -> None:
    advice = advise(built[2].trace(), AdviceLimits(budget=5.0), 0, 600, BuildContext())
    assert [one.kind for one in advice["kinds"]] == ["portfolio"]
    assert {one.kind for one in advice["excluded"]} >= {"cascade", "policy"}
    always = {one.name: one for one in advice["alternatives"]}["always cheap"]
    assert abs(always.accuracy - built[2].right[:, 0].mean()) < 0.1


@pytest.mark.slow
def test_a_portfolio_of_a_log_says_that_it_rests_on_fewer_rows(built: tuple[Any, Any, LoggedWorld]) -> None:
    complete, partial, _ = built
    assert complete.independence == 1
    assert 0.1 < partial.independence < 0.9
    assert "oracle" in complete.methods
    assert "oracle" not in partial.methods
