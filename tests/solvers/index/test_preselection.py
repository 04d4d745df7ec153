"""Tables of more features than a lattice holds: which are looked at, by which rows, and what is said of them."""

from dataclasses import replace

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, InvalidRequest
from models.index import IndexOptions, IndexQuery
from solvers import BuildContext
from solvers.index import fit
from solvers.index.lattice import MAX_FEATURES
from solvers.index.preselection import choose_features, preselect_features
from tests.oracles.index import table_of


def wide(
    rows: int = 600, features: int = 60, informative: tuple[int, ...] = (7, 23, 41), seed: int = 0
) -> FeatureTable:
    """Draw a table of which three features tell the class, one by how far it is from 0; the others nothing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=rows)
    values = rng.normal(size=(rows, features))
    for place, column in enumerate(informative):
        shift = 1.2 * labels
        values[:, column] = values[:, column] * (1 + 2 * shift) if place == 2 else values[:, column] + shift
    return table_of(values, labels.tolist(), [1.0] * features)


def test_what_tells_is_taken_first_whatever_its_shape() -> None:
    table = wide()
    taken = choose_features(table.values, table.labels.astype(np.int64), np.arange(60), np.ones(60), 3)
    assert set(taken.tolist()) == {7, 23, 41}


def test_every_second_feature_is_taken_by_what_it_tells_for_its_cost() -> None:
    table, costs = wide(), np.ones(60)
    costs[41], costs[[7, 23]] = 0.01, 50.0
    taken = choose_features(table.values, table.labels.astype(np.int64), np.arange(60), costs, 2)
    assert taken[0] in (7, 23, 41)
    assert 41 in taken


def test_cheap_copies_of_dear_features_are_taken_too() -> None:
    """A copy explains nothing of what its original leaves: who cannot pay that one would be left with noise."""
    rng = np.random.default_rng(0)
    informative = rng.normal(size=(600, 5))
    labels = (informative.sum(axis=1) + rng.normal(size=600) > 0).astype(np.int64)
    values = np.column_stack(
        [informative, informative + 0.1 * rng.normal(size=informative.shape), rng.normal(size=(600, 30))]
    )
    costs = np.repeat([10.0, 1.0, 2.0], [5, 5, 30])
    taken = choose_features(values, labels, np.arange(40), costs, MAX_FEATURES)
    assert len(set(taken.tolist())) == MAX_FEATURES
    assert set(range(5, 10)) <= set(taken.tolist())


def test_free_features_are_taken_by_what_they_tell() -> None:
    """Their price is none: divided by it all would tell without limit, and the first come first."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(6_000, 40))
    labels = (values[:, 35:38].sum(axis=1) > 0).astype(np.int64)
    for costs in (np.zeros(40), np.append(np.zeros(39), 5.0)):
        taken = choose_features(values, labels, np.arange(40), costs, 6)
        assert set(taken[:3].tolist()) == {35, 36, 37}


@pytest.mark.slow
def test_costs_of_sizes_of_what_is_left_out_need_a_size_only_where_it_was_computed() -> None:
    table = wide(240, 23, (3, 7, 11))
    probe = preselect_features(table, np.ones(23), np.random.default_rng(0))
    features = [
        each.model_dump() | ({"cost": {"polynomial": [1.0, 0.5]}} if each.name in probe.left_out else {})
        for each in table.spec.features
    ]
    spec = FeaturesSpec.model_validate({**table.spec.model_dump(), "size": "size", "features": features})
    table = replace(table, spec=spec, sizes=np.full((240, 1), 2.0))
    options = IndexOptions(folds=2, learner="sklearn.naive_bayes.GaussianNB", standardize=False, max_models=60)
    plan = fit(table, options, np.random.default_rng(0), BuildContext()).plan
    left_out = next((name for name in plan.left_out if name in probe.left_out), None)
    assert left_out, "the draw leaves out none whose cost depends on the size"
    sized = plan.powers.shape[1] == 1
    query = IndexQuery(budget=9.0, size=4.0, computed=(left_out,))
    assert plan.decide(query).cost <= 9.0 - 3.0
    with pytest.raises(InvalidRequest, match="size"):
        plan.decide(IndexQuery(budget=9.0, computed=(left_out,)))
    assert sized or plan.decide(IndexQuery(budget=2.0)).cost <= 2.0


@pytest.mark.slow
def test_forged_costs_of_what_is_left_out_are_refused() -> None:
    options = IndexOptions(folds=2, learner="sklearn.naive_bayes.GaussianNB", standardize=False, max_models=60)
    plan = fit(wide(240, 23, (3, 7, 11)), options, np.random.default_rng(0), BuildContext()).plan
    for shape in ((1, 0), (0, 1), (1, 1)):
        for powers in ((0, 0), (shape[1], 0)):
            with pytest.raises(InvalidRequest, match="each feature left out"):
                replace(plan, left_out_powers=np.zeros(powers, np.int64), left_out_coefficients=np.ones(shape))


@pytest.mark.slow
def test_sequences_of_a_wide_table_are_whole_and_no_answer_is_behind_them() -> None:
    table = wide(240, 30, (3, 7, 23))
    features = [each.model_dump() | {"cost": 1.0 + place % 4} for place, each in enumerate(table.spec.features)]
    table = replace(table, spec=FeaturesSpec.model_validate({**table.spec.model_dump(), "features": features}))
    options = IndexOptions(folds=2, learner="sklearn.naive_bayes.GaussianNB", standardize=False)
    plan = fit(table, options, np.random.default_rng(0), BuildContext()).plan
    assert plan.orders.shape[1] == MAX_FEATURES
    assert set(plan.lambdas.tolist()) >= {0.0, np.inf}
    for budget in np.linspace(0, 60, 61).tolist():
        decided = [
            plan.decide(IndexQuery(budget=budget, method=method))
            for method in ("poly-dom", "naive", "greedy", "greedy-acc", "greedy-cost")
        ]
        assert all(each.cost <= budget for each in decided)
        assert min(decided[0].accuracy, decided[1].accuracy) >= max(each.accuracy for each in decided[2:])


@pytest.mark.parametrize("features", [MAX_FEATURES, MAX_FEATURES + 1])
def test_only_a_table_of_more_than_a_lattice_holds_is_narrowed(features: int) -> None:
    table = wide(90, features, (0, 1, 2))
    kept = preselect_features(table, np.ones(features), np.random.default_rng(0))
    assert len(kept.all_rows.spec.features) == MAX_FEATURES
    assert len(kept.left_out) == features - MAX_FEATURES
    assert (kept.all_rows.rows, kept.other_rows.rows) == (90, 90 if features == MAX_FEATURES else 60)
    if kept.left_out:
        names = [feature.name for feature in table.spec.features]
        assert [name for name in names if name not in kept.left_out] == [f.name for f in kept.all_rows.spec.features]
        column = names.index(kept.all_rows.spec.features[-1].name)
        assert np.array_equal(kept.all_rows.values[:, -1], table.values[:, column])


def test_the_index_of_a_wide_table_uses_what_budgets_afford_and_says_what_comes_true() -> None:
    fitted = fit(wide(), IndexOptions(max_models=62, folds=3), np.random.default_rng(0), BuildContext())
    plan, fresh = fitted.plan, wide(3_000, seed=9)
    assert fitted.summary["rows"] == 400
    assert len(fitted.summary["left_out"]) == 40
    chosen = [plan.decide(IndexQuery(budget=budget)).features for budget in (0.0, 1.0, 2.0)]
    assert list(map(len, chosen)) == [0, 1, 2]
    assert set(chosen[2]) == {"f7", "f23"}  # a linear learner cannot use the third
    items = [{"c7": row[7], "c23": row[23]} for row in fresh.values.tolist()]
    labels = np.array(fresh.classes)[fresh.labels]
    right = float((np.array(plan.predict(chosen[2], items).labels) == labels).mean())
    assert right == pytest.approx(plan.decide(IndexQuery(budget=2.0)).accuracy, abs=0.06)
    left_out = fitted.summary["left_out"][0]
    assert plan.decide(IndexQuery(budget=2.0, computed=(left_out,))).features == chosen[1], "it cost 1"
    for method in ("poly-dom", "greedy", "greedy-acc", "greedy-cost"):
        for budget in (0.0, 1.0, 2.0, 3.0, 5.0):
            decided = plan.decide(IndexQuery(budget=budget, computed=(left_out,), method=method))
            assert decided.cost <= max(budget - 1, 0.0)
            again = plan.decide(IndexQuery(budget=budget, computed=(left_out,), spent=1.0, method=method))
            assert (decided.features, decided.cost) == (again.features, again.cost)
    older = replace(plan, left_out_powers=np.empty((0, 0), np.int64), left_out_coefficients=np.empty((0, 0)))
    with pytest.raises(InvalidRequest, match="set spent"):
        older.decide(IndexQuery(budget=2.0, computed=(left_out,)))
    with pytest.raises(InvalidRequest, match="nothing"):
        plan.decide(IndexQuery(budget=2.0, computed=("nothing",)))


def test_rows_that_learn_and_report_choose_no_feature() -> None:
    table = wide(240, 80)
    kept = preselect_features(table, np.ones(80), np.random.default_rng(0))
    names = [feature.name for feature in table.spec.features]
    column = names.index(kept.all_rows.spec.features[0].name)
    reporting = np.isin(table.values[:, column], kept.other_rows.values[:, 0])
    assert reporting.sum() == kept.other_rows.rows == 160
    other_labels = np.where(reporting, 1 - table.labels, table.labels).astype(np.int32)
    for changed, alike in ((other_labels, True), (1 - other_labels[::-1], False)):
        again = preselect_features(
            replace(table, labels=changed.astype(np.int32)), np.ones(80), np.random.default_rng(0)
        )
        assert (again.left_out == kept.left_out) == alike
