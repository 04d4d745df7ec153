"""Stored arrays of a learned estimator, and their invariants."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int32s, Probabilities, SingleProbabilities, Singles
from models.portfolio import EstimatorName
from solvers.portfolio.learned.embedding import MAX_COORDINATE, MAX_PLAIN_DIMENSIONS, ReducedEmbedding
from solvers.portfolio.learned.estimator import LearnedEstimator
from solvers.portfolio.learned.forest import MAX_DEPTH, RandomForest
from solvers.portfolio.learned.kernel import MAX_CENTERS, MIN_WIDTH, KernelRegression
from solvers.portfolio.learned.logistic import LogisticRegressions
from solvers.portfolio.learned.mixture import RegressionMixture
from solvers.portfolio.learned.regressions import REGRESSION_KINDS, Regression
from solvers.shared_setup import SetupContents

MAX_TREES = 2000
MAX_WEIGHT, MAX_AXIS = 1e6, 1e50
"""Bounds of stored numbers, far beyond fitted ones, within which every estimate is finite."""
DIMENSIONS = {
    "embedding_axes": 2,
    "forest_values": 2,
    "kernel_centres": 2,
    "kernel_weights": 2,
    "logistic_weights": 2,
}
"""Arrays of more than one dimension."""


def _empty(*shape: int, dtype: Any = np.float64) -> Callable[[], NDArray[Any]]:
    return lambda: np.zeros(shape, dtype=dtype)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LearnedEstimatorArrays(SetupContents):
    """Arrays of regressions on embeddings, for m classifiers.

    Embeddings have d numbers, reduced to e. Arrays are empty without a learned estimator, and for regressions that are
    not averaged.
    """

    estimator: EstimatorName = "occam"
    """The estimator; occam: nearest neighbors only, and all arrays below are empty."""
    means: Probabilities = field(default_factory=_empty(0))
    """(m,), accuracy of each classifier."""
    shrinks: Probabilities = field(default_factory=_empty(0))
    """(2,), shrinkage factors of deviations from the means: in common, and of each classifier."""
    embedding_centre: Floats = field(default_factory=_empty(0))
    """(d,), subtracted from embeddings."""
    embedding_axes: Floats = field(default_factory=_empty(0, 0))
    """(d, e), projection after that."""
    forest_roots: Int32s = field(default_factory=_empty(0, dtype=np.int32))
    """(T,), root of each tree in the list of v nodes."""
    forest_columns: Int32s = field(default_factory=_empty(0, dtype=np.int32))
    """(v,), split column of each node; -1: a leaf."""
    forest_thresholds: Singles = field(default_factory=_empty(0, dtype=np.float32))
    """(v,), split threshold; larger values go right."""
    forest_left: Int32s = field(default_factory=_empty(0, dtype=np.int32))
    """(v,), left child; the right child is the next node."""
    forest_values: SingleProbabilities = field(default_factory=_empty(0, 0, dtype=np.float32))
    """(v, m), estimates of leaves."""
    kernel_centres: Singles = field(default_factory=_empty(0, 0, dtype=np.float32))
    """(r, e), centers of the kernel."""
    kernel_width: Floats = field(default_factory=_empty(0))
    """(1,), squared width of the kernel."""
    kernel_weights: Floats = field(default_factory=_empty(0, 0))
    """(r, m), weights of the centers."""
    kernel_base: Probabilities = field(default_factory=_empty(0))
    """(m,), prediction far from all centers."""
    logistic_weights: Floats = field(default_factory=_empty(0, 0))
    """(e, m), coefficients."""
    logistic_intercepts: Floats = field(default_factory=_empty(0))
    """(m,), intercepts."""


def make_fields(estimator: LearnedEstimator) -> dict[str, Any]:
    """Return the arrays of an estimator, named as the fields of ``LearnedEstimatorArrays``."""
    arrays: dict[str, Any] = {
        "estimator": "stacked",
        "means": estimator.mixture.means,
        "shrinks": estimator.mixture.shrinks,
        "embedding_centre": estimator.embedding.centre,
        "embedding_axes": estimator.embedding.axes,
    }
    for kind, one in estimator.regressions.items():
        arrays |= {f"{kind}_{each.name}": getattr(one, each.name) for each in fields(one)}
    return arrays


def load_estimator(plan: LearnedEstimatorArrays) -> LearnedEstimator | None:
    """Return the learned estimator of a plan; None if it uses only nearest neighbors."""
    if plan.estimator == "occam":
        return None
    embedding = ReducedEmbedding(plan.embedding_centre, plan.embedding_axes)
    kinds = _list_kinds(plan)
    mixture = RegressionMixture(plan.means, plan.shrinks, kinds)
    return LearnedEstimator(embedding, {kind: _load_regression(plan, kind) for kind in kinds}, mixture)


def _list_kinds(plan: LearnedEstimatorArrays) -> tuple[str, ...]:
    """Return the kinds of regression that are averaged: those with arrays."""
    arrays: dict[str, NDArray[Any]] = {
        "forest": plan.forest_roots,
        "kernel": plan.kernel_centres,
        "logistic": plan.logistic_intercepts,
    }
    return tuple(kind for kind in REGRESSION_KINDS if len(arrays[kind]))


def _load_regression(plan: LearnedEstimatorArrays, kind: str) -> Regression:
    if kind == "kernel":
        return KernelRegression(plan.kernel_centres, plan.kernel_width, plan.kernel_weights, plan.kernel_base)
    if kind == "logistic":
        return LogisticRegressions(plan.logistic_weights, plan.logistic_intercepts)
    nodes = plan.forest_columns, plan.forest_thresholds, plan.forest_left, plan.forest_values
    return RandomForest(plan.forest_roots, *nodes)


def check_invariants(plan: LearnedEstimatorArrays, d: int, m: int) -> dict[str, bool]:
    """Return by name whether each invariant holds; a plan may come from untrusted bytes."""
    if plan.estimator == "occam":
        return {}
    e = plan.embedding_axes.shape[1]
    kept = {
        "a mean of each classifier": plan.means.shape == (m,) and _are_probabilities(plan.means),
        "two shrinkage factors": plan.shrinks.shape == (2,) and _are_probabilities(plan.shrinks),
        "a reduction of embeddings": plan.embedding_centre.shape == (d,)
        and plan.embedding_axes.shape == (d, e)
        and e > 0
        and _are_bounded(MAX_AXIS, plan.embedding_centre, plan.embedding_axes),
    }
    kinds = _list_kinds(plan)
    valid = {
        "forest": _is_valid_forest(plan, min(e, MAX_PLAIN_DIMENSIONS), m),
        "kernel": _is_valid_kernel(plan, e, m),
        "logistic": plan.logistic_weights.shape == (e, m)
        and plan.logistic_intercepts.shape == (m,)
        and _are_bounded(MAX_WEIGHT, plan.logistic_weights, plan.logistic_intercepts),
    }
    others = [kind for kind in REGRESSION_KINDS if kind not in kinds]
    kept |= {"a regression": bool(kinds), "no parts of other regressions": not _have_numbers(plan, others)}
    return kept | {f"a regression of the kind {kind}": valid[kind] for kind in kinds}


def _have_numbers(plan: LearnedEstimatorArrays, kinds: Sequence[str]) -> bool:
    """Return whether any array of the given kinds of regression is not empty."""
    return any(
        getattr(plan, each.name).size for each in fields(LearnedEstimatorArrays) if each.name.split("_")[0] in kinds
    )


def _are_finite(*arrays: NDArray[Any]) -> bool:
    return all(bool(np.all(np.isfinite(each))) for each in arrays)


def _are_bounded(most: float, *arrays: NDArray[Any]) -> bool:
    return all(bool(np.all(np.abs(each) <= most)) for each in arrays)


def _are_probabilities(*arrays: NDArray[Any]) -> bool:
    return all(bool(np.all((each >= 0) & (each <= 1))) for each in arrays)


def _is_valid_forest(plan: LearnedEstimatorArrays, e: int, m: int) -> bool:
    v, roots, left, columns = len(plan.forest_columns), plan.forest_roots, plan.forest_left, plan.forest_columns
    if not (plan.forest_thresholds.shape == left.shape == (v,) and plan.forest_values.shape == (v, m)):
        return False
    inner = columns >= 0
    are_children_valid = bool(np.all(left[inner] > np.flatnonzero(inner))) and bool(np.all(left[inner] < v - 1))
    places = 0 < len(roots) <= MAX_TREES and bool(np.all((roots >= 0) & (roots < v)))
    are_splits_valid = bool(np.all((columns >= -1) & (columns < e))) and _are_finite(plan.forest_thresholds)
    return (
        places
        and are_children_valid
        and are_splits_valid
        and _are_probabilities(plan.forest_values)
        and _has_bounded_depth(roots, left, inner)
    )


def _has_bounded_depth(roots: Int32s, left: Int32s, inner: NDArray[np.bool_]) -> bool:
    """Return whether every path from a root ends at a leaf within the maximum depth."""
    at = np.unique(roots)
    for _ in range(MAX_DEPTH + 1):
        at = at[inner[at]]
        at = np.unique(np.concatenate((left[at], left[at] + 1)))
    return not len(at)


def _is_valid_kernel(plan: LearnedEstimatorArrays, e: int, m: int) -> bool:
    r = len(plan.kernel_centres)
    shapes = plan.kernel_centres.shape == (r, e) and plan.kernel_weights.shape == (r, m)
    positive = plan.kernel_width.shape == (1,) and bool(MIN_WIDTH <= plan.kernel_width[0] < np.inf)
    bounded = _are_bounded(MAX_COORDINATE, plan.kernel_centres) and _are_bounded(MAX_WEIGHT, plan.kernel_weights)
    return (
        0 < r <= MAX_CENTERS
        and shapes
        and positive
        and bounded
        and plan.kernel_base.shape == (m,)
        and _are_probabilities(plan.kernel_base)
    )
