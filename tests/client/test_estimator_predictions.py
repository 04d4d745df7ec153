"""Classifiers from a table of predictions decide as those that made the table, and plots draw their figures."""

from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.naive_bayes import GaussianNB

from parsimony.estimators import CascadeClassifier, IndexClassifier, PipelineClassifier, PortfolioClassifier
from solvers.statistics import wilson_interval

COSTS = {"bayes": 1.0, "logistic": 20.0}
ESTIMATORS = [("bayes", GaussianNB()), ("logistic", LogisticRegression(max_iter=2000))]


def digits() -> Any:
    pixels, labels = load_digits(return_X_y=True)
    return train_test_split(pixels / 16, labels, test_size=0.5, random_state=0)


def tabulate(probabilities: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (each.argmax(axis=1), each.max(axis=1)) for name, each in probabilities.items()}


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (CascadeClassifier, None),
        pytest.param(PortfolioClassifier, {"estimator": "occam"}, marks=pytest.mark.slow),
    ],
)
def test_a_table_of_predictions_is_as_good_as_the_classifiers(kind: Any, params: Any) -> None:
    learned, unseen, labels, _ = digits()
    fitted = kind(ESTIMATORS, COSTS, budget=8.0, params=params, cv=5).fit(learned, labels)
    table = {name: cross_val_predict(one, learned, labels, method="predict_proba") for name, one in ESTIMATORS}
    replayed = kind.from_predictions(tabulate(table), labels, COSTS, learned, budget=8.0, params=params)
    fresh = tabulate({name: one.predict_proba(unseen) for name, one in fitted.estimators_.items()})
    np.testing.assert_array_equal(replayed.replay(fresh, unseen), fitted.predict(unseen))
    np.testing.assert_array_equal(replayed.costs_, fitted.costs_)
    np.testing.assert_array_equal(replayed.answered_by_, fitted.answered_by_)
    assert len(set(replayed.answered_by_)) == 2
    with pytest.raises(ValueError, match="only replay"):
        replayed.predict(unseen)


def test_tables_may_have_answers_that_are_no_class_and_losses_weights_and_groups() -> None:
    rng = np.random.default_rng(0)
    truths = rng.choice(["cat", "dog"], 300)
    sure, correct = rng.uniform(0.5, 1, 300), rng.uniform(0, 1, 300)
    quick = np.where(correct < sure, truths, "unclear")
    table = {"quick": (quick, sure), "person": (truths, np.ones(300))}
    more: dict[str, Any] = {"sample_weight": np.ones(300), "groups": np.arange(300) // 2}
    costs = {"quick": 1.0, "person": 5.0}
    careful, careless = (
        CascadeClassifier.from_predictions(table, truths, costs, losses={"cat": row, "dog": row}, **more)
        for row in ({"unclear": 50.0}, {"unclear": 0.1})
    )
    wrong = [(one.replay(table) == "unclear").mean() for one in (careful, careless)]
    assert wrong[0] < 0.1 < wrong[1]
    assert careful.costs_.mean() > careless.costs_.mean()
    with pytest.raises(ValueError, match="'quick', got person"):
        careless.replay({"person": table["person"]})
    with pytest.raises(ValueError, match="inconsistent"):
        careful.replay({"quick": table["quick"], "person": (truths[:9], sure)})
    longer = careful.replay({"quick": table["quick"], "person": (np.full(300, "an answer of many letters"), sure)})
    assert "an answer of many letters" in set(longer)


@pytest.mark.parametrize(
    "classifier", [IndexClassifier(), PipelineClassifier(params={"max_stages": 2, "confidence_threshold": 0.9})]
)
def test_plots_draw_the_curve_the_baselines_and_the_default_point(classifier: Any) -> None:
    pixels, labels = load_digits(return_X_y=True)
    fitted = classifier.fit(pixels[:, 18:24], labels < 5)
    axes = fitted.plot(pyplot.figure().subplots())
    savings = fitted.savings_
    np.testing.assert_allclose(axes.lines[0].get_xydata(), fitted.curve_)
    for container, points in zip(axes.containers, (savings.baselines, [savings]), strict=True):
        line, _, (bars,) = container
        np.testing.assert_allclose(line.get_xydata(), [(one.cost, one.accuracy) for one in points])
        ends = [(low, high) for (_, low), (_, high) in bars.get_segments()]
        np.testing.assert_allclose(ends, [wilson_interval(one.accuracy, float(savings.rows)) for one in points])
    assert "cost" in axes.get_xlabel()
    assert fitted.plot() is not axes
    pyplot.close("all")
