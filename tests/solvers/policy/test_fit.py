"""What a build promises: equal bytes, no learning from the rows that judge, clear refusals; hostile bytes refused."""

from dataclasses import fields, replace
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray

from app.store import codec
from models import DatasetFacts, FeaturesSpec, FeatureTable, InvalidRequest, dataset_from_columns
from models.errors import Cancelled
from models.losses import Losses
from models.policy import PolicyOptions, PolicyQuery, PolicyTarget
from solvers import BuildContext
from solvers.policy import PolicyPlan, fit
from solvers.policy.classifier_training import assign_training_folds
from solvers.policy.fit import check_dataset
from solvers.policy.losses import StoppingLosses
from solvers.policy.tradeoff_spread import list_tradeoffs
from tests.solvers.policy.problems import QUICK, build, features, many_features, trace


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_bytes() -> None:
    """Builds in this process and in two others are one."""
    here = codec.encode(build(trace(80)), {})
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):  # forked: loky's would import all of it again
        there = codec.encode(build(trace(80)), {})
    assert here == there


def test_trees_are_kept_as_arrays_and_decide_the_same_from_their_bytes() -> None:
    plan = build(trace(), PolicyOptions(points=6, folds=3, trees=10, depth=3))
    again = codec.decode(codec.encode(plan, {}), PolicyPlan)
    known: dict[str, Any] = {"fast": ("cat", 0.45)}
    for tradeoff in (0.0, 0.01, 0.1, 1.0):
        query = PolicyQuery(tradeoff=tradeoff, acquired=known, item="x")
        assert again.decide(query) == plan.decide(query)


def test_costs_of_a_size_that_the_table_has_not_are_refused_before_anything_is_queued() -> None:
    table = features()
    check_dataset(DatasetFacts.from_dataset(table), PolicyOptions())
    facts = DatasetFacts.from_dataset(replace(table, spec=table.spec.model_copy(update={"size": None})))
    with pytest.raises(InvalidRequest, match=r"depends on 1 sizes; size columns must match, got 0"):
        check_dataset(facts, PolicyOptions())


def test_labels_that_nothing_tells_are_not_found_out() -> None:
    """Classes drawn by chance stay as hidden as they are: every row is judged by a member that had not seen it."""
    rng = np.random.default_rng(5)
    spec = {"kind": "features", "label": "y", "unit": "s", "features": [
        {"name": f"f{m}", "columns": [f"f{m}"], "cost": 1.0} for m in range(3)]}  # fmt: skip
    columns: dict[str, Any] = {f"f{m}": rng.normal(size=400) for m in range(3)}
    columns["y"] = np.repeat([0, 1], 200)
    dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), columns)
    assert isinstance(dataset, FeatureTable)
    options = PolicyOptions(points=4, folds=4, trees=20)
    plan = build(dataset, options)
    assert plan.point_errors.min() > 0.4


def test_parts_hold_every_class_alike() -> None:
    labels = np.repeat(np.arange(3), (50, 20, 10)).astype(np.int32)
    parts = assign_training_folds(labels, np.arange(len(labels)), 5, np.random.default_rng(0))
    for c in range(3):
        counts = np.bincount(parts[labels == c], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_smoothed_losses_lie_between_what_is_observed_and_what_is_expected() -> None:
    rng = np.random.default_rng(0)
    posteriors = [rng.dirichlet(np.ones(3), 50) for _ in range(4)]
    labels, equal = rng.integers(3, size=50).astype(np.int32), Losses.zero_one(3)
    observed, mixed, expected = (
        StoppingLosses.from_posteriors(posteriors, labels, share, equal).learned for share in (0.0, 0.3, 1.0)
    )
    assert np.array_equal(observed, StoppingLosses.from_posteriors(posteriors, labels, 0.3, equal).observed)
    assert np.allclose(mixed, 0.7 * observed + 0.3 * expected)
    assert np.allclose(expected[-1], 1 - posteriors[-1].max(axis=1))


def test_sensors_that_cost_nothing_are_no_trouble() -> None:
    dataset = many_features(3, cost=0.0)
    plan = build(dataset)
    assert plan.point_bounds.tolist() == [0.0]
    ran = plan.run(plan.cells_of(dataset), ["x"] * dataset.rows, PolicyTarget(budget=0.0))
    assert ran.costs.max() == 0
    assert (ran.labels == dataset.labels).mean() > 0.7


def test_trade_offs_may_be_given() -> None:
    assert list_tradeoffs(PolicyOptions(tradeoffs=(0.5, 0.1, 0.5)), np.ones(2)).tolist() == [0.1, 0.5]
    plan = build(trace(150), QUICK.model_copy(update={"tradeoffs": (0.02,)}))
    assert set(plan.tradeoffs.tolist()) <= {-1.0, 0.02}


def test_costs_that_depend_on_the_item_are_learned_from_as_measured() -> None:
    """The third classifier's costs stand in a column; a plan tells their mean."""
    dataset = trace(100)
    assert build(dataset).costs.tolist() == pytest.approx(dataset.costs.mean(axis=0).tolist())


@pytest.mark.parametrize(
    ("dataset", "options", "said"),
    [
        (trace(12), QUICK, "has 12 rows.* at least 20"),
        (
            many_features(11),
            QUICK.model_copy(update={"graph": "subsets"}),
            "more than 10 sensors, got 'subsets' and 11",
        ),
        (many_features(3, cost={"polynomial": [1.0, 0.5]}), QUICK, "depends on 1 sizes; .* got 0"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_numbers(dataset: Any, options: PolicyOptions, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        build(dataset, options)


def test_one_class_is_not_enough() -> None:
    dataset = many_features(2)
    with pytest.raises(InvalidRequest, match="at least 2 classes, has only '0'"):
        build(replace(dataset, labels=np.zeros_like(dataset.labels)))


def test_a_class_that_is_rare_may_miss_from_all_that_a_member_sees() -> None:
    dataset = many_features(2)
    labels = np.minimum(dataset.labels, 1)
    labels[7] = 2
    plan = build(replace(dataset, labels=labels))
    assert plan.class_base.shape[2] == 3


def test_progress_is_told_for_every_node_and_a_build_can_be_stopped_midway() -> None:
    reports: list[tuple[int, int, str]] = []

    def note(done: int, total: int, message: str) -> None:
        reports.append((done, total, message))
        if message.startswith("learned the policies"):
            raise Cancelled("told to stop")

    with pytest.raises(Cancelled):
        fit(features(100), QUICK, np.random.default_rng(0), BuildContext(note))
    assert [done for done, *_ in reports] == sorted(done for done, *_ in reports)


def test_numbers_of_any_size_are_learned_from_without_overflow() -> None:
    """Confidences and costs as large as a dataset may hold them, and trade-offs as large as a request may."""
    dataset = trace(60)
    wild = np.where(np.isnan(dataset.confidences), np.nan, dataset.confidences * 1e300)
    options = QUICK.model_copy(update={"tradeoffs": (0.0, 1e-100, 1.0, 1e100)})
    for scale in (1e-320, 1e-90, 1e95):
        plan = build(replace(dataset, confidences=wild, costs=dataset.costs * scale), options)
        known: dict[str, Any] = {"fast": ("cat", 1e30)}
        for tradeoff in (0.0, 1e100):
            step = plan.decide(PolicyQuery(tradeoff=tradeoff, acquired=known))
            assert np.isfinite(step.expected_loss)


@pytest.fixture(scope="module")
def kept() -> PolicyPlan:
    """Give a plan with trees."""
    return build(trace(150), PolicyOptions(points=5, folds=2, trees=6, depth=2))


def broken(name: str, array: NDArray[Any]) -> list[NDArray[Any]]:
    """Break an array in every way that its kind allows."""
    variants = [array[..., :-1], array[:-1], np.concatenate([array, array]), array[None]]
    if name != "fetches":  # none: each sensor is fetched alone
        variants.append(array[:0])
    if array.dtype.kind == "f":
        for bad in (np.nan, np.inf, -np.inf):
            spoilt = array.copy()
            spoilt.flat[-1] = bad
            variants.append(spoilt)
    if name in ("targets", "class_columns", "edge_columns", "offsets", "owners", "fetches"):
        for bad in (-1, 10**6):
            spoilt = array.copy()
            spoilt.flat[-1] = bad
            variants.append(spoilt)
    return [each for each in variants if each.shape != array.shape or not np.array_equal(each, array)]


def test_every_array_that_was_tampered_with_is_refused(kept: PolicyPlan) -> None:
    """Shapes that do not fit, places out of range, numbers that are not finite."""
    for each in fields(kept):
        array = getattr(kept, each.name)
        if each.init and isinstance(array, np.ndarray) and array.size:
            for spoilt in broken(each.name, array):
                changed: dict[str, Any] = {each.name: spoilt}
                with pytest.raises(InvalidRequest):
                    replace(kept, **changed)


def test_edges_that_lead_back_are_refused(kept: PolicyPlan) -> None:
    """A walk along them might never end."""
    back = kept.targets.copy()
    back[-1] = 0
    with pytest.raises(InvalidRequest, match="edges to supersets"):
        replace(kept, targets=back)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"point_errors": lambda a: a[::-1].copy()}, "falling error"),
        ({"point_bounds": lambda a: a + 1.0}, "curve from cost 0"),
        ({"costs": lambda a: -a}, "costs must be from 0"),
        ({"class_base": lambda a: a + np.float32(1e30)}, "weights within bounds"),
        ({"tradeoffs": lambda a: a - 2.0}, "valid trade-offs"),
        ({"ranges": lambda a: a[:, ::-1].copy()}, "a range of each column"),
        ({"members": lambda a: ~a}, "a first node of no sensor"),
    ],
)
def test_contradictions_are_named(kept: PolicyPlan, change: dict[str, Any], said: str) -> None:
    changed = {name: alter(getattr(kept, name)) for name, alter in change.items()}
    with pytest.raises(InvalidRequest, match=said):
        replace(kept, **changed)


def test_what_is_free_is_bought_where_nothing_else_pays() -> None:
    """The point of the curve that costs nothing has what free sensors tell, however unlike the other costs are."""
    table = features()
    costs = iter((0.0, 1.0, 1e9))
    priced = tuple(f.model_copy(update={"cost": next(costs, 1.0)}) for f in table.spec.features)
    plan = build(
        replace(table, spec=table.spec.model_copy(update={"features": priced})),
        PolicyOptions(points=2, folds=3, trees=10),
    )
    first = plan.curve()[0]
    assert first.cost == 0
    assert first.tradeoff is not None
    assert first.sensors >= 1
