"""Classifiers that call fitted classifiers: cascades and portfolios."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold, check_cv, cross_val_predict
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, get_tags, indexable
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter, validate_data

from models.cascade import CascadeStep
from parsimony.estimators.built_classifier import BuiltClassifier, convert_to_value_error
from solvers import KINDS
from solvers.kind import make_query

Call = Callable[[str, Any], Any]
"""Calls a classifier for the rows with these indices; returns its labels and its confidences."""
Predictions = Mapping[str, tuple[Any, Any]]
"""Labels and confidences, (n,) each, by classifier."""


class RoutingClassifier(BuiltClassifier, _BaseComposition):  # type: ignore[misc]
    """Base class: learns from predictions of classifiers which of them to call.

    Arguments are those of ``CascadeClassifier``.
    """

    def __init__(
        self,
        estimators: Sequence[tuple[str, Any]],
        costs: Mapping[str, float],
        *,
        budget: float | None = None,
        losses: Mapping[Any, Mapping[Any, float]] | None = None,
        cv: Any = 5,
        params: Mapping[str, Any] | None = None,
        unit: str = "cost",
        random_state: int = 0,
        server: str | None = None,
    ) -> None:
        self.estimators, self.costs, self.budget, self.losses = estimators, costs, budget, losses
        self.cv, self.params, self.unit, self.random_state, self.server = cv, params, unit, random_state, server

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments and, if ``deep``, those of each estimator as ``name__argument``."""
        found: dict[str, Any] = self._get_params("estimators", deep=deep)
        return found

    def set_params(self, **params: Any) -> Self:
        """Set arguments, also ``name`` of an estimator, or ``name__argument``."""
        self._set_params("estimators", **params)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from out-of-fold predictions which classifiers to call, and fit all of them to all rows.

        Args:
            X: (n, d), or whatever the estimators accept.
            y: (n,), classes.
            sample_weight: (n,), at least 0: how many rows of the traffic each row represents. Estimators that accept
                weights receive them.
            groups: (n,), equal for rows of one item, which folds keep together.
        """
        self._check_names([name for name, _ in self.estimators])
        X, y = validate_data(self, X, y, skip_check_array=True)
        labels, weights = self._check_rows(X, y, sample_weight)
        folds = list(self._make_splitter(labels, groups).split(X, labels, groups))
        self.estimators_, predictions = {}, {}
        for name, estimator in self.estimators:
            is_weighted = weights is not None and has_fit_parameter(estimator, "sample_weight")
            given = {"sample_weight": weights} if is_weighted else {}
            probabilities = cross_val_predict(estimator, X, labels, cv=folds, params=given, method="predict_proba")
            predictions[name] = self.classes_[probabilities.argmax(axis=1)], probabilities.max(axis=1)
            self.estimators_[name] = clone(estimator).fit(X, labels, **given)
        self._learn(predictions, labels, weights, groups, X)
        return self

    @classmethod
    def from_predictions(
        cls,
        predictions: Predictions,
        y: Any,
        costs: Mapping[str, float],
        X: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        **arguments: Any,
    ) -> Self:
        """Learn from a table of predictions; ``replay`` then decides other tables.

        Args:
            predictions: labels and confidences, (n,) each, by classifier, of rows that they were not fitted to.
            y: (n,), classes.
            costs: cost of one prediction by name.
            X: (n, d), embeddings of the rows; portfolios require them.
            sample_weight: as for ``fit``.
            groups: as for ``fit``.
            arguments: those of the class, such as ``budget`` and ``losses``.
        """
        learned = cls([], costs, **arguments)
        learned._check_names([*predictions])
        labels, weights = learned._check_rows(y, y, sample_weight)
        table = _read_predictions(predictions, labels, X)
        learned.classes_ = np.unique(np.concatenate([labels, *(answers for answers, _ in table.values())]))
        learned.estimators_ = {}
        learned._learn(table, labels, weights, groups, X)
        return learned

    def replay(self, predictions: Predictions, X: Any = None) -> Any:
        """Return the answer of each row of a table of predictions, (n,); ``costs_`` then has the cost of each row.

        Args:
            predictions: labels and confidences, (n,) each, by classifier.
            X: (n, d), embeddings of the rows; portfolios require them.
        """
        check_is_fitted(self)
        table = _read_predictions(predictions, X)
        first, *others = (labels for labels, _ in table.values())
        answers = np.empty(len(first), dtype=np.result_type(first, *others))

        def call(name: str, rows: Any) -> Any:
            if name not in table:
                raise ValueError(f"predictions must have {name!r}, got {', '.join(table)}")
            answers[rows] = table[name][0][rows]
            return answers[rows], table[name][1][rows]

        self._decide_rows(len(answers), X, call)
        return answers

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities by each row's answering classifier, (n, C); only necessary calls are made.

        ``answered_by_`` and ``costs_`` then have the answering classifier and the cost of each row.
        """
        check_is_fitted(self)
        if not self.estimators_:
            raise ValueError("estimators must not be empty: a classifier from predictions has only replay")
        (X,) = indexable(validate_data(self, X, reset=False, skip_check_array=True, ensure_2d=False))
        probabilities = np.zeros((_num_samples(X), len(self.classes_)))

        def call(name: str, rows: Any) -> Any:
            probabilities[rows] = self.estimators_[name].predict_proba(_safe_indexing(X, rows))
            return self.classes_[probabilities[rows].argmax(axis=1)], probabilities[rows].max(axis=1)

        self._decide_rows(len(probabilities), X, call)
        return probabilities

    def _check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError unless there are different classifiers, each with a cost."""
        if not names or len(set(names)) < len(names):
            raise ValueError(f"estimators must have different names, got {', '.join(names) or 'none'}")
        for name in names:
            if name not in self.costs:
                raise ValueError(f"costs must have {name!r}, got {', '.join(self.costs)}")

    def _make_splitter(self, labels: Any, groups: Any) -> Any:
        if groups is not None and isinstance(self.cv, int):
            return StratifiedGroupKFold(self.cv)
        return check_cv(self.cv, labels, classifier=True)

    def _learn(self, predictions: Predictions, labels: Any, weights: Any, groups: Any, X: Any) -> None:
        columns: dict[str, Any] = {}
        classifiers = []
        for name, (answers, confidences) in predictions.items():
            label, confidence = f"{name}.label", f"{name}.confidence"
            columns |= {label: self._encode(answers), confidence: confidences.astype(float)}
            cost = float(self.costs[name])
            classifiers.append({"name": name, "cost": cost, "prediction": label, "confidence": confidence})
        self._build({"kind": "trace", "classifiers": classifiers}, columns, labels, weights, groups, self._embed(X))

    def _embed(self, X: Any) -> Any:
        """Return the embeddings of rows, (n, d); None if they are not used."""
        return None

    def _decide_rows(self, n: int, X: Any, call: Call) -> None:
        """Call the classifiers of n rows, and keep ``answered_by_`` and ``costs_``."""
        raise NotImplementedError


def _read_predictions(predictions: Predictions, *others: Any) -> dict[str, tuple[Any, Any]]:
    """Return predictions as arrays; raises ValueError if they or other columns differ in length."""
    table = {name: (np.asarray(labels), np.asarray(sure)) for name, (labels, sure) in predictions.items()}
    check_consistent_length(*others, *(column for columns in table.values() for column in columns))
    return table


class CascadeClassifier(RoutingClassifier):
    """Calls fitted classifiers in order, until one is confident enough.

    Args:
        estimators: pairs of a name and a classifier with ``predict_proba``, which ``fit`` clones.
        costs: cost of one prediction by name.
        budget: upper bound on the mean cost per row; None: the default operating point.
        losses: loss by true class and answer; None: all errors are equal.
        cv: folds of the out-of-fold predictions, as in ``cross_val_predict``.
        params: build parameters of the kind.
        unit: unit of costs.
        random_state: seed of the build.
        server: URL of a server that builds, with the API key of ``PARSIMONY_KEY``; None: this process.
    """

    _kind = "cascade"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        accepted = [get_tags(estimator).input_tags for _, estimator in self.estimators]
        tags.input_tags.allow_nan = all(each.allow_nan for each in accepted)
        tags.input_tags.sparse = all(each.sparse for each in accepted)
        return tags

    def _decide_rows(self, n: int, X: Any, call: Call) -> None:
        with convert_to_value_error():
            steps = self.plan_.decide(make_query(KINDS["cascade"].query, **self.limits_)).steps
        waiting = np.arange(n)
        self.costs_, self.answered_by_ = np.zeros(n), np.full(n, "", dtype=object)
        for step in steps:
            labels, confidences = call(step.classifier, waiting)
            self.costs_[waiting] += self.costs[step.classifier]
            self.answered_by_[waiting] = step.classifier
            if step.confidence_threshold is None:
                break
            waiting = waiting[~(confidences >= self._list_thresholds(step, labels))]
            if not len(waiting):
                break

    def _list_thresholds(self, step: CascadeStep, labels: Any) -> Any:
        """Return the accept threshold of each label, (n,), or one for all."""
        if not step.label_thresholds:
            return step.confidence_threshold
        by_label = {self.classes_.tolist()[int(code)]: value for code, value in step.label_thresholds.items()}
        return np.array([by_label.get(label, step.confidence_threshold) for label in labels.tolist()])


class PortfolioClassifier(RoutingClassifier):
    """Calls one fitted classifier for each row, chosen by the row itself within a mean budget.

    Arguments are those of ``CascadeClassifier``; the rows of ``X`` are the embeddings, and must be numbers.
    """

    _kind = "portfolio"

    def _embed(self, X: Any) -> Any:
        return check_array(X, dtype=np.float32, order="C", estimator=self, input_name="X")

    def _decide_rows(self, n: int, X: Any, call: Call) -> None:
        embeddings = validate_data(self, X, reset=False, dtype=np.float32, order="C")
        found = self._evaluate(embeddings, embeddings=embeddings.astype(np.float64))
        self.costs_, self.answered_by_ = found.costs, np.array(found.classifiers, dtype=object)
        for name in dict.fromkeys(found.classifiers):
            call(name, np.flatnonzero(self.answered_by_ == name))
