"""Batched logistic regression: one model per set of columns of the same table, by Newton's method.

The loss is that of scikit-learn's ``LogisticRegression``: C times the sum of the items' log losses, plus half the
squared norm of the coefficients, without the intercept. It is convex, so Newton's method finds the unique minimum. Sets
with equally many columns are trained together, as stacked matrices. Gradients are in double precision, the Hessian in
single precision. If there are many sets, the model of all columns is trained first. Each set starts from the minimum of
a quadratic approximation of that model's loss, with the coefficients of all other columns fixed at 0. This halves the
number of steps.

A model of k outputs (1 for two classes, else one for each class) over d columns is (k, d + 1) numbers, the intercept
last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats

Columns = Sequence[int]

MAX_NUMBERS = 1 << 18
"""Maximum size of the stacked tables, in numbers: 2 MB, which fits into a processor's cache."""
MAX_STEPS = 100
MAX_HALVINGS = 30
TOLERANCE = 1e-5
"""Training ends when no coefficient moves by more than this share of the largest one, or of 1; the error is then some
1e-9."""
FROZEN_CURVATURE_MOVE = 1e-3
"""After smaller moves the Hessian is reused."""
MIN_DOUBLE_PRECISION_C = 100.0
"""From this C on the Hessian is in double precision."""
MIN_WARM_START_RATIO = 4.0
"""Minimum ratio of the effort of all sets to that of the model of all columns, for training that first."""


def fit_sets(
    table: Floats,
    labels: NDArray[np.integer],
    classes: int,
    sets: Sequence[Columns],
    C: float = 1.0,
) -> list[Floats]:
    """Train a model on each set of columns.

    Args:
        table: (n, D), preferably standardized.
        labels: (n,), codes below ``classes``.
    Complexity: O(n p²) for each set and each of three to ten steps, with p = outputs · columns.

    >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> fit_sets(x, np.array([0, 0, 1, 1]), 2, [[0]])[0][:, 0].round(4).tolist()
    [1.0066]
    """
    whole = np.vstack((table.T, np.ones(len(table))))
    truth = (np.arange(classes)[:, None] == np.asarray(labels)).astype(np.float64)
    truth = truth[1:] if classes == 2 else truth
    approximation = _QuadraticApproximation.from_sets(whole, truth, sets, C)
    fitted: list[Floats] = [np.zeros(0)] * len(sets)
    for places in _group_by_size([len(columns) for columns in sets], len(table), classes):
        columns = np.array([[*sets[place], table.shape[1]] for place in places])
        starts = (
            np.zeros((len(places), len(truth), columns.shape[1]))
            if approximation is None
            else approximation.minimize(columns)
        )
        for place, model in zip(places, _newton(whole[columns], truth, starts, C), strict=True):
            fitted[place] = model
    return fitted


@dataclass(frozen=True, slots=True, eq=False)
class _QuadraticApproximation:
    """Quadratic approximation of the loss around the model of D columns.

    Holds the Hessian (k, D, k, D), Hessian times model (k, D), and column indices.
    """

    curvature: Floats
    slope: Floats
    places: NDArray[np.intp]

    @classmethod
    def from_sets(
        cls, whole: Floats, truth: Floats, sets: Sequence[Columns], C: float
    ) -> "_QuadraticApproximation | None":
        """Train the model of all columns in any set; return None if that is too expensive."""
        used = sorted({column for columns in sets for column in columns})
        k, p = len(truth), len(used) + 1
        if sum((len(columns) + 1) ** 2 for columns in sets) < MIN_WARM_START_RATIO * p**2:
            return None
        columns = np.array([*used, len(whole) - 1])
        tables = whole[columns][None]
        model = _newton(tables, truth, np.zeros((1, k, p)), C)
        curvature = _compute_hessians(_cast_for_hessian(tables, C), _evaluate(tables, truth, model, C)[1], C)[0]
        slope = (curvature @ model.reshape(-1)).reshape(k, p)
        return cls(curvature.reshape(k, p, k, p), slope, np.searchsorted(columns, np.arange(len(whole))))

    def minimize(self, columns: NDArray[np.intp]) -> Floats:
        """Return the minima for models of a batch of columns, (b, p), as (b, k, p).

        All other coefficients are 0.
        """
        own = self.places[columns]
        b, p = own.shape
        k = len(self.slope)
        outputs = np.arange(k)
        curvature = self.curvature[
            outputs[:, None, None, None], own[:, None, :, None, None], outputs[:, None], own[:, None, None, None, :]
        ]
        slope = self.slope[:, own].swapaxes(0, 1)
        least = np.linalg.solve(curvature.reshape(b, k * p, k * p), slope.reshape(b, k * p, 1))
        return np.asarray(least.reshape(b, k, p))


def predict_probabilities(model: Floats, table: Floats) -> Floats:
    """Return class probabilities, (classes, n), of items.

    Args:
        model: (k, d + 1), or a batch of models with one table each.
        table: (d, n), transposed.
    """
    probabilities = _to_probabilities(model[..., :-1] @ table + model[..., -1:])
    return np.concatenate((1 - probabilities, probabilities), axis=-2) if model.shape[-2] == 1 else probabilities


def _to_probabilities(scores: Floats) -> Floats:
    """Convert scores to probabilities of outputs, (..., k, n)."""
    from scipy.special import expit, softmax

    if scores.shape[-2] == 1:
        return np.asarray(expit(scores))
    return np.asarray(softmax(scores, axis=-2))


def _group_by_size(sizes: Sequence[int], rows: int, classes: int) -> list[list[int]]:
    """Group sets of equal size, up to the maximum batch size."""
    outputs = 1 if classes == 2 else classes
    batches: list[list[int]] = []
    for place in sorted(range(len(sizes)), key=lambda place: sizes[place]):
        width = sizes[place] + 1
        limit = max(MAX_NUMBERS // (rows * (width + outputs) + (outputs * width) ** 2), 1)
        if not batches or sizes[batches[-1][0]] != sizes[place] or len(batches[-1]) >= limit:
            batches.append([])
        batches[-1].append(place)
    return batches


def _newton(tables: Floats, truth: Floats, starts: Floats, C: float) -> Floats:
    """Train a batch of models by Newton's method.

    Inputs are tables (b, p, n), truth (k, n), and starts (b, k, p). Models are returned as (b, k, p).
    """
    b, p, _ = tables.shape
    k = len(truth)
    steering = _cast_for_hessian(tables, C)
    fitted = np.zeros((b, k, p))
    active, models, losses, probabilities = np.arange(b), *_choose_starts(tables, truth, starts, C)
    close = False
    for _ in range(MAX_STEPS):
        if not close:
            curvature = _compute_hessians(steering, probabilities, C)
        slopes = C * (probabilities - truth) @ tables.swapaxes(1, 2)
        slopes[..., :-1] += models[..., :-1]
        steps = np.asarray(np.linalg.solve(curvature, slopes.reshape(-1, k * p, 1))).reshape(-1, k, p)
        before = models
        models, losses, probabilities = _search_line(tables, truth, before, steps, losses, C)
        fitted[active] = models
        moved = np.abs(models - before).max(axis=(1, 2)) / np.maximum(np.abs(models).max(axis=(1, 2)), 1.0)
        is_moving = moved > TOLERANCE
        close = bool(np.all(moved <= FROZEN_CURVATURE_MOVE))
        if not is_moving.any():
            break
        if not is_moving.all():
            active, models, losses, probabilities = (
                active[is_moving],
                models[is_moving],
                losses[is_moving],
                probabilities[is_moving],
            )
            tables, steering, curvature = tables[is_moving], steering[is_moving], curvature[is_moving]
    if k > 1:
        fitted[..., -1] -= fitted[..., -1].mean(axis=1, keepdims=True)  # single precision lets them drift
    return fitted


def _cast_for_hessian(tables: Floats, C: float) -> NDArray[np.floating]:
    return tables.astype(np.float32 if C < MIN_DOUBLE_PRECISION_C else np.float64)


def _choose_starts(tables: Floats, truth: Floats, starts: Floats, C: float) -> tuple[Floats, Floats, Floats]:
    """Replace a start by 0 if that has a lower loss; return models, losses, and probabilities."""
    losses, probabilities = _evaluate(tables, truth, starts, C)
    outputs = max(len(truth), 2)
    level = C * truth.shape[1] * log(outputs)
    worse = ~(losses < level)
    return (
        np.where(worse[:, None, None], 0.0, starts),
        np.where(worse, level, losses),
        np.where(worse[:, None, None], 1 / outputs, probabilities),
    )


def _evaluate(tables: Floats, truth: Floats, models: Floats, C: float) -> tuple[Floats, Floats]:
    """Return each model's loss, (b,), and the probabilities of its outputs, (b, k, n)."""
    scores = models @ tables
    if len(truth) == 1:
        ratios = np.exp(-np.abs(scores))  # of the less likely class to the other
        sums = 1 + ratios
        probabilities = np.where(scores > 0, 1.0, ratios) / sums
        misses = np.log(sums) + np.maximum(scores, 0) - truth * scores
    else:
        scores -= scores.max(axis=1, keepdims=True)
        raised = np.exp(scores)
        sums = raised.sum(axis=1, keepdims=True)
        probabilities = raised / sums
        misses = np.log(sums) - (truth * scores).sum(axis=1, keepdims=True)
    return C * misses.sum(axis=(1, 2)) + 0.5 * (models[..., :-1] ** 2).sum(axis=(1, 2)), probabilities


def _compute_hessians(tables: NDArray[np.floating], probabilities: Floats, C: float) -> Floats:
    """Return Hessians, (b, k p, k p).

    A penalty fixes the common shift of all intercepts, which does not change the loss.
    """
    b, p, _ = tables.shape
    k = probabilities.shape[1]
    cast = probabilities.astype(tables.dtype)
    curvature = np.zeros((b, k, p, k, p))
    for i in range(k):
        for j in range(i, k):
            weights = C * cast[:, i] * ((i == j) - cast[:, j])
            curvature[:, i, :, j] = (tables * weights[:, None]) @ tables.swapaxes(1, 2)
            curvature[:, j, :, i] = curvature[:, i, :, j].swapaxes(1, 2)
    penalty = np.eye(k * p).reshape(k, p, k, p)
    penalty[:, -1, :, -1] = 1.0 if k > 1 else 0.0
    return (curvature + penalty).reshape(b, k * p, k * p)


def _search_line(
    tables: Floats,
    truth: Floats,
    models: Floats,
    steps: Floats,
    losses: Floats,
    C: float,
) -> tuple[Floats, Floats, Floats]:
    """Take each model's step, halved until the loss does not increase.

    Return models, losses, and probabilities.
    """
    lengths = np.ones(len(models))
    for _ in range(MAX_HALVINGS):
        reached = models - lengths[:, None, None] * steps
        reached_losses, probabilities = _evaluate(tables, truth, reached, C)
        worse = ~(reached_losses <= losses + 1e-12 * np.abs(losses))
        if not worse.any():
            break
        lengths[worse] /= 2
    return reached, reached_losses, probabilities
