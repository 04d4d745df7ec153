"""Calibration of class probabilities by vector scaling: the logit of each class has a scale and an offset.

With unequal losses, answers and decisions compare probabilities with thresholds far from one half. There, forests of
few trees are too cautious. Calibrated forests are forests, because logits are linear in the leaves.

Source: Guo, Pleiss, Sun, Weinberger, *On Calibration of Modern Neural Networks*, 2017, Section 4.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.optimize import minimize

from models.arrays import Bools, Floats, Int32s, Int64s
from solvers.parallel import run_parallel
from solvers.policy.classifier_training import TrainingRows
from solvers.policy.states import PolicyStates
from solvers.statistics import softmax, standard_error_of_mean
from solvers.trees.oblivious_trees import Forest

STRENGTH = 10.0
"""Ridge penalty of scales, less 1, and of offsets: a smaller one costs small tables, a larger one many classes."""
MIN_PROBABILITY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class VectorScaling:
    """Scales and offsets, (C,) each, of centered logits."""

    scales: Floats
    offsets: Floats

    @classmethod
    def make_identity(cls, classes: int) -> "VectorScaling":
        """Return the scaling that changes no probability."""
        return cls(np.ones(classes), np.zeros(classes))

    @classmethod
    def fit(cls, logits: Floats, labels: Int32s, strength: float = STRENGTH) -> "VectorScaling":
        """Minimize the log loss of the rows plus the penalty, which is convex.

        Args:
            logits: (n, C).
            labels: (n,).
            strength: ridge penalty, in log losses of one row.
        Complexity: O(n C) for each step.

        >>> logits, labels = np.array([[2.0, -2.0]] * 4), np.array([0, 0, 0, 1], np.int32)
        >>> softmax(VectorScaling.fit(logits, labels, 1e-6).scale_logits(logits))[0].round(3).tolist()
        [0.75, 0.25]
        """
        centered, classes = _center(logits), logits.shape[1]
        truth = np.eye(classes)[labels]
        start = np.concatenate((np.ones(classes), np.zeros(classes)))

        def measure(params: Floats) -> tuple[float, Floats]:
            scores, moved = centered * params[:classes] + params[classes:], params - start
            probabilities = softmax(scores)
            excess = probabilities - truth
            slopes = np.concatenate(((excess * centered).sum(axis=0), excess.sum(axis=0)))
            lost = float(_log_losses(probabilities, labels).sum() + strength * (moved @ moved))
            return lost, slopes + 2 * strength * moved

        return cls(*np.split(minimize(measure, start, jac=True, method="L-BFGS-B").x, 2))

    def scale_logits(self, logits: Floats) -> Floats:
        """Return calibrated logits, (n, C)."""
        return _center(logits) * self.scales + self.offsets

    def scale_forest(self, forest: Forest) -> Forest:
        """Return the forest of calibrated logits."""
        base = self.scale_logits(forest.base.astype(np.float64))
        leaves = _center(forest.leaves.astype(np.float64)) * self.scales
        return replace(forest, base=base.astype(np.float32), leaves=leaves.astype(np.float32))


def calibrate_states(states: PolicyStates, training: TrainingRows) -> PolicyStates:
    """Return the states with calibrated classifiers.

    Member k is calibrated on out-of-fold posteriors of all folds but k, so the fold that validates it has no part.
    """
    parts = zip(states.members, states.posteriors, states.rows, strict=True)
    jobs = [partial(_calibrate_state, *part, training) for part in parts]
    calibrated = list(run_parallel(jobs))
    return replace(states, members=[each for each, _ in calibrated], posteriors=[each for _, each in calibrated])


def _calibrate_state(
    members: list[Forest], posteriors: Floats, rows: Bools, training: TrainingRows
) -> tuple[list[Forest], Floats]:
    """Return the calibrated members and posteriors of a state; ``rows``, (n,), calibrate."""
    logits, items = np.log(np.maximum(posteriors, MIN_PROBABILITY)), training.items
    labels, folds = training.labels[rows], training.folds[rows]
    scalings = cross_fit_scalings(logits[rows], labels, folds, len(members), None if items is None else items[rows])
    calibrated = np.empty_like(posteriors)
    for k, scaling in enumerate(scalings):
        own = training.folds == k
        calibrated[own] = softmax(scaling.scale_logits(logits[own]))
    return [scaling.scale_forest(forest) for scaling, forest in zip(scalings, members, strict=True)], calibrated


def cross_fit_scalings(
    logits: Floats, labels: Int32s, folds: Int64s, members: int, items: Int64s | None
) -> list[VectorScaling]:
    """Return one scaling for each fold, fitted to the rows of the other folds.

    If calibration does not reduce the log loss of held-out rows by more than a standard error, return identities.

    Args:
        logits: (n, C), out of fold.
        labels: (n,).
        folds: (n,), below ``members``.
        items: (n,), equal for rows of one item; None if no item repeats.
    """
    same = [VectorScaling.make_identity(logits.shape[1])] * members
    fitted = [VectorScaling.fit(logits[folds != k], labels[folds != k]) for k in range(members)]
    before, after = (_held_out_losses(each, logits, labels, folds) for each in (same, fitted))
    gains = before - after
    return fitted if gains.mean() > float(standard_error_of_mean(gains[None], items)[0]) else same


def _held_out_losses(scalings: Sequence[VectorScaling], logits: Floats, labels: Int32s, folds: Int64s) -> Floats:
    """Return the log loss of each row, (n,), with the scaling of its fold."""
    lost = np.empty(len(labels))
    for k, scaling in enumerate(scalings):
        held = folds == k
        lost[held] = _log_losses(softmax(scaling.scale_logits(logits[held])), labels[held])
    return lost


def _log_losses(probabilities: Floats, labels: Int32s) -> Floats:
    return np.asarray(-np.log(np.maximum(probabilities[np.arange(len(labels)), labels], MIN_PROBABILITY)))


def _center(logits: Floats) -> Floats:
    """Return logits whose mean over the classes, the last axis, is 0; they have the same probabilities."""
    return np.asarray(logits - logits.mean(axis=-1, keepdims=True))
