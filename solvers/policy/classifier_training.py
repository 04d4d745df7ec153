"""Training of the classifiers of acquired sets: cross-fitted boosted trees, in parallel over the sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.losses import Losses
from models.policy import PolicyOptions
from solvers.item_splits import GroupedRows, stratify_labels_by_item
from solvers.parallel import run_parallel
from solvers.policy.node_classifiers import list_tree_owners, make_tree_inputs, to_probabilities
from solvers.policy.sensors import Sensors, mark_embedding
from solvers.trees.boosting import BinnedTable, BoostingParams, boost_classes, boost_regression
from solvers.trees.oblivious_trees import STAGE_TREES, Forest

LEARNING_RATE, RIDGE = 0.15, 2.0
"""Default learning rate of classifiers, and the ridge penalty of their leaves."""
QUALITY_RESIDUAL, QUALITY_RIDGE = 0.003, 30.0
"""For answer quality: the share of a leaf's mean that all trees together leave out, and the ridge penalty of leaves."""
MAX_LOG_LOSS = 27.6
"""Maximum log-loss of a row, in nats: that of a probability of 1e-12."""
MAX_SUBSET_SHARE, MIN_ROWS_PER_FOLD = 0.95, 20
"""A set is learned from its reaching rows alone if they are at most this share of all rows, with this many in each
fold.
"""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """Rows that classifiers learn from.

    Attributes:
        sensors: the sensors of the columns.
        cells: (n, D) readings.
        labels: (n,) class codes.
        classes: number of outputs: classes, or sensors if answers have no classes.
        folds: (n,) fold of each row, below K; member k is fitted to all rows except fold k.
        quality: (n, M) quality of each sensor's answer; None if answers have classes.
        rate: learning rate of forests of class probabilities.
        items: (n,) equal for rows of one item; None if no item repeats.
        losses: the loss matrix; None without classes, or if all errors are equal.
        loss_scale: the largest loss, in the unit of costs; None if all errors are equal.
        reject_quality: without classes, the quality of a reject; None if items are never rejected.
    """

    sensors: Sensors
    cells: Floats
    labels: Int32s
    classes: int
    folds: Int64s
    quality: Floats | None = None
    rate: float = LEARNING_RATE
    items: Int64s | None = None
    losses: Losses | None = None
    loss_scale: float | None = None
    reject_quality: float | None = None

    @property
    def has_to_acquire(self) -> bool:
        """Whether at least one sensor must be acquired, because its answer is the only one."""
        return self.quality is not None and self.reject_quality is None

    @property
    def members(self) -> int:
        """Number of folds, which equals the number of members, K."""
        return int(self.folds.max()) + 1


def assign_training_folds(labels: Int32s, items: Int64s, folds: int, rng: np.random.Generator) -> Int64s:
    """Assign rows to random cross-validation folds, (n,): grouped by item, stratified by class.

    >>> np.bincount(assign_training_folds(np.zeros(10, np.int32), np.arange(10), 5, np.random.default_rng(0))).tolist()
    [2, 2, 2, 2, 2]
    """
    grouped = GroupedRows.from_codes(items)
    own = stratify_labels_by_item(grouped, labels)
    order = rng.permutation(len(own))
    order = order[np.argsort(own[order], kind="stable")]
    fold = np.empty(len(own), dtype=np.int64)
    fold[order] = np.arange(len(own)) % folds
    return np.asarray(fold[grouped.place])


def train_classifiers(
    training: TrainingRows, sets: Bools, options: PolicyOptions, seeds: Sequence[int], report: Callable[[int], None]
) -> tuple[list[list[Forest]], list[Floats]]:
    """Fit the classifiers of sets of sensors by cross-fitting.

    Args:
        training: the rows.
        sets: (S, M), the sensors of each set.
        seeds: (S,); equal seeds give equal bits on any number of processes.
        report: receives the number of finished sets.
    Returns:
        The K members of each set, and for each set out-of-fold posteriors (n, C).
    """
    jobs = [partial(_train_set, training, chosen, options, seed) for chosen, seed in zip(sets, seeds, strict=True)]
    trained = list(run_parallel(jobs, report))
    return [members for members, _ in trained], [posteriors for _, posteriors in trained]


def train_on_reaching_rows(
    training: TrainingRows, sets: Bools, reached: Sequence[Bools], options: PolicyOptions, seeds: Sequence[int]
) -> list[tuple[list[Forest], Floats]]:
    """Fit each set's classifier to all rows or to the rows that reach the set.

    The fit with the lower loss is kept.

    Args:
        sets: (S, M), the sensors of each set.
        reached: for each set (n,), the rows that reach it.
    Returns:
        For each set its members, and out-of-fold posteriors of all rows.
    """
    jobs = [
        partial(_train_reaching, _SetInputs.from_training(training, chosen), rows, options, seed)
        for chosen, rows, seed in zip(sets, reached, seeds, strict=True)
    ]
    return list(run_parallel(jobs))


def _train_reaching(seen: "_SetInputs", rows: Bools, options: PolicyOptions, seed: int) -> tuple[list[Forest], Floats]:
    every = _fit_set(seen, np.ones_like(rows), options, seed)
    if rows.mean() > MAX_SUBSET_SHARE or not has_enough_rows(rows, seen.folds):
        return every
    own = _fit_set(seen, rows, options, seed)
    return min(every, own, key=lambda each: _log_loss(each[1][rows], seen.labels[rows]))


def has_enough_rows(rows: Bools, folds: Int64s) -> bool:
    """Return whether every fold has enough of these rows, (n,), to fit a classifier to them alone."""
    return bool(np.bincount(folds[rows], minlength=int(folds.max()) + 1).min() >= MIN_ROWS_PER_FOLD)


def _log_loss(posteriors: Floats, labels: Int32s) -> float:
    return float(-np.log(np.maximum(posteriors[np.arange(len(labels)), labels], 1e-12)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class _SetInputs:
    """Inputs of the classifiers of one set of sensors.

    columns, (d,), are indices into the columns of all trees.
    """

    labels: Int32s
    folds: Int64s
    classes: int
    members: int
    columns: Int64s
    inputs: Floats
    binned: BinnedTable
    quality: Floats | None
    rate: float
    has_columns: bool

    @classmethod
    def from_training(cls, training: TrainingRows, chosen: Bools) -> "_SetInputs":
        sensors = training.sensors
        cells = sensors.known_columns(chosen)
        inputs = make_tree_inputs(sensors.select_columns(cells), training.cells[:, cells])
        columns = np.flatnonzero(mark_embedding(chosen)[list_tree_owners(sensors)])
        has_columns = len(columns) > 0
        if not has_columns:  # trees without splits need an input column, too
            inputs, columns = np.zeros((len(inputs), 1)), np.zeros(1, dtype=np.int64)
        return cls(
            training.labels,
            training.folds,
            training.classes,
            training.members,
            columns,
            inputs,
            BinnedTable.from_inputs(inputs),
            training.quality,
            training.rate,
            has_columns,
        )


def _train_set(training: TrainingRows, chosen: Bools, options: PolicyOptions, seed: int) -> tuple[list[Forest], Floats]:
    return _fit_set(
        _SetInputs.from_training(training, chosen), np.ones(len(training.labels), dtype=np.bool_), options, seed
    )


def _fit_set(seen: _SetInputs, learn: Bools, options: PolicyOptions, seed: int) -> tuple[list[Forest], Floats]:
    """Fit the K members of one set's classifier to some rows, (n,).

    The number of trees of a member minimizes the loss of the other members on their held-out folds. So the fold that
    evaluates a member does not determine its size.
    """
    rng, trees = np.random.default_rng(seed), options.trees if seen.has_columns else 0
    fitted, losses = [], np.zeros((seen.members, trees // STAGE_TREES + 1))
    for k in range(seen.members):
        rows, judged = learn & (seen.folds != k), learn & (seen.folds == k)
        if seen.quality is None:
            growth = BoostingParams(trees, options.depth, seen.rate, RIDGE)
            forest = boost_classes(seen.binned.take(rows), seen.labels[rows], seen.classes, growth, rng)
            lost = partial(_log_losses, seen.labels[judged])
        else:
            growth = BoostingParams(trees, options.depth, 1 - QUALITY_RESIDUAL ** (1 / max(trees, 1)), QUALITY_RIDGE)
            forest = boost_regression(seen.binned.take(rows), seen.quality[rows], growth, rng)
            lost = partial(_squared_error, seen.quality[judged])
        losses[k] = forest.staged_losses(seen.inputs[judged], lost)
        fitted.append(forest)
    members, posteriors = [], np.empty((len(seen.labels), seen.classes))
    for k, whole in enumerate(fitted):
        forest = whole.keep_first(STAGE_TREES * int((losses.sum(axis=0) - losses[k]).argmin()))
        rows = seen.folds == k
        posteriors[rows] = to_probabilities(forest.predict(seen.inputs[rows]), classless=seen.quality is not None)
        members.append(_pad_forest(forest, seen.columns, options.trees))
    return members, posteriors


def _pad_forest(forest: Forest, columns: Int64s, trees: int) -> Forest:
    """Map a forest's columns to those of all sensors, and pad it with trees that predict 0."""
    missing = trees - len(forest.columns)

    def full(array: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), dtype=array.dtype)])

    mapped = columns[forest.columns].astype(np.int32)
    return Forest(forest.base.astype(np.float32), full(mapped), full(forest.thresholds), full(forest.leaves))


def _squared_error(quality: Floats, predicted: Singles) -> float:
    return float(np.square(to_probabilities(predicted, classless=True) - quality).sum())


def _log_losses(labels: Int32s, predicted: Singles) -> float:
    logits = np.ascontiguousarray(predicted.T, dtype=np.float64)  # NumPy reduces short rows slowly
    logits -= logits.max(axis=0)
    lost = np.log(np.exp(logits).sum(axis=0)) - logits[labels, np.arange(len(labels))]
    return float(np.minimum(lost, MAX_LOG_LOSS).sum())
