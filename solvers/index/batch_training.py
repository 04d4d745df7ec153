"""Batched logistic regressions of many feature sets; columns are standardized once per fold."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from models.arrays import Floats, Int32s
from models.losses import Losses
from solvers.index.selection_bias import pack_outcomes
from solvers.learners.batch_logistic import fit_sets
from solvers.learners.estimators import Folds
from solvers.statistics import softmax

T = TypeVar("T")


def split_into_batches(values: Sequence[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yield batches of a sequence; the last may be shorter.

    >>> list(split_into_batches("abcde", 2))
    [('a', 'b'), ('c', 'd'), ('e',)]
    """
    remaining = iter(values)
    while batch := tuple(islice(remaining, size)):
        yield batch


def validate_sets(
    table: Floats,
    labels: Int32s,
    classes: int,
    sets: Sequence[Sequence[int]],
    C: float,
    folds: Folds,
    losses: Losses | None,
) -> list[bytes]:
    """Cross-validate models of sets of columns; return the outcomes of the rows (``pack_outcomes``)."""
    right = np.zeros((len(sets), len(labels)), dtype=bool if losses is None else np.float64)
    for train, test in folds:
        mean, scale = _standardization(table[train])
        models = fit_sets((table[train] - mean) / scale, labels[train], classes, sets, C)
        unseen = (table[test] - mean) / scale
        for place, (columns, model) in enumerate(zip(sets, models, strict=True)):
            scores = unseen[:, columns] @ model[:, :-1].T + model[:, -1]
            if losses is not None:
                logits = np.column_stack((np.zeros(len(scores)), scores[:, 0])) if classes == 2 else scores
                right[place, test] = losses.grade_answers(softmax(logits), labels[test])
                continue
            codes = scores[:, 0] > 0 if classes == 2 else scores.argmax(axis=1)
            right[place, test] = codes == labels[test]
    return [pack_outcomes(each) for each in right]


def train_sets(table: Floats, labels: Int32s, classes: int, sets: Sequence[Sequence[int]], C: float) -> list[bytes]:
    """Return for each set of columns the model trained on all rows, in the format of ``pack_linear``."""
    mean, scale = _standardization(table)
    models = fit_sets((table - mean) / scale, labels, classes, sets, C)
    return [
        np.concatenate((mean[columns], scale[columns], model[:, :-1].reshape(-1), model[:, -1])).tobytes()
        for columns, model in zip(map(list, sets), models, strict=True)
    ]


def _standardization(table: Floats) -> tuple[Floats, Floats]:
    """Return means and deviations of columns; constant columns are not scaled."""
    mean, scale = table.mean(axis=0), table.std(axis=0)
    return mean, np.where(scale > 10 * np.finfo(np.float64).eps * np.maximum(np.abs(mean), 1e-300), scale, 1.0)
