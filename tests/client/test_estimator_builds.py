"""Classifiers that are built on a server are those that are built in this process, and leave nothing there."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from parsimony import Parsimony
from parsimony.errors import Unavailable
from parsimony.estimators import CascadeClassifier, IndexClassifier, PortfolioClassifier
from tests.support.servers import Server

CALLED = [("bayes", GaussianNB()), ("logistic", LogisticRegression(max_iter=5000))]
COSTS = {"bayes": 1.0, "logistic": 5.0}


def rows() -> Any:
    values, labels = load_breast_cancer(return_X_y=True)
    return values[:, :4], np.array(["malignant", "benign"])[labels]


@pytest.mark.parametrize(
    "classifier",
    [
        CascadeClassifier(CALLED, COSTS),
        PortfolioClassifier(CALLED, COSTS, budget=3.0, params={"estimator": "occam"}),
        IndexClassifier(losses={"malignant": {"benign": 50.0}, "benign": {"malignant": 1.0}}),
    ],
)
def test_builds_on_a_server_are_those_of_this_process(
    all_kinds: Server, monkeypatch: pytest.MonkeyPatch, classifier: Any
) -> None:
    monkeypatch.setenv("PARSIMONY_KEY", "k")
    values, labels = rows()
    given = {"sample_weight": 1.0 + (labels == "benign"), "groups": np.arange(len(labels)) // 2}
    here = clone(classifier).fit(values, labels, **given)
    there = clone(classifier).set_params(server=all_kinds.url).fit(values, labels, **given)
    np.testing.assert_array_equal(there.predict_proba(values), here.predict_proba(values))
    assert there.savings_ == here.savings_
    assert there.curve_ == here.curve_
    with Parsimony(all_kinds.url) as client:
        names = [
            one["name"] for path in ("datasets", "artifacts") for one in client.call("GET", f"/v1/{path}")["items"]
        ]
    assert [name for name in names if name.startswith("estimator-")] == []


def test_a_server_refuses_as_this_process_does(all_kinds: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARSIMONY_KEY", "k")
    values, labels = rows()
    few = values[:10], labels[15:25]
    assert len(set(few[1])) == 2
    with pytest.raises(ValueError, match="10 rows"):
        CascadeClassifier(CALLED, COSTS, cv=2, server=all_kinds.url).fit(*few)
    with pytest.raises(Unavailable):
        IndexClassifier(server="http://127.0.0.1:1").fit(values, labels)
