"""Estimates for partial traces, in which not every classifier was called for every item.

The choice of the called classifiers usually depends on the item, so means over the calls of a classifier are biased.
Instead, every row has a doubly robust value: the prediction of a regression on the embedding. In rows with a call, the
error of this prediction, divided by the propensity of the call, is added. The mean of these values over any rows is
unbiased if two conditions hold. The regression or the propensities are correct, and calls depend only on the embedding.
Regressions and propensities are cross-fitted: no row is predicted by a regression that was fitted to this row.

Source: Dudík, Langford, Li, *Doubly robust policy evaluation and learning*, 2011; Chernozhukov et al.,
*Double/debiased machine learning*, 2018.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models import Dataset, DatasetFacts, Fault, InvalidRequest, Trace, apply_weights
from models.arrays import Bools, Floats, Int64s, Singles
from models.data_warning import DataWarning
from models.weights import repeat_rows
from solvers.base import require_min_complete_rows
from solvers.item_splits import assign_group_folds
from solvers.portfolio.learned.embedding import ReducedEmbedding
from solvers.portfolio.learned.regressions import fit_regression, predict_success
from solvers.savings import Replay, SettingReplay
from solvers.statistics import Z_95, compute_stable_mean, effective_sample_size, standard_error_of_mean

FOLDS = 5
KINDS, FAST_KINDS = ("kernel", "logistic"), ("logistic",)
"""Regressions whose predictions are averaged, and those for profiles and requests, which must be fast."""
MIN_PROPENSITY = 0.02
"""Smaller propensities are raised to this one."""
MAX_UNLIKELY = 0.05
"""Share of rows that may have smaller propensities of a classifier; with more, it cannot be judged on such rows."""
MIN_CALLS = 30
"""Minimum number of items for which each classifier was called."""


def prepare_rows(dataset: Dataset, seed: int, *, takes_partial: bool) -> Dataset:
    """Return the rows to learn from, repeated by their weights and without missing calls.

    Args:
        takes_partial: whether values of missing calls are estimated; otherwise, only rows in which all classifiers were
            called are used.
    Raises:
        InvalidRequest: too few calls, or too few rows in which all were called.
    """
    dataset = apply_weights(dataset)
    if takes_partial or not (isinstance(dataset, Trace) and dataset.is_partial):
        return impute_uncalled(dataset, seed)
    return take_complete_rows(dataset, seed)


def impute_uncalled(dataset: Dataset, seed: int) -> Dataset:
    """Return a partial trace with estimated outcomes of all classifiers in all rows.

    Quality, costs, and resources are doubly robust values. Values of single rows may be below 0 or above 1; only their
    means are estimates. ``observed`` has the quality of calls. Other datasets are returned unchanged.

    Raises:
        InvalidRequest: a classifier was called for fewer than 30 items, or has a small propensity for too many rows.
    """
    if not (isinstance(dataset, Trace) and dataset.is_partial):
        return dataset
    require_min_calls(dataset)
    estimator = CrossFittedRegressions.from_trace(dataset, seed, KINDS)
    propensities = estimate_propensities(dataset, estimator)
    require_propensity_overlap(dataset, propensities)
    resources = dataset.resources
    if resources.size:
        each = [estimator.correct_errors(resources[:, :, r], propensities) for r in range(resources.shape[2])]
        resources = np.stack(each, axis=2)
    return replace(
        dataset,
        quality=estimator.correct_errors(dataset.quality, propensities),
        costs=estimator.correct_errors(dataset.costs, propensities),
        resources=resources,
        observed=dataset.quality,
        observed_costs=dataset.costs,
    )


@dataclass(frozen=True, slots=True)
class ClassifierMeans:
    """Means of each of m classifiers over all rows.

    Effective calls are None if there are too few calls to estimate means.
    """

    accuracies: list[float]
    costs: list[float]
    effective_calls: list[float] | list[None]


def measure_classifiers(trace: Trace) -> ClassifierMeans:
    """Return mean quality, mean cost, and effective calls of each classifier, weighted by inverse propensities.

    If there are too few calls to estimate means over all rows, the means over the calls are returned.
    """
    count = len(trace.spec.classifiers)
    if not trace.is_partial:
        costs = [compute_stable_mean(column) for column in trace.costs.T]
        return ClassifierMeans(trace.quality.mean(axis=0).tolist(), costs, [float(trace.rows)] * count)
    try:
        require_min_calls(trace)
        propensities = estimate_propensities(trace, CrossFittedRegressions.from_trace(trace, 0, FAST_KINDS))
        require_propensity_overlap(trace, propensities)
    except InvalidRequest:
        costs = [compute_stable_mean(column[~np.isnan(column)]) for column in trace.costs.T]
        return ClassifierMeans(trace.measure_calls()[0], costs, [None] * count)
    weights = np.where(trace.called, 1 / np.maximum(propensities, MIN_PROPENSITY), 0.0)
    weights /= weights.sum(axis=0)
    accuracies, costs = ((weights * np.nan_to_num(each)).sum(axis=0) for each in (trace.quality, trace.costs))
    return ClassifierMeans(accuracies.tolist(), costs.tolist(), effective_calls(trace.called, propensities).tolist())


def take_complete_rows(trace: Trace, seed: int) -> Trace:
    """Return the rows in which all classifiers were called, repeated by their inverse propensity.

    Raises InvalidRequest for fewer than 30 such rows.
    """
    rows, weights = weight_complete_rows(trace, seed)
    kept = rows[repeat_rows(weights)]
    return replace(_as_complete(trace.take(kept)), items=trace.item_codes[kept])


def weight_complete_rows(trace: Trace, seed: int) -> tuple[Int64s, Floats]:
    """Return the rows in which all classifiers were called, and their inverse propensities.

    Propensities are recorded or estimated. Raises InvalidRequest for fewer than 30 such rows.
    """
    require_min_complete_rows(DatasetFacts.from_dataset(trace))
    is_complete = np.asarray(trace.called.all(axis=1))
    rows = np.flatnonzero(is_complete)
    propensities = recorded_propensities(trace, np.ones_like(trace.called))
    unknown = np.isnan(propensities)
    if unknown.any():
        estimator = CrossFittedRegressions.from_trace(trace, seed, KINDS)
        propensities[unknown] = estimator.predict(is_complete.astype(np.float64)[:, None])[unknown, 0]
    unlikely = float((propensities < MIN_PROPENSITY).mean())
    if unlikely > MAX_UNLIKELY:
        message = (
            f"must have complete rows for all types of items: in {unlikely:.0%} of the rows, the propensity "
            f"that all classifiers are called is below {MIN_PROPENSITY:g}; build a portfolio, or call all "
            f"classifiers for some of these items"
        )
        raise InvalidRequest.from_faults(Fault(("dataset",), message))
    return rows, np.asarray(1 / np.maximum(propensities[rows], MIN_PROPENSITY))


def _as_complete(trace: Trace) -> Trace:
    """Return complete rows of a partial trace as a complete trace."""
    return replace(trace, called=np.zeros((0, 0), dtype=np.bool_), propensities=np.empty((0, 0)))


def replay_on_complete_rows(
    trace: Trace, seed: int, replay: Callable[[Trace], Sequence[SettingReplay]]
) -> list[SettingReplay]:
    """Replay settings on the complete rows, and extend the outcomes to all rows.

    In a complete row, all classifiers were called. An incomplete row gets the weighted mean of the complete rows. A
    complete row gets this mean plus its own deviation from it, times the row's normalized inverse propensity. So the
    mean over any subset of rows estimates the mean over all rows.

    Source: Hájek, 1971.
    """
    rows, weights = weight_complete_rows(trace, seed)
    factors = weights * (trace.rows / weights.sum())

    def extend(values: Floats) -> Floats:
        mean = float((factors * values).sum() / trace.rows)
        every = np.full(trace.rows, mean)
        every[rows] += factors * (values - mean)
        return every

    return [
        SettingReplay(one.query, Replay(extend(one.replay.right), extend(one.replay.costs)))
        for one in replay(_as_complete(trace.take(rows)))
    ]


def list_missing_call_warnings(dataset: Dataset) -> Iterator[DataWarning]:
    """Yield a warning about a partial trace.

    It has the number of calls behind the figures, and the kinds that cannot be built from the trace.
    """
    if not (isinstance(dataset, Trace) and dataset.is_partial):
        return
    counts = zip(dataset.spec.classifiers, dataset.called.sum(axis=0).tolist(), strict=True)
    calls = ", ".join(f"{one.name} in {count:,}" for one, count in counts)
    basis = "embeddings" if dataset.embeddings.shape[1] else "sizes" if dataset.sizes.shape[1] else ""
    assumed = f"depend on nothing but {basis}" if basis else "do not depend on the item: add embeddings if they may"
    yield DataWarning(
        code="partial-calls",
        share=float(1 - dataset.called.mean()),
        message=f"not every classifier was called for each of {dataset.rows:,} rows ({calls}; all in "
        f"{dataset.complete_rows:,}): missing outcomes are estimated, assuming that calls {assumed}; other artifacts "
        f"than portfolios are built from complete rows only",
    )


def estimate_propensities(trace: Trace, estimator: "CrossFittedRegressions") -> Floats:
    """Return the probability that each classifier is called for each item, (n, m).

    Recorded propensities are used if they exist, else estimates.
    """
    estimated = estimator.predict(trace.called.astype(np.float64))
    if not trace.propensities.size:
        return estimated
    return np.where(np.isnan(trace.propensities), estimated, trace.propensities)


def recorded_propensities(trace: Trace, paths: Bools) -> Floats:
    """Return the recorded probability that all calls of a path are logged, (n,).

    It is NaN if the propensity of a call is unknown.


    paths: (n, m), whether a path calls a classifier.
    """
    if not trace.propensities.size:
        return np.full(trace.rows, np.nan)
    own = np.where(paths, trace.propensities, 1.0)
    return np.asarray(own.min(axis=1) if trace.spec.joint_propensity == "smallest" else own.prod(axis=1))


def require_min_calls(trace: Trace) -> None:
    """Raise InvalidRequest for a classifier that was called for fewer than 30 items."""
    counts = [len(np.unique(trace.item_codes[own])) for own in trace.called.T]
    faults = [
        Fault(
            ("dataset",),
            f"must have calls of each classifier for at least {MIN_CALLS} items, got {count} of {one.name!r} in "
            f"{trace.rows:,} rows: call it for more items, or remove it from the spec",
        )
        for one, count in zip(trace.spec.classifiers, counts, strict=True)
        if count < MIN_CALLS
    ]
    if faults:
        raise InvalidRequest.from_faults(*faults)


def require_propensity_overlap(trace: Trace, propensities: Floats) -> None:
    """Raise InvalidRequest for classifiers whose propensity is very small for many of the rows.

    If all calls of a classifier have recorded propensities, rows weighted by inverse propensities must represent at
    least 95 % of all rows, apart from random deviations. If they represent fewer, some items were probably never sent
    to the classifier, although their embeddings look alike.
    """
    shares = (propensities < MIN_PROPENSITY).mean(axis=0).tolist()
    faults = [
        Fault(
            ("dataset",),
            f"must have calls of {one.name!r} for all types of items: in {share:.0%} of the rows, its "
            f"propensity is below {MIN_PROPENSITY:g}; call it for some of these items, or remove the rows",
        )
        for one, share in zip(trace.spec.classifiers, shares, strict=True)
        if share > MAX_UNLIKELY
    ]
    faults += [
        Fault(
            ("dataset",),
            f"must have calls of {name!r} for all types of items: by their propensities, its calls represent "
            f"only {covered:.0%} of the rows; explore it for a share of the items",
        )
        for name, covered in _list_uncovered(trace)
    ]
    if faults:
        raise InvalidRequest.from_faults(*faults)


def _list_uncovered(trace: Trace) -> Iterator[tuple[str, float]]:
    """Yield classifiers whose recorded propensities do not represent all rows, and the represented share."""
    if not trace.propensities.size:
        return
    weights = trace.weights / trace.weights.mean() if len(trace.weights) else np.ones(trace.rows)
    for classifier, called, propensities in zip(
        trace.spec.classifiers, trace.called.T, trace.propensities.T, strict=True
    ):
        represented = weights * np.where(called, 1 / np.where(called, propensities, 1.0), 0.0)
        covered = float(represented.mean())
        if covered + Z_95 * float(standard_error_of_mean(represented, trace.item_codes)) < 1 - MAX_UNLIKELY:
            yield classifier.name, covered


@dataclass(frozen=True, slots=True, eq=False)
class _Fold:
    """One fold: its rows, and reduced inputs of the other rows, (n - p, e), and of its own, (p, e)."""

    is_fresh: Bools
    learned: Singles
    fresh: Singles

    @classmethod
    def from_inputs(cls, inputs: Singles, is_fresh: Bools) -> "_Fold":
        if not inputs.shape[1]:
            return cls(is_fresh, inputs[~is_fresh], inputs[is_fresh])
        embedding = ReducedEmbedding.fit(inputs[~is_fresh])
        return cls(is_fresh, embedding.apply(inputs[~is_fresh]), embedding.apply(inputs[is_fresh]))


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedRegressions:
    """Cross-fitted regressions on embeddings, or on sizes if there are no embeddings."""

    folds: tuple[_Fold, ...]
    seed: int
    kinds: tuple[str, ...]

    @classmethod
    def from_trace(cls, trace: Trace, seed: int, kinds: tuple[str, ...]) -> "CrossFittedRegressions":
        known = trace.embeddings if trace.embeddings.shape[1] else trace.sizes.astype(np.float32)
        inputs = known.reshape(trace.rows, -1)
        fold = assign_group_folds(trace.item_codes, FOLDS, np.random.default_rng(seed))
        return cls(tuple(_Fold.from_inputs(inputs, fold == part) for part in range(FOLDS)), seed, kinds)

    def predict(self, values: Floats) -> Floats:
        """Return cross-fitted predictions, (n, m), of values from 0 to 1, (n, m), NaN if unknown."""
        predicted = np.empty(values.shape)
        for fold in self.folds:
            known = values[~fold.is_fresh]
            if not fold.learned.shape[1]:
                predicted[fold.is_fresh] = np.nanmean(known, axis=0)
                continue
            rng = np.random.default_rng(self.seed)
            fits = [fit_regression(kind, fold.learned, known, rng) for kind in self.kinds]
            predicted[fold.is_fresh] = np.mean([predict_success(each, fold.fresh) for each in fits], axis=0)
        return predicted

    def predict_values(self, values: Floats) -> Floats:
        """Return cross-fitted predictions, (n, m), of values of at least 0, (n, m), NaN if unknown.

        A column whose known values are all equal is predicted by this value.
        """
        least, most = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        scale = np.maximum(most, 1e-300)
        return np.asarray(np.where(least == most, least, scale * self.predict(values / scale)))

    def correct_errors(self, values: Floats, propensities: Floats) -> Floats:
        """Return doubly robust values, (n, m), of values of at least 0, (n, m), NaN if unknown.

        Values that are known in all rows do not change.
        """
        called = ~np.isnan(values)
        predicted = self.predict_values(values)
        errors = np.where(called, values - predicted, 0.0) / np.maximum(propensities, MIN_PROPENSITY)
        return np.asarray(np.where(called.all(axis=0), values, predicted + errors))


def effective_calls(called: Bools, propensities: Floats) -> Floats:
    """Return Kish's effective number of calls of each classifier under inverse propensity weights, (m,).

    >>> effective_calls(np.array([[True], [True], [False]]), np.array([[0.5], [0.5], [0.5]])).tolist()
    [2.0]
    """
    weights = np.where(called, 1 / np.maximum(propensities, MIN_PROPENSITY), 0.0)
    return np.array([effective_sample_size(own, np.arange(len(own))) for own in weights.T])
