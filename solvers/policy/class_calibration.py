"""Calibration of class probabilities by vector scaling: the logit of each class has a scale and an offset.

With unequal losses, answers and decisions compare probabilities with thresholds far from one half. There, forests of
few trees are too cautious. Calibrated forests are forests, because logits are linear in the leaves.

Source: Guo, Pleiss, Sun, Weinberger, *On Calibration of Modern Neural Networks*, 2017, Section 4.2.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s
from solvers.parallel import run_parallel
from solvers.policy.classifier_training import TrainingRows
from solvers.policy.states import PolicyStates
from solvers.statistics import softmax, standard_error_of_mean
from solvers.trees.oblivious_trees import Forest

STRENGTH = 10.0
"""Ridge penalty of scales, less 1, and of offsets. With less, small tables lose more; with more, many classes do."""
MIN_PROBABILITY = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class VectorScaling:
    """Scales and offsets, (C,) each, of centered logits."""

    scales: Floats
    offsets: Floats

    @classmethod
    def fit(
        cls, logits: Floats, labels: Int32s, strength: float = STRENGTH, start: "VectorScaling | None" = None
    ) -> "VectorScaling":
        """Minimize the log loss of the rows plus the penalty, which is convex.

        Args:
            logits: (n, C).
            labels: (n,).
            strength: ridge penalty, in log losses of one row.
            start: scaling of similar rows, from which fewer steps remain.
        Complexity: O(n C) for each step.

        >>> logits, labels = np.array([[2.0, -2.0]] * 4), np.array([0, 0, 0, 1], np.int32)
        >>> softmax(VectorScaling.fit(logits, labels, 1e-6).scale_logits(logits))[0].round(3).tolist()
        [0.75, 0.25]
        """
        from scipy.optimize import minimize  # here, so that only a fit loads SciPy

        centered, classes, rows = _center(logits), logits.shape[1], np.arange(len(labels))
        unchanged = np.concatenate((np.ones(classes), np.zeros(classes)))
        first = unchanged if start is None else np.concatenate((start.scales, start.offsets))

        def measure_loss(params: Floats) -> tuple[float, Floats]:
            scores, moved = centered * params[:classes] + params[classes:], params - unchanged
            excess, lost = softmax(scores), _log_losses(scores, labels)
            excess[rows, labels] -= 1
            slopes = np.concatenate(((excess * centered).sum(axis=0), excess.sum(axis=0)))
            return float(lost.sum() + strength * (moved @ moved)), slopes + 2 * strength * moved

        return cls(*np.split(minimize(measure_loss, first, jac=True, method="L-BFGS-B").x, 2))

    def scale_logits(self, logits: Floats) -> Floats:
        """Return calibrated logits, (n, C)."""
        return _center(logits) * self.scales + self.offsets

    def scale_forest(self, forest: Forest) -> Forest:
        """Return the forest of calibrated logits."""
        base = self.scale_logits(forest.base.astype(np.float64))
        leaves = _center(forest.leaves.astype(np.float64)) * self.scales
        return replace(forest, base=base.astype(np.float32), leaves=leaves.astype(np.float32))


def calibrate_states(states: PolicyStates, training: TrainingRows, report: Callable[[int], None]) -> PolicyStates:
    """Return the states with calibrated classifiers; nodes with equal readings share one.

    Member k is calibrated on the out-of-fold posteriors of the rows of all folds but k.

    Args:
        report: receives the number of calibrated classifiers.
    """
    place = {id(members): at for at, members in enumerate(states.members)}
    parts = [(states.members[at], states.posteriors[at], states.rows[at]) for at in place.values()]
    jobs = [partial(_calibrate_state, *part, training.labels, training.folds, training.items) for part in parts]
    calibrated = dict(zip(place, run_parallel(jobs, report), strict=True))
    members, posteriors = zip(*(calibrated[id(each)] for each in states.members), strict=True)
    return replace(states, members=list(members), posteriors=list(posteriors))


def _calibrate_state(
    members: list[Forest], posteriors: Floats, rows: Bools, labels: Int32s, folds: Int64s, items: Int64s | None
) -> tuple[list[Forest], Floats]:
    """Return the calibrated members and posteriors of a state; ``rows``, (n,), calibrate."""
    logits = np.log(np.maximum(posteriors, MIN_PROBABILITY))
    scalings = cross_fit_scalings(logits[rows], labels[rows], folds[rows], None if items is None else items[rows])
    if not scalings:
        return members, posteriors
    calibrated = np.empty_like(posteriors)
    for k, scaling in enumerate(scalings):
        own = folds == k
        calibrated[own] = softmax(scaling.scale_logits(logits[own]))
    return [scaling.scale_forest(forest) for scaling, forest in zip(scalings, members, strict=True)], calibrated


def cross_fit_scalings(logits: Floats, labels: Int32s, folds: Int64s, items: Int64s | None) -> list[VectorScaling]:
    """Return a scaling for each of K folds, fitted to the rows of the other folds.

    The list is empty if calibration does not reduce the log loss of held-out rows by more than a standard error.

    Args:
        logits: (n, C), out of fold.
        labels: (n,).
        folds: (n,), below K.
        items: (n,), equal for rows of one item; None if no item repeats.
    """
    every, scalings, gains = VectorScaling.fit(logits, labels), list[VectorScaling](), np.empty(len(labels))
    for k in range(int(folds.max()) + 1):
        held = folds == k
        scalings.append(VectorScaling.fit(logits[~held], labels[~held], start=every))
        before, after = logits[held], scalings[k].scale_logits(logits[held])
        gains[held] = _log_losses(before, labels[held]) - _log_losses(after, labels[held])
    return scalings if gains.mean() > standard_error_of_mean(gains, items) else []


def _log_losses(logits: Floats, labels: Int32s) -> Floats:
    """Return the log loss of each row, (n,)."""
    own = logits[np.arange(len(labels)), labels]
    highest = logits.max(axis=1)
    return np.asarray(np.log(np.exp(logits - highest[:, None]).sum(axis=1)) + highest - own)


def _center(logits: Floats) -> Floats:
    """Return logits whose mean over the classes, the last axis, is 0; they have the same probabilities."""
    return np.asarray(logits - logits.mean(axis=-1, keepdims=True))
