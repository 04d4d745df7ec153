"""What a plan keeps of a learned estimator: arrays alone, and what these promise each other."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int32s, Probabilities, SingleProbabilities, Singles
from models.portfolio import EstimatorName
from solvers.portfolio.learned.embedding import FARTHEST, NARROW, Embedding
from solvers.portfolio.learned.estimator import LearnedEstimator
from solvers.portfolio.learned.forest import DEPTH, RandomForest
from solvers.portfolio.learned.kernel import MOST_CENTRES, NARROWEST, Kernel
from solvers.portfolio.learned.mixture import Mixture
from solvers.portfolio.learned.regressions import (
    KINDS,
    MOST_ITEMS,
    Boosted,
    Forests,
    Logistic,
    Neighbours,
    Regression,
)
from solvers.portfolio.learned.sampled import OCCAM
from solvers.portfolio.success_estimator import Estimator
from solvers.trees.oblivious_trees import Forest

MOST_TREES, MOST_DEPTH = 2000, 16
STEEPEST, LARGEST_AXIS = 1e6, 1e50
"""Bounds of what a plan may hold, far beyond what is learned: within them every estimate is a number, and quick."""
DIMENSIONS = {
    "embedding_axes": 2,
    "logistic_weights": 3,
    "logistic_intercepts": 2,
    "neighbour_items": 2,
    "neighbour_success": 2,
    "forest_values": 2,
    "boosted_columns": 2,
    "boosted_thresholds": 2,
    "boosted_leaves": 3,
    "kernel_centres": 2,
    "kernel_weights": 2,
}
"""Of arrays with more than one."""
_OF_TREES = ("base", "columns", "thresholds", "leaves")
"""What is kept of boosted trees: their leaves are no whole numbers."""


def _empty(*shape: int, dtype: Any = np.float64) -> Callable[[], NDArray[Any]]:
    return lambda: np.zeros(shape, dtype=dtype)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LearnedContents:
    """Regressions on embeddings of d numbers, reduced to e, that say how likely each of m classifiers is right. Arrays
    of regressions that are not used are empty."""

    estimator: EstimatorName = "occam"
    """What estimates."""
    kinds: tuple[str, ...] = ()
    """The kinds of regressions that are used, occam the mean over samples; none: that alone, and nothing of the
    following is there."""
    kind_weights: Floats = field(default_factory=_empty(0))
    """(k,) how much each of them counts; (0,), as before there were weights: their mean."""
    means: Probabilities = field(default_factory=_empty(0))
    """(m,) how often each classifier is right."""
    shrinks: Probabilities = field(default_factory=_empty(0))
    """(2,) what is kept of how far estimates are above these: in common, and of each."""
    embedding_centre: Floats = field(default_factory=_empty(0))
    """(d,) what is taken off an embedding."""
    embedding_axes: Floats = field(default_factory=_empty(0, 0))
    """(d, e) what is multiplied with then."""
    logistic_weights: Singles = field(default_factory=_empty(0, 0, 0, dtype=np.float32))
    """(k, e, m) linear logits for each of k strengths."""
    logistic_intercepts: Singles = field(default_factory=_empty(0, 0, dtype=np.float32))
    """(k, m)"""
    neighbour_items: Singles = field(default_factory=_empty(0, 0, dtype=np.float32))
    """(r, e) rows among which neighbours are sought."""
    neighbour_success: SingleProbabilities = field(default_factory=_empty(0, 0, dtype=np.float32))
    """(r, m) how right each classifier was about these."""
    forest_roots: Int32s = field(default_factory=_empty(0, dtype=np.int32))
    """(T,) where each tree of the forest begins in the list of its v nodes."""
    forest_columns: Int32s = field(default_factory=_empty(0, dtype=np.int32))
    """(v,) what a node asks about; -1: it is a leaf."""
    forest_thresholds: Singles = field(default_factory=_empty(0, dtype=np.float32))
    """(v,) above which a row goes to the right."""
    forest_left: Int32s = field(default_factory=_empty(0, dtype=np.int32))
    """(v,) the node to the left; that to the right stands after it."""
    forest_values: SingleProbabilities = field(default_factory=_empty(0, 0, dtype=np.float32))
    """(v, m) what leaves say."""
    boosted_base: Singles = field(default_factory=_empty(0, dtype=np.float32))
    """(m,) what boosting begins with."""
    boosted_columns: Int32s = field(default_factory=_empty(0, 0, dtype=np.int32))
    """(B, D) what level D of tree B asks about."""
    boosted_thresholds: Floats = field(default_factory=_empty(0, 0))
    """(B, D) above which the answer is yes."""
    boosted_leaves: Singles = field(default_factory=_empty(0, 0, 0, dtype=np.float32))
    """(B, 2^D, m) what is added."""
    kernel_centres: Singles = field(default_factory=_empty(0, 0, dtype=np.float32))
    """(r, e) rows whose distances count."""
    kernel_width: Floats = field(default_factory=_empty(0))
    """(1,) the square of a distance that counts as far."""
    kernel_weights: Floats = field(default_factory=_empty(0, 0))
    """(r, m) of how near each is."""
    kernel_base: Probabilities = field(default_factory=_empty(0))
    """(m,) what is said where none is near."""


def fields_of(estimator: LearnedEstimator, name: str) -> dict[str, Any]:
    """Put an estimator into arrays."""
    arrays: dict[str, Any] = {
        "estimator": name,
        "kinds": estimator.mixture.kinds,
        "kind_weights": estimator.mixture.weights,
        "means": estimator.mixture.means,
        "shrinks": estimator.mixture.shrinks,
        "embedding_centre": estimator.embedding.centre,
        "embedding_axes": estimator.embedding.axes,
    }
    for one in estimator.regressions.values():
        match one:
            case Logistic():
                arrays |= {"logistic_weights": one.weights, "logistic_intercepts": one.intercepts}
            case Neighbours():
                arrays |= {"neighbour_items": one.items, "neighbour_success": one.success}
            case Forests():
                arrays |= {f"forest_{each.name}": getattr(one.trees, each.name) for each in fields(one.trees)}
            case Boosted():
                arrays |= {f"boosted_{own}": getattr(one.trees, own) for own in _OF_TREES}
            case Kernel():
                arrays |= {f"kernel_{each.name}": getattr(one, each.name) for each in fields(one)}
    return arrays


def estimator_of(plan: LearnedContents, sampled: Estimator) -> LearnedEstimator | None:
    """Make the estimator of a plan; None where samples alone estimate. sampled: the estimator by the plan's samples."""
    if not plan.kinds:
        return None
    regressions = {kind: _regression(plan, kind) for kind in plan.kinds if kind != OCCAM}
    embedding = Embedding(plan.embedding_centre, plan.embedding_axes)
    weights = plan.kind_weights if len(plan.kind_weights) else np.full(len(plan.kinds), 1 / len(plan.kinds))
    mixture = Mixture(plan.kinds, weights, plan.means, plan.shrinks)
    return LearnedEstimator(embedding, regressions, mixture, sampled if OCCAM in plan.kinds else None)


def _regression(plan: LearnedContents, kind: str) -> Regression:
    match kind:
        case "logistic":
            return Logistic(plan.logistic_weights, plan.logistic_intercepts)
        case "neighbours":
            return Neighbours(plan.neighbour_items, plan.neighbour_success)
        case "forest":
            nodes = plan.forest_columns, plan.forest_thresholds, plan.forest_left, plan.forest_values
            return Forests(RandomForest(plan.forest_roots, *nodes))
        case "kernel":
            return Kernel(plan.kernel_centres, plan.kernel_width, plan.kernel_weights, plan.kernel_base)
        case _:
            trees = plan.boosted_base, plan.boosted_columns, plan.boosted_thresholds, plan.boosted_leaves
            return Boosted(Forest(*trees))


def promises(plan: LearnedContents, d: int, m: int) -> dict[str, bool]:
    """Tell which promises the arrays keep; a plan may come from anybody's bytes."""
    if not plan.kinds:
        return {"an estimator": plan.estimator == OCCAM}
    e = plan.embedding_axes.shape[1]
    kept = {
        "kinds of regressions that there are": 0 < len(plan.kinds) == len(set(plan.kinds))
        and set(plan.kinds) <= {*KINDS, OCCAM},
        "weights of kinds or none": plan.kind_weights.shape in ((0,), (len(plan.kinds),))
        and bool(np.all((plan.kind_weights >= 0) & (plan.kind_weights <= STEEPEST))),
        "a mean of each classifier": plan.means.shape == (m,) and _within(plan.means),
        "two shares of what is kept": plan.shrinks.shape == (2,) and _within(plan.shrinks),
        "a reduction of embeddings": plan.embedding_centre.shape == (d,)
        and plan.embedding_axes.shape == (d, e)
        and e > 0
        and _bounded(LARGEST_AXIS, plan.embedding_centre, plan.embedding_axes),
    }
    checks = {"logistic": _logistic, "neighbours": _neighbours, "forest": _forest, "boosting": _boosted}
    seen = {kind: check(plan, min(e, NARROW), m) for kind, check in checks.items() if kind in plan.kinds}
    if "kernel" in plan.kinds:
        seen["kernel"] = _kernel(plan, e, m)
    return kept | {f"a regression of the kind {kind}": is_kept for kind, is_kept in seen.items()}


def _finite(*arrays: NDArray[Any]) -> bool:
    return all(bool(np.all(np.isfinite(each))) for each in arrays)


def _bounded(most: float, *arrays: NDArray[Any]) -> bool:
    return all(bool(np.all(np.abs(each) <= most)) for each in arrays)


def _within(*arrays: NDArray[Any]) -> bool:
    return all(bool(np.all((each >= 0) & (each <= 1))) for each in arrays)


def _logistic(plan: LearnedContents, e: int, m: int) -> bool:
    k = len(plan.logistic_weights)
    shapes = plan.logistic_weights.shape == (k, e, m) and plan.logistic_intercepts.shape == (k, m)
    return 0 < k <= MOST_TREES and shapes and _bounded(STEEPEST, plan.logistic_weights, plan.logistic_intercepts)


def _neighbours(plan: LearnedContents, e: int, m: int) -> bool:
    r = len(plan.neighbour_items)
    shapes = plan.neighbour_items.shape == (r, e) and plan.neighbour_success.shape == (r, m)
    bounded = _bounded(FARTHEST, plan.neighbour_items) and _within(plan.neighbour_success)
    return 0 < r <= MOST_ITEMS and shapes and bounded


def _forest(plan: LearnedContents, e: int, m: int) -> bool:
    v, roots, left, columns = len(plan.forest_columns), plan.forest_roots, plan.forest_left, plan.forest_columns
    if not (plan.forest_thresholds.shape == left.shape == (v,) and plan.forest_values.shape == (v, m)):
        return False
    inner = columns >= 0
    onwards = bool(np.all(left[inner] > np.flatnonzero(inner))) and bool(np.all(left[inner] < v - 1))
    places = 0 < len(roots) <= MOST_TREES and bool(np.all((roots >= 0) & (roots < v)))
    asks = bool(np.all((columns >= -1) & (columns < e))) and _finite(plan.forest_thresholds)
    return places and onwards and asks and _within(plan.forest_values) and _ends(roots, left, inner)


def _ends(roots: Int32s, left: Int32s, inner: NDArray[np.bool_]) -> bool:
    """Tell whether every way from a root ends at a leaf after as many questions as a tree may ask."""
    at = np.unique(roots)
    for _ in range(DEPTH + 1):
        at = at[inner[at]]
        at = np.unique(np.concatenate((left[at], left[at] + 1)))
    return not len(at)


def _boosted(plan: LearnedContents, e: int, m: int) -> bool:
    trees, depth = plan.boosted_columns.shape
    if depth > MOST_DEPTH or trees > MOST_TREES:
        return False
    shapes = plan.boosted_thresholds.shape == (trees, depth) and plan.boosted_leaves.shape == (trees, 1 << depth, m)
    asks = bool(np.all((plan.boosted_columns >= 0) & (plan.boosted_columns < e)))
    bounded = _bounded(STEEPEST, plan.boosted_base, plan.boosted_leaves) and _finite(plan.boosted_thresholds)
    return plan.boosted_base.shape == (m,) and shapes and asks and bounded


def _kernel(plan: LearnedContents, e: int, m: int) -> bool:
    r = len(plan.kernel_centres)
    shapes = plan.kernel_centres.shape == (r, e) and plan.kernel_weights.shape == (r, m)
    positive = plan.kernel_width.shape == (1,) and bool(NARROWEST <= plan.kernel_width[0] < np.inf)
    bounded = _bounded(FARTHEST, plan.kernel_centres) and _bounded(STEEPEST, plan.kernel_weights)
    return (
        0 < r <= MOST_CENTRES
        and shapes
        and positive
        and bounded
        and plan.kernel_base.shape == (m,)
        and _within(plan.kernel_base)
    )
