"""Base class of the classifiers: encode rows as a dataset, build a plan, and keep its figures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from pydantic import ValidationError
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from models import InvalidRequest
from models.errors import ParsimonyError
from parsimony.errors import InvalidRequest as RefusedByServer
from parsimony.estimators.builds import build_in_process, build_on_server
from solvers import KINDS
from solvers.evaluation import CompleteItems, EvaluationOutcomes
from solvers.statistics import wilson_interval

_LABEL, _WEIGHT, _GROUP = "label", "weight", "group"


class BuiltClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base class: a plan of one kind, and its default operating point."""

    _kind = ""
    losses: Mapping[Any, Mapping[Any, float]] | None = None
    classes_: Any
    plan_: Any
    savings_: Any

    def _check_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Return labels and weights, (n,) each, and keep the classes."""
        labels, weights = _check_y(y, estimator=self), None
        check_classification_targets(labels)
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if len(np.unique(labels if weights is None else labels[weights > 0])) < 2:
            raise ValueError("y must have at least 2 classes in rows of weight above 0, got 1 class")
        self.classes_ = np.unique(labels)
        return labels, weights

    def _build(
        self,
        spec: Mapping[str, Any],
        columns: Mapping[str, Any],
        labels: Any,
        sample_weight: Any,
        groups: Any,
        embeddings: Any = None,
    ) -> None:
        """Fit a plan to the rows that weigh more than 0, and keep its figures."""
        spec = {**spec, "label": _LABEL, "unit": self.unit, "losses": self._name_losses()}
        columns = {**columns, _LABEL: self._encode(labels)}
        if groups is not None:
            spec["item"], columns[_GROUP] = _GROUP, np.asarray(groups).astype(str).astype(object)
        if sample_weight is not None:
            spec["weights"], columns[_WEIGHT] = _WEIGHT, sample_weight
            kept = np.flatnonzero(sample_weight)
            columns = {name: column[kept] for name, column in columns.items()}
            embeddings = None if embeddings is None else embeddings[kept]
        with convert_to_value_error():
            self._fit_plan(spec, columns, embeddings)

    def _fit_plan(self, spec: Mapping[str, Any], columns: Mapping[str, Any], embeddings: Any) -> None:
        build = build_in_process if self.server is None else partial(build_on_server, self.server)
        kind, options = KINDS[self._kind], {"params": dict(self.params or {}), "seed": self.random_state}
        fitted = build(self._kind, spec, columns, embeddings, **options)
        self.plan_, self.summary_, self.savings_ = fitted.plan, fitted.summary, fitted.savings
        self.limits_ = dict(self.savings_.query) if self.budget is None else {"budget": self.budget}
        points = [one.expectations for one in kind.curve(self.plan_, kind.curve_query())]
        self.curve_ = [(one.cost, (one.accuracy or 0.0) * (one.coverage or 1.0)) for one in points]
        self.decision_cost_ = self.savings_.cost

    def _encode(self, labels: Any) -> Any:
        """Return the index of each label in ``classes_``, as text, (n,)."""
        return np.searchsorted(self.classes_, labels).astype(str).astype(object)

    def _name_losses(self) -> dict[str, dict[str, float]] | None:
        """Return the losses by encoded class; None if all errors are equal."""
        if self.losses is None:
            return None
        code = {label: str(at) for at, label in enumerate(self.classes_.tolist())}
        unknown = {label for truth, row in self.losses.items() for label in (truth, *row)} - code.keys()
        if unknown:
            raise ValueError(f"losses must have classes of y ({', '.join(map(str, code))}), got {unknown.pop()!r}")
        return {
            code[truth]: {code[answer]: float(loss) for answer, loss in row.items()}
            for truth, row in self.losses.items()
        }

    def _evaluate(self, rows: Any, values: Any = None, embeddings: Any = None) -> EvaluationOutcomes:
        """Decide rows, (n, d), of numbers; equal rows get equal decisions."""
        n, kind = len(rows), KINDS[self._kind]
        ids = tuple(blake2b(row.tobytes(), digest_size=12).hexdigest() for row in np.ascontiguousarray(rows))
        items = CompleteItems(
            ids=ids,
            values=({},) * n if values is None else values,
            embeddings=embeddings,
            sizes=(None,) * n,
            truths=(None,) * n,
            weights=(1.0,) * n,
        )
        with convert_to_value_error():
            limits = kind.evaluation.model_validate({**self.limits_, "items": [{}]})
            return kind.evaluate(self.plan_, limits, items)

    def predict(self, X: Any) -> Any:
        """Return the most likely class of each row, (n,)."""
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]

    def plot(self, ax: Any = None) -> Any:
        """Draw accuracy against mean cost: the curve, the baselines, and the default operating point.

        Baselines and the default point have 95 % intervals of accuracy, by Wilson, as if rows were independent.

        Args:
            ax: Axes of matplotlib; None: those of a new figure.
        Returns:
            The Axes.
        """
        check_is_fitted(self)
        if ax is None:
            from matplotlib import pyplot  # takes long to import

            ax = pyplot.subplots()[1]
        costs, accuracies = zip(*self.curve_, strict=True)
        ax.plot(costs, accuracies, "o-", label=self._kind)
        self._draw_points(ax, self.savings_.baselines, fmt="s", label="baselines")
        self._draw_points(ax, [self.savings_], fmt="*", label="default")
        quality = "accuracy" if self.losses is None else "1 - loss as a share of the largest one"
        ax.set(xlabel=f"mean cost of a row, {self.unit}", ylabel=quality)
        ax.legend()
        return ax

    def _draw_points(self, ax: Any, points: Sequence[Any], **look: Any) -> None:
        """Draw points of savings with intervals of their accuracy."""
        costs, accuracies = [point.cost for point in points], np.array([point.accuracy for point in points])
        low, high = wilson_interval(accuracies, np.full(len(points), float(self.savings_.rows)))
        ax.errorbar(costs, accuracies, yerr=(accuracies - low, high - accuracies), **look)


@contextmanager
def convert_to_value_error() -> Iterator[None]:
    """Raise what solvers or a server refuse as ValueError, as scikit-learn does."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(str(InvalidRequest.from_validation(error))) from error
    except (ParsimonyError, RefusedByServer) as error:
        raise ValueError(str(error)) from error
