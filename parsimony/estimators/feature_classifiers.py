"""Classifiers that acquire features of a row: policies, pipelines, and indexes."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from parsimony.estimators.built_classifier import BuiltClassifier
from solvers.evaluation import EvaluationOutcomes


class AcquiringClassifier(BuiltClassifier):
    """Base class: learns from complete rows which features to acquire. Arguments are those of ``PolicyClassifier``."""

    def __init__(
        self,
        costs: Sequence[float] | Mapping[str, float] | None = None,
        *,
        budget: float | None = None,
        losses: Mapping[Any, Mapping[Any, float]] | None = None,
        setup: Mapping[str, tuple[float, Sequence[Any]]] | None = None,
        params: Mapping[str, Any] | None = None,
        unit: str = "cost",
        random_state: int = 0,
        server: str | None = None,
    ) -> None:
        self.costs, self.budget, self.losses, self.setup = costs, budget, losses, setup
        self.params, self.unit, self.random_state, self.server = params, unit, random_state, server

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn which features to acquire.

        Args:
            X: (n, d), numbers.
            y: (n,), classes.
            sample_weight: (n,), at least 0: how many rows of the traffic each row represents.
            groups: (n,), equal for rows of one item, which are not split between training and holdout rows.
        """
        X, y = validate_data(self, X, y)
        labels, weights = self._check_rows(X, y, sample_weight)
        costs = self._list_costs(X.shape[1])
        if costs.shape != (X.shape[1],):
            raise ValueError(f"costs must have {X.shape[1]} numbers, one per column of X, got shape {costs.shape}")
        features = [{"name": f"x{at}", "columns": [f"x{at}"], "cost": cost} for at, cost in enumerate(costs.tolist())]
        columns = {f"x{at}": column for at, column in enumerate(X.astype(float).T)}
        spec = {"kind": "features", "features": features, "setup": self._list_setup(X.shape[1])}
        self._build(spec, columns, labels, weights, groups)
        return self

    def _list_costs(self, columns: int) -> Any:
        """Return the cost of each column, (d,); costs by name are those of a frame's columns."""
        if self.costs is None:
            return np.ones(columns)
        if not isinstance(self.costs, Mapping):
            return np.asarray(self.costs, dtype=float)
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if {*names} != {*self.costs}:
            raise ValueError(f"costs must name the columns of X, {names or 'which has none'}, got {list(self.costs)}")
        return np.array([self.costs[name] for name in names], dtype=float)

    def _list_setup(self, columns: int) -> list[dict[str, Any]]:
        """Return the set-up groups of the spec; columns are indices, or names of a frame's columns."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        place = {at: f"x{at}" for at in range(columns)} | {name: f"x{at}" for at, name in enumerate(names)}
        for name, (_, own) in (self.setup or {}).items():
            unknown = [column for column in own if column not in place]
            if unknown:
                known = f"indices up to {columns - 1}{' or ' * bool(names)}{', '.join(names)}"
                raise ValueError(f"setup {name!r} must have columns of X, {known}, got {unknown[0]!r}")
        return [
            {"name": name, "cost": float(cost), "features": [place[column] for column in own]}
            for name, (cost, own) in (self.setup or {}).items()
        ]

    def predict(self, X: Any) -> Any:
        """Return the class of each row, (n,): that of least expected loss."""
        codes = [int(label) for label in self._acquire(X).labels if label is not None]  # all have one
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of each row, (n, C), from the features that are acquired for it.

        ``costs_`` and ``paths_`` then have the cost and the acquired columns of each row.
        """
        found = self._acquire(X)
        if found.probabilities is None:
            raise ValueError(f"params must have a learner with predict_proba, got {self.params}")
        probabilities = np.zeros((len(found.labels), len(self.classes_)))
        probabilities[:, [int(name) for name in found.classes]] = found.probabilities
        return probabilities

    def _acquire(self, X: Any) -> EvaluationOutcomes:
        """Evaluate rows, (n, d), and keep ``costs_`` and ``paths_``."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False).astype(float)
        values = tuple({f"x{at}": cell for at, cell in enumerate(row)} for row in rows.tolist())
        found = self._evaluate(rows, values)
        self.costs_ = found.costs
        self.paths_ = [tuple(int(name[1:]) for name in path) for path in found.paths]
        return found


class PolicyClassifier(AcquiringClassifier):
    """Acquires features one by one, and classifies when a further one does not repay its cost.

    Args:
        costs: cost of each feature, (d,), in the order of the columns, or by name for a frame; None: 1 each.
        budget: upper bound on the mean cost per row; None: the default operating point.
        losses: loss by true class and answer; None: all errors are equal.
        setup: by name, the cost of set-up work and the columns that share it, as indices or names; a row pays once.
        params: build parameters of the kind.
        unit: unit of costs.
        random_state: seed of the build.
        server: URL of a server that builds, with the API key of ``PARSIMONY_KEY``; None: this process.
    """

    _kind = "policy"


class IndexClassifier(AcquiringClassifier):
    """Acquires the same features for all rows: the most accurate ones within a budget.

    Arguments are those of ``PolicyClassifier``; ``budget`` bounds the cost of each row.
    """

    _kind = "index"


class PipelineClassifier(AcquiringClassifier):
    """Acquires features in stages, until a stage is confident, and rejects rows for which none is.

    Arguments are those of ``PolicyClassifier``. ``params`` may have ``confidence_threshold``, below which rows are
    rejected. With ``after_last_stage="answer"`` or unequal ``losses``, no rows are rejected.
    """

    _kind = "pipeline"

    def predict(self, X: Any) -> Any:
        """Return the most likely class of each row, (n,), by the last stage that it reached.

        With unequal losses, it is the class of least expected loss. ``rejected_`` then has the rows, (n,), whose answer
        is not confident enough: a person should decide them. ``savings_`` counts them as not answered; ``score`` counts
        the most likely class.
        """
        check_is_fitted(self)
        return BuiltClassifier.predict(self, X) if self.plan_.losses is None else super().predict(X)

    def _acquire(self, X: Any) -> EvaluationOutcomes:
        found = super()._acquire(X)
        self.rejected_ = ~np.asarray(found.accepted)
        return found
