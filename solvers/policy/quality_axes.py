"""Supervised projection of embeddings by ridge regression.

The projection has the axes along which the classifiers' quality varies.

Without classes, items differ almost only by their embeddings, and principal components may miss relevant directions.
The ridge regression of each classifier's answer quality is linear in the embedding, so it defines an axis. Training
rows are projected out-of-fold, by the regression that was fitted without their fold. New items are projected by the
mean of these regressions.
"""

from dataclasses import replace

import numpy as np

from models.arrays import Floats, Int64s, Singles
from models.columns import MAX_COORDINATE_VALUE
from solvers.policy.embedding_axes import EmbeddingAxes
from solvers.policy.sensors import Sensors

RIDGE_PENALTIES = np.geomspace(1e-2, 1e4, 13)
"""Candidate ridge penalties, as multiples of the mean squared singular value."""
MIN_MEAN_SQUARE = 1e-10
"""Minimum of that mean; weights along nearly constant directions would exceed the bounds of a plan."""


def add_quality_axes(
    sensors: Sensors, cells: Floats, embeddings: Singles, quality: Floats, folds: Int64s
) -> tuple[Sensors, Floats]:
    """Add one supervised axis per classifier to the sensors and their readings.

    Args:
        cells: (n, D).
        embeddings: (n, d).
        quality: (n, M).
        folds: (n,), below K.
    Returns:
        The sensors, and readings (n, D + M).
    Complexity: O(K n d min(n, d)).
    """
    known = sensors.embedding
    assert known is not None
    centered = known.subtract_centre(embeddings)
    shown, axes = np.empty(quality.shape), np.zeros((embeddings.shape[1], quality.shape[1]))
    for part in range(int(folds.max()) + 1):
        seen = folds != part
        own = fit_ridge(centered[seen], quality[seen])
        shown[~seen] = np.clip(centered[~seen] @ own, -MAX_COORDINATE_VALUE, MAX_COORDINATE_VALUE)
        axes += own / (int(folds.max()) + 1)
    more = np.full(quality.shape[1], len(sensors.names), dtype=np.int32)
    grown = replace(
        sensors,
        owners=np.append(sensors.owners, more),
        labelled=np.append(sensors.labelled, np.zeros(len(more), dtype=np.bool_)),
        embedding=EmbeddingAxes(known.centre, np.concatenate([known.axes, axes], axis=1).astype(np.float32)),
    )
    return grown, np.concatenate([cells, shown], axis=1)


def fit_ridge(inputs: Floats, targets: Floats) -> Floats:
    """Return ridge weights, (d, M), of targets, (n, M), on inputs, (n, d).

    The penalty minimizes the leave-one-out error.

    Complexity: O(n d min(n, d)).
    """
    centered, off = inputs - inputs.mean(axis=0), targets - targets.mean(axis=0)
    left, spread, axes = np.linalg.svd(centered, full_matrices=False)
    squares, along = spread**2, left.T @ off
    best, weights = np.full(targets.shape[1], np.inf), np.zeros((inputs.shape[1], targets.shape[1]))
    for strength in (RIDGE_PENALTIES * max(float(squares.mean()), MIN_MEAN_SQUARE)).tolist():
        kept = squares / (squares + strength)
        leverage = (left**2) @ kept + 1 / len(left)
        residual = ((off - left @ (kept[:, None] * along)) / np.maximum(1 - leverage, 1e-9)[:, None]) ** 2
        better = residual.sum(axis=0) < best
        own = axes.T @ ((spread / (squares + strength))[:, None] * along)
        best, weights = np.where(better, residual.sum(axis=0), best), np.where(better, own, weights)
    return weights
