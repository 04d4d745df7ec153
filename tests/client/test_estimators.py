"""Classifiers with scikit-learn's interface: promises hold on unseen rows, and they work in searches and pipelines."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from parsimony.estimators import (
    CascadeClassifier,
    IndexClassifier,
    PipelineClassifier,
    PolicyClassifier,
    PortfolioClassifier,
)
from tests.support.cases import first_quick

COSTS = {"bayes": 1.0, "logistic": 2.0, "forest": 20.0}
POLICY: dict[str, Any] = {"params": {"points": 6, "trees": 24, "folds": 4}}


def estimators() -> list[tuple[str, Any]]:
    return [
        ("bayes", GaussianNB()),
        ("logistic", LogisticRegression(max_iter=2000)),
        ("forest", RandomForestClassifier(60, random_state=0)),
    ]


def digits() -> Any:
    pixels, labels = load_digits(return_X_y=True)
    return train_test_split(pixels / 16, labels, test_size=0.5, random_state=0)


def tumors() -> Any:
    values, labels = load_breast_cancer(return_X_y=True)
    return train_test_split(values[:, :6], np.array(["malignant", "benign"])[labels], test_size=0.5, random_state=0)


def allowance(fitted: Any, truths: Any) -> float:
    """Return three standard errors of the difference between promised and actual accuracy."""
    promised = fitted.savings_.accuracy
    error: float = (promised * (1 - promised) * (1 / fitted.savings_.rows + 1 / len(truths))) ** 0.5
    return 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CascadeClassifier, PortfolioClassifier])
def test_what_is_promised_comes_true_on_unseen_rows(kind: Any) -> None:
    learned, unseen, labels, truths = digits()
    fitted = kind(estimators(), COSTS, budget=4.0).fit(learned, labels)
    accuracy = fitted.score(unseen, truths)
    assert fitted.costs_.mean() <= 4.0 * 1.1
    assert accuracy >= max(one.fit(learned, labels).score(unseen, truths) for _, one in estimators()[:2]) - 0.01
    default = kind(estimators(), COSTS).fit(learned, labels)
    assert default.score(unseen, truths) == pytest.approx(default.savings_.accuracy, abs=allowance(default, truths))
    assert default.costs_.mean() == pytest.approx(default.decision_cost_, rel=0.25)
    assert set(default.answered_by_) <= COSTS.keys()
    assert len(default.curve_) > 1


def test_probabilities_are_those_of_the_answering_classifier() -> None:
    learned, unseen, labels, _ = digits()
    fitted = CascadeClassifier(estimators()[:2], COSTS).fit(learned, labels)
    shares = fitted.predict_proba(unseen)
    assert shares.sum(axis=1) == pytest.approx(1)
    for name, one in fitted.estimators_.items():
        own = fitted.answered_by_ == name
        np.testing.assert_array_equal(shares[own], one.predict_proba(unseen)[own])
    spent = sum(COSTS[name] for name in fitted.estimators_)
    assert set(fitted.costs_) <= {*COSTS.values(), spent}


@pytest.mark.slow
def test_policies_acquire_features_and_follow_losses() -> None:
    learned, unseen, labels, truths = tumors()
    costs = [0.01] * 6
    plain = PolicyClassifier(costs, **POLICY).fit(learned, labels)
    assert plain.score(unseen, truths) == pytest.approx(plain.savings_.accuracy, abs=allowance(plain, truths))
    assert plain.costs_.mean() == pytest.approx(plain.decision_cost_, rel=0.25)
    assert plain.costs_ == pytest.approx([0.01 * len(path) for path in plain.paths_])
    losses = {"malignant": {"benign": 50.0}, "benign": {"malignant": 1.0}}
    careful = PolicyClassifier(costs, losses=losses, **POLICY).fit(learned, labels)
    sick = truths == "malignant"
    recalls = [(one.predict(unseen)[sick] == "malignant").mean() for one in (plain, careful)]
    assert recalls[1] > recalls[0]


def test_pipelines_follow_losses_and_then_reject_no_row() -> None:
    learned, unseen, labels, truths = tumors()
    losses = {"malignant": {"benign": 50.0}, "benign": {"malignant": 1.0}}
    plain, careful = (
        PipelineClassifier([0.01] * 6, losses=given, params={"after_last_stage": "answer"}).fit(learned, labels)
        for given in (None, losses)
    )
    sick = truths == "malignant"
    recalls = [(one.predict(unseen)[sick] == "malignant").mean() for one in (plain, careful)]
    assert recalls[1] > recalls[0]
    assert not careful.rejected_.any()


def test_pipelines_count_rejected_rows_as_not_answered() -> None:
    learned, unseen, labels, truths = tumors()
    fitted = PipelineClassifier(params={"confidence_threshold": 0.9, "max_stages": 2}).fit(learned, labels)
    right = fitted.predict(unseen) == truths
    assert 0 < fitted.rejected_.mean() < 0.5
    assert right[fitted.rejected_].mean() < right[~fitted.rejected_].mean()
    promised, actual = fitted.savings_.accuracy, (right & ~fitted.rejected_).mean()
    assert actual == pytest.approx(promised, abs=allowance(fitted, truths))
    assert fitted.costs_.mean() == pytest.approx(fitted.decision_cost_, rel=0.25)
    assert fitted.costs_ == pytest.approx([len(path) for path in fitted.paths_])
    assert (fitted.decision_cost_, promised) in [pytest.approx(point) for point in fitted.curve_]


def test_indexes_acquire_the_same_features_for_all_rows_within_the_budget() -> None:
    learned, unseen, labels, truths = tumors()
    costs = [1.0, 1.0, 1.0, 5.0, 5.0, 5.0]
    fitted = IndexClassifier(costs).fit(learned, labels)
    assert fitted.score(unseen, truths) == pytest.approx(fitted.savings_.accuracy, abs=allowance(fitted, truths))
    cheap = IndexClassifier(costs, budget=3.0).fit(learned, labels)
    cheap.predict(unseen)
    (path,) = set(cheap.paths_)
    assert set(path) <= {0, 1, 2}
    assert set(cheap.costs_) == {float(len(path))}


@pytest.mark.parametrize("kind", [IndexClassifier, PipelineClassifier, PolicyClassifier])
def test_shared_set_up_work_is_paid_once_per_row(kind: Any) -> None:
    learned, unseen, labels, _ = tumors()
    setup = {"scan": (10.0, [0, 2, 3]), "stain": (4.0, [3, 4])}
    fitted = kind([1.0] * 6, setup=setup, params=POLICY["params"] if kind is PolicyClassifier else None)
    fitted = clone(fitted).fit(learned, labels)
    fitted.predict(unseen)
    expected = [
        len(path) + sum(cost for cost, own in setup.values() if not {*own}.isdisjoint(path)) for path in fitted.paths_
    ]
    assert fitted.costs_ == pytest.approx(expected)
    assert max(expected) > 4
    with pytest.raises(ValueError, match="'scan' must have columns of X, indices up to 5, got 6"):
        kind(setup={"scan": (10.0, [6])}).fit(learned, labels)


@pytest.mark.parametrize("frame", first_quick(["pandas", "polars"]))
def test_frames_keep_the_names_of_their_columns(frame: str) -> None:
    learned, unseen, labels, _ = tumors()
    library, names = pytest.importorskip(frame), [f"size {at}" for at in range(6)]

    def table(values: Any) -> Any:
        return library.DataFrame(dict(zip(names, values.T, strict=True)))

    fitted = IndexClassifier().fit(table(learned), labels)
    assert fitted.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(fitted.predict(table(unseen)), IndexClassifier().fit(learned, labels).predict(unseen))
    cascade = CascadeClassifier(estimators()[:2], COSTS, cv=2).fit(table(learned), labels)
    assert cascade.estimators_["bayes"].feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="feature names"):
        cascade.predict(table(unseen)[names[::-1]])


def test_estimators_of_a_cascade_may_read_texts() -> None:
    texts = [f"{word} {at % 7}" for at in range(30) for word in ("refund", "invoice", "return", "bill")]
    labels = np.array(["refund", "bill"] * 60)
    few, every = (make_pipeline(CountVectorizer(max_features=count), MultinomialNB()) for count in (1, None))
    fitted = CascadeClassifier([("few", few), ("all", every)], {"few": 1.0, "all": 10.0}).fit(texts, labels)
    assert fitted.score(texts, labels) == 1
    assert fitted.costs_.mean() < 11


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PolicyClassifier, PipelineClassifier, IndexClassifier])
def test_a_weight_of_two_is_a_row_that_is_twice_in_its_group(kind: Any) -> None:
    learned, unseen, labels, _ = tumors()
    counts = np.random.default_rng(0).integers(0, 4, len(labels))
    small = kind(params=POLICY["params"] if kind is PolicyClassifier else None)
    weighted = clone(small).fit(learned, labels, sample_weight=counts)
    rows = np.arange(len(labels)).repeat(counts)
    repeated = clone(small).fit(learned[rows], labels[rows], groups=rows)
    np.testing.assert_array_equal(weighted.predict_proba(unseen), repeated.predict_proba(unseen))


def test_rows_of_a_group_are_in_one_fold() -> None:
    rng = np.random.default_rng(0)
    noise, labels, groups = rng.standard_normal((150, 2)), rng.integers(0, 2, 150), np.tile(np.arange(150), 2)
    copies = CascadeClassifier([("neighbor", KNeighborsClassifier(1))], {"neighbor": 1.0})
    rows = noise[groups], labels[groups]
    assert clone(copies).fit(*rows).savings_.accuracy == 1
    assert clone(copies).fit(*rows, groups=groups).savings_.accuracy < 0.65


def test_refusals_name_the_value_and_the_bound() -> None:
    learned, unseen, labels, _ = tumors()
    for wrong, message in (
        (IndexClassifier([1.0]), "6 numbers"),
        (IndexClassifier(losses={"sick": {"benign": 1.0}}), "'sick'"),
        (IndexClassifier(params={"folds": 1}), "folds: .*at least 2"),
        (PipelineClassifier(budget=1e-9), "the limit is 1e-09"),
        (CascadeClassifier(estimators()[:2], COSTS, cv=2, budget=-1.0), "at least 0"),
        (CascadeClassifier(estimators()[:2], {"bayes": 1.0}), "'logistic', got bayes"),
        (CascadeClassifier(estimators()[:1] * 2, COSTS), "different names, got bayes, bayes"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong.fit(learned, labels).predict(unseen)


@pytest.mark.slow
def test_searches_choose_a_budget_within_a_pipeline() -> None:
    learned, unseen, labels, truths = tumors()
    piped = make_pipeline(StandardScaler(), IndexClassifier())
    search = GridSearchCV(piped, {"indexclassifier__budget": [0.0, 2.0, 4.0]}, cv=2).fit(learned, labels)
    assert search.best_params_["indexclassifier__budget"] > 0
    assert search.score(unseen, truths) > 0.85
    cascades = GridSearchCV(CascadeClassifier(estimators()[:2], COSTS, cv=3), {"budget": [1.0, 3.0]}, cv=2)
    cascades.fit(learned, labels)
    assert clone(cascades.best_estimator_).get_params()["budget"] == cascades.best_params_["budget"]


@pytest.mark.slow
def test_searches_choose_arguments_of_the_estimators() -> None:
    learned, _, labels, _ = tumors()
    grid = {"forest__max_depth": [1, 4]}
    search = GridSearchCV(CascadeClassifier(estimators(), COSTS, cv=3), grid, cv=2).fit(learned, labels)
    assert search.best_estimator_.get_params()["forest__max_depth"] == search.best_params_["forest__max_depth"]
    assert search.best_estimator_.estimators_["forest"].max_depth == search.best_params_["forest__max_depth"]


def test_costs_may_name_the_columns_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    learned, _, labels, _ = tumors()
    frame = pandas.DataFrame(np.asarray(learned)[:, :3], columns=["a", "b", "c"])
    named = IndexClassifier({"c": 5.0, "a": 1.0, "b": 2.0}).fit(frame, labels)
    listed = IndexClassifier([1.0, 2.0, 5.0]).fit(frame, labels)
    assert named.decision_cost_ == listed.decision_cost_
    for data, costs in ((frame, {"a": 1.0}), (frame.to_numpy(), {"a": 1.0, "b": 1.0, "c": 1.0})):
        with pytest.raises(ValueError, match="columns of X"):
            IndexClassifier(costs).fit(data, labels)


def test_pipelines_with_equal_losses_are_those_without_losses() -> None:
    learned, unseen, labels, _ = tumors()
    equal = {"malignant": {"benign": 1.0}, "benign": {"malignant": 1.0}}
    plain, same = (PipelineClassifier([1.0] * 6, losses=losses).fit(learned, labels) for losses in (None, equal))
    np.testing.assert_array_equal(plain.predict(unseen), same.predict(unseen))
    np.testing.assert_array_equal(plain.rejected_, same.rejected_)
