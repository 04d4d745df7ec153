"""scikit-learn's own checks of estimators; each exception has a reason."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from parsimony.estimators import (
    CascadeClassifier,
    IndexClassifier,
    PipelineClassifier,
    PolicyClassifier,
    PortfolioClassifier,
)

pytestmark = pytest.mark.slow
STATE = "predict keeps costs_ of its rows: score and searches call no other method that could report costs"
COPIES = "a row of weight 2 is two rows of one item, which splits keep together; repeated rows are split"
ROWS = "each class must have as many items as there are parts of the rows; copies of a row are one item"
EXCEPTIONS: dict[type, dict[str, str]] = {
    CascadeClassifier: {"check_dict_unchanged": STATE},
    PortfolioClassifier: {"check_dict_unchanged": STATE},
    PolicyClassifier: {
        "check_dict_unchanged": STATE,
        "check_sample_weight_equivalence_on_dense_data": COPIES,
    },
    PipelineClassifier: {
        "check_dict_unchanged": STATE,
        "check_fit2d_1feature": ROWS,
        "check_sample_weight_equivalence_on_dense_data": ROWS,
    },
    IndexClassifier: {
        "check_dict_unchanged": STATE,
        "check_sample_weight_equivalence_on_dense_data": ROWS,
    },
}
"""Checks that fail, and why that is right, by class."""

CALLED = [("bayes", GaussianNB()), ("logistic", LogisticRegression(max_iter=2000))]
COSTS = {"bayes": 1.0, "logistic": 5.0}
ESTIMATORS = [
    CascadeClassifier(CALLED, COSTS, cv=3),
    PortfolioClassifier(CALLED, COSTS, cv=3, params={"estimator": "occam"}),
    PolicyClassifier(params={"points": 3, "trees": 8, "folds": 3}),
    PipelineClassifier(params={"max_stages": 2, "after_last_stage": "answer"}),
    IndexClassifier(params={"folds": 3}),
]


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept the few rows of the checks: builds refuse fewer than 20, and portfolios fewer than 40."""
    for kind in ("cascade", "policy", "portfolio"):
        monkeypatch.setattr(import_module(f"solvers.{kind}.fit"), "MIN_ROWS", 1)


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXCEPTIONS[type(estimator)])  # type: ignore[untyped-decorator]
def test_scikit_learn_accepts(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
