"""Fitting the classifiers of acquired sets, every member of them, in parallel over the sets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.policy import PolicyOptions
from solvers.item_splits import ItemRows, rarest_labels
from solvers.parallel import in_parallel
from solvers.policy.node_classifiers import to_probabilities, tree_inputs, tree_owners
from solvers.policy.sensors import Sensors, append_embedding
from solvers.trees.boosting import Binned, Growth, boost, boost_classes
from solvers.trees.oblivious_trees import STAGE, Forest

LEARNING_RATE, RIDGE = 0.15, 2.0
"""How fast forests of classifiers learn, unless told, and how strongly their small leaves are pulled to 0."""
QUALITY_RESIDUAL, QUALITY_RIDGE = 0.003, 30.0
"""Where quality is learned: what all trees leave of the way to a leaf's mean, and how strongly small leaves are pulled
to 0."""
MAX_LOG_LOSS = 27.6
"""Nats that a row is taken to lose at most: those of a chance of one in a million million."""
MAX_SUBSET_SHARE, MIN_ROWS_PER_FOLD = 0.95, 20
"""Rows that come to a set are learned from alone if they are a smaller share of all, and so many are in each fold."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """The rows that classifiers learn from. sensors: what the columns are; cells: (n, D); labels: (n,) below classes;
    folds: (n,) below K, the fold of each row: member k learns from all but fold k; quality: (n, M) where answers have
    no classes: what is learned then is how good each sensor's answer is, the classes being sensors; None where they
    have. rate: how fast forests of class probabilities learn. items: (n,) equal for rows of one item; None: no item
    repeats."""

    sensors: Sensors
    cells: Floats
    labels: Int32s
    classes: int
    folds: Int64s
    quality: Floats | None = None
    rate: float = LEARNING_RATE
    items: Int64s | None = None

    @property
    def members(self) -> int:
        """The number of folds, and of members, K."""
        return int(self.folds.max()) + 1


def assign_folds(labels: Int32s, items: Int64s, folds: int, rng: np.random.Generator) -> Int64s:
    """Split rows into folds at random, whole items each, each class spread evenly over them: (n,).

    >>> np.bincount(assign_folds(np.zeros(10, np.int32), np.arange(10), 5, np.random.default_rng(0))).tolist()
    [2, 2, 2, 2, 2]
    """
    grouped = ItemRows.from_codes(items)
    own = rarest_labels(grouped, labels)
    order = rng.permutation(len(own))
    order = order[np.argsort(own[order], kind="stable")]
    fold = np.empty(len(own), dtype=np.int64)
    fold[order] = np.arange(len(own)) % folds
    return np.asarray(fold[grouped.place])


def train_classifiers(
    training: TrainingRows, sets: Bools, options: PolicyOptions, seeds: Sequence[int], report: Callable[[int], None]
) -> tuple[list[list[Forest]], list[Floats]]:
    """Fit the classifiers of sets, (S, M), and say of every row what the member that had not seen it says.

    Gives for each set its K members, and the posteriors (n, C). Equal seeds give equal bits on any number of processes.
    """
    jobs = [partial(_train_set, training, chosen, options, seed) for chosen, seed in zip(sets, seeds, strict=True)]
    trained = list(in_parallel(jobs, report))
    return [members for members, _ in trained], [posteriors for _, posteriors in trained]


def train_on_reaching_rows(
    training: TrainingRows, sets: Bools, reached: Sequence[Bools], options: PolicyOptions, seeds: Sequence[int]
) -> list[tuple[list[Forest], Floats]]:
    """Fit the classifiers of sets, (S, M), as ``train`` does, each for the rows, (n,), that come to it: to all rows or
    to those alone, whichever loses less on them. Gives for each set its members, and the posteriors of all rows."""
    jobs = [
        partial(_train_reaching, _SetInputs.from_training(training, chosen), rows, options, seed)
        for chosen, rows, seed in zip(sets, reached, seeds, strict=True)
    ]
    return list(in_parallel(jobs))


def _train_reaching(seen: "_SetInputs", rows: Bools, options: PolicyOptions, seed: int) -> tuple[list[Forest], Floats]:
    every = _fit_set(seen, np.ones_like(rows), options, seed)
    if rows.mean() > MAX_SUBSET_SHARE or not has_enough_rows(rows, seen.folds):
        return every
    own = _fit_set(seen, rows, options, seed)
    return min(every, own, key=lambda each: _log_loss(each[1][rows], seen.labels[rows]))


def has_enough_rows(rows: Bools, folds: Int64s) -> bool:
    """Tell whether so many of the rows, (n,), are in each fold that they can be learned from alone."""
    return bool(np.bincount(folds[rows], minlength=int(folds.max()) + 1).min() >= MIN_ROWS_PER_FOLD)


def _log_loss(posteriors: Floats, labels: Int32s) -> float:
    return float(-np.log(np.maximum(posteriors[np.arange(len(labels)), labels], 1e-12)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class _SetInputs:
    """What the classifiers of one set of sensors see, and nothing of the others. labels, folds, classes, members,
    quality, rate: of the training; columns: (d,) places of its own among those that trees see; inputs: (n, d) of them,
    binned: the same in bins; tells: whether there are any."""

    labels: Int32s
    folds: Int64s
    classes: int
    members: int
    columns: Int64s
    inputs: Floats
    binned: Binned
    quality: Floats | None
    rate: float
    has_columns: bool

    @classmethod
    def from_training(cls, training: TrainingRows, chosen: Bools) -> "_SetInputs":
        sensors = training.sensors
        cells = sensors.known_columns(chosen)
        inputs = tree_inputs(sensors.select_columns(cells), training.cells[:, cells])
        columns = np.flatnonzero(append_embedding(chosen)[tree_owners(sensors)])
        tells = len(columns) > 0
        if not tells:  # trees that ask nothing have a column to ask about, too
            inputs, columns = np.zeros((len(inputs), 1)), np.zeros(1, dtype=np.int64)
        return cls(
            training.labels,
            training.folds,
            training.classes,
            training.members,
            columns,
            inputs,
            Binned.of(inputs),
            training.quality,
            training.rate,
            tells,
        )


def _train_set(training: TrainingRows, chosen: Bools, options: PolicyOptions, seed: int) -> tuple[list[Forest], Floats]:
    return _fit_set(
        _SetInputs.from_training(training, chosen), np.ones(len(training.labels), dtype=np.bool_), options, seed
    )


def _fit_set(seen: _SetInputs, learn: Bools, options: PolicyOptions, seed: int) -> tuple[list[Forest], Floats]:
    """Fit the members of one set's classifier to some rows, (n,). A member has as many trees as lose least in the other
    members, on those of the rows that each had not seen: the part that judges a member has chosen nothing of it."""
    rng, trees = np.random.default_rng(seed), options.trees if seen.has_columns else 0
    fitted, losses = [], np.zeros((seen.members, trees // STAGE + 1))
    for k in range(seen.members):
        rows, judged = learn & (seen.folds != k), learn & (seen.folds == k)
        if seen.quality is None:
            growth = Growth(trees, options.depth, seen.rate, RIDGE)
            forest = boost_classes(seen.binned.rows(rows), seen.labels[rows], seen.classes, growth, rng)
            lost = partial(_log_losses, seen.labels[judged])
        else:
            growth = Growth(trees, options.depth, 1 - QUALITY_RESIDUAL ** (1 / max(trees, 1)), QUALITY_RIDGE)
            forest = boost(seen.binned.rows(rows), seen.quality[rows], growth, rng)
            lost = partial(_squares, seen.quality[judged])
        losses[k] = forest.staged_losses(seen.inputs[judged], lost)
        fitted.append(forest)
    members, posteriors = [], np.empty((len(seen.labels), seen.classes))
    for k, whole in enumerate(fitted):
        forest = whole.first(STAGE * int((losses.sum(axis=0) - losses[k]).argmin()))
        rows = seen.folds == k
        posteriors[rows] = to_probabilities(forest.predict(seen.inputs[rows]), classless=seen.quality is not None)
        members.append(_pad_forest(forest, seen.columns, options.trees))
    return members, posteriors


def _pad_forest(forest: Forest, columns: Int64s, trees: int) -> Forest:
    """Let a forest ask about the columns where all sensors' stand, and fill it up with trees that say 0."""
    missing = trees - len(forest.columns)

    def full(array: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), dtype=array.dtype)])

    asked = columns[forest.columns].astype(np.int32)
    return Forest(forest.base.astype(np.float32), full(asked), full(forest.thresholds), full(forest.leaves))


def _squares(quality: Floats, predicted: Singles) -> float:
    return float(np.square(to_probabilities(predicted, classless=True) - quality).sum())


def _log_losses(labels: Int32s, predicted: Singles) -> float:
    logits = np.ascontiguousarray(predicted.T, dtype=np.float64)  # NumPy reduces short rows slowly
    logits -= logits.max(axis=0)
    lost = np.log(np.exp(logits).sum(axis=0)) - logits[labels, np.arange(len(labels))]
    return float(np.minimum(lost, MAX_LOG_LOSS).sum())
