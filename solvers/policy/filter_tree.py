"""Deciding by a filter tree: a tournament of actions, each match a weighted logistic regression (Eq. 8).

After Beygelzimer, Langford and Ravikumar. The matches are learned from the first round to the last. In each the two
actions that won the matches before it meet, for every row those that won for this row; the lighter one is the label,
and the difference of their weights is the importance of the row. Decision functions are homogeneous polynomials: all
monomials of one degree in what the node looks at, standardised, and a constant.
"""

import warnings
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from models.arrays import Bools, Floats, Int16s, Singles
from solvers.policy.regression import NodeTraining

PENALTY = 1.0
"""The inverse strength of the ridge penalty, scikit-learn's C, for importances of mean 1."""
TOLERANCE = 1e-2
"""The slope of the loss, for each row, at which a match has converged; only the sign of what it says counts."""
MOST_STEPS, MOST_HALVINGS = 30, 12
MOST_EXACT = 400
"""Up to so many monomials matches are fitted by Newton's method, beyond by scikit-learn's L-BFGS."""
LEAST_CURVATURE = 1e-9
SURE = 20.0
"""The decision value of a match that one side always wins."""
LEAST_SCALE = 1e-100
"""What varies less does not vary."""
FARTHEST = 8.0
"""Standardised numbers are cut off here, so that their powers stay small."""


@dataclass(frozen=True, slots=True, eq=False)
class Tournament:
    """One node's policy. base: (K, A, L) float32, the mean advantages of its actions; centre, scale: (d,); matches: (K,
    A, L, P) float32, the weights of each match's monomials; actions: (n, L) what the member that had not seen the row
    decides for it."""

    base: Singles
    centre: Floats
    scale: Floats
    matches: Singles
    actions: Int16s


def rounds(actions: int) -> list[tuple[int, int]]:
    """Draw up the matches between stopping, 0, and the actions 1 to A: A pairs of places, where A + 1 + i is the winner
    of match i. Of an odd number the last waits a round.

    >>> rounds(3), rounds(2)
    ([(0, 1), (2, 3), (4, 5)], [(0, 1), (3, 2)])
    """
    entered, matches = list(range(actions + 1)), list[tuple[int, int]]()
    while len(entered) > 1:
        following = []
        for at in range(0, len(entered) - 1, 2):
            matches.append((entered[at], entered[at + 1]))
            following.append(actions + len(matches))
        entered = following + (entered[-1:] if len(entered) % 2 else [])
    return matches


def monomials(inputs: Floats, degree: int) -> Floats:
    """Multiply out all monomials of one degree in the columns of (n, d) and a constant, which comes last: (n, P).

    >>> monomials(np.array([[2.0, 3.0]]), 2).tolist()
    [[4.0, 6.0, 2.0, 9.0, 3.0, 1.0]]
    """
    every = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    chosen = np.array(list(combinations_with_replacement(range(every.shape[1]), degree)))
    return np.asarray(np.prod(every[:, chosen], axis=2))


def standardize(features: Floats, centre: Floats, scale: Floats) -> Floats:
    """Shift and scale what a node looks at, (n, d), and cut it off."""
    return np.clip((features - centre) / scale, -FARTHEST, FARTHEST)


def play(weights: Singles, inputs: Floats) -> Int16s:
    """Play the tournament of one member under one trade-off, weights (A, P) over monomials (n, P): the winners, (n,).

    >>> play(np.array([[1.0]], np.float32), np.array([[0.5], [-0.5]])).tolist()
    [1, 0]
    """
    winners = [np.full(len(inputs), action, dtype=np.int16) for action in range(len(weights) + 1)]
    for match, (left, right) in zip(weights, rounds(len(weights)), strict=True):
        winners.append(np.where(inputs @ match > 0, winners[right], winners[left]))
    return winners[-1]


def learn_by_filter_tree(training: NodeTraining, degree: int) -> Tournament:
    """Fit the members of one node under every trade-off: A K L logistic regressions."""
    centre, scale = training.features.mean(axis=0), training.features.std(axis=0)
    scale = np.where(scale > LEAST_SCALE, scale, 1.0)
    inputs = monomials(standardize(training.features, centre, scale), degree)
    n, actions, tradeoffs = training.weights.shape[0], training.weights.shape[1] - 1, training.weights.shape[2]
    matches = np.zeros((training.members, actions, tradeoffs, inputs.shape[1]), dtype=np.float32)
    base = np.zeros((training.members, actions, tradeoffs), dtype=np.float32)
    chosen = np.zeros((n, tradeoffs), dtype=np.int16)
    for k in range(training.members):
        seen = training.folds != k
        base[k] = training.advantages[seen].mean(axis=0)
        matches[k] = fit_matches(inputs[seen], training.weights[seen])
        for at in range(tradeoffs):
            chosen[~seen, at] = play(matches[k, :, at], inputs[~seen])
    return Tournament(base, centre, scale, matches, chosen)


def fit_matches(inputs: Floats, weights: Floats) -> Singles:
    """Learn one tournament under every trade-off from monomials (n, P) and weights (n, A + 1, L): (A, L, P)."""
    n, actions, tradeoffs = weights.shape[0], weights.shape[1] - 1, weights.shape[2]
    rows, columns = np.arange(n)[:, None], np.arange(tradeoffs)
    winners = [np.full((n, tradeoffs), action, dtype=np.int64) for action in range(actions + 1)]
    coefficients = np.zeros((actions, tradeoffs, inputs.shape[1]), dtype=np.float32)
    for at, (left, right) in enumerate(rounds(actions)):
        lead = weights[rows, winners[left], columns] - weights[rows, winners[right], columns]
        coefficients[at] = _fit_match(inputs, lead).T
        winners.append(np.where(inputs @ coefficients[at].T > 0, winners[right], winners[left]))
    return coefficients


def _fit_match(inputs: Floats, lead: Floats) -> Floats:
    """Fit the weights of one match, (P, L): above 0 where the right side is the lighter, by lead, (n, L)."""
    coefficients, labels, importance = np.zeros((inputs.shape[1], lead.shape[1])), lead > 0, np.abs(lead)
    right, left = (importance * labels).sum(axis=0), (importance * ~labels).sum(axis=0)
    decided = (right == 0) | (left == 0)
    coefficients[-1, decided] = np.where(labels.any(axis=0), SURE, -SURE)[decided]
    if not decided.all():
        own = importance[:, ~decided] / importance[:, ~decided].mean(axis=0)
        learn = weighted_regressions if inputs.shape[1] <= MOST_EXACT else _large_regressions
        coefficients[:, ~decided] = learn(inputs, labels[:, ~decided], own)
    return coefficients


def weighted_regressions(inputs: Floats, labels: Bools, importance: Floats) -> Floats:
    """Fit logistic regressions to the same inputs, (n, P) with the constant last, all at once by Newton's method: (P,
    L) from labels and importances of mean 1, (n, L) both. Weights but the constant's are pulled to 0 by ``PENALTY``.

    O(n P² L) a step. A step that would lose is halved: so every one wins, and a few are enough.
    """
    from scipy.special import expit

    n, width = inputs.shape
    pull = np.append(np.full(width - 1, 1 / PENALTY), 0.0)[:, None]
    weights, margins = np.zeros((width, labels.shape[1])), np.zeros(labels.shape)
    losses = _losses(margins, weights, labels, importance, pull)
    for _ in range(MOST_STEPS):
        chances = expit(margins)
        slopes = pull * weights + inputs.T @ (importance * (chances - labels))
        if np.abs(slopes).max() <= TOLERANCE * n:
            break
        steps = _newton_steps(inputs, importance * chances * (1 - chances), slopes, pull)
        moved = inputs @ steps
        scale = np.ones(labels.shape[1])
        for _ in range(MOST_HALVINGS):
            further = _losses(margins - scale * moved, weights - scale * steps, labels, importance, pull)
            if np.all(further <= losses):
                break
            scale = np.where(further <= losses, scale, scale / 2)
        better = further <= losses
        weights, margins = weights - better * scale * steps, margins - better * scale * moved
        losses = np.minimum(losses, further)
    return weights


def _large_regressions(inputs: Floats, labels: Bools, importance: Floats) -> Floats:
    """Fit the same to many monomials, one after the other."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    weights = np.empty((inputs.shape[1], labels.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for at in range(labels.shape[1]):
            model = LogisticRegression(C=PENALTY, max_iter=30, tol=1e-2)
            model.fit(inputs[:, :-1], labels[:, at], sample_weight=importance[:, at])
            weights[:-1, at], weights[-1, at] = model.coef_[0], model.intercept_[0]
    return weights


def _losses(margins: Floats, weights: Floats, labels: Bools, importance: Floats, pull: Floats) -> Floats:
    signed = np.where(labels, margins, -margins)
    return np.asarray((pull * weights**2).sum(axis=0) / 2 + (importance * np.logaddexp(0.0, -signed)).sum(axis=0))


def _newton_steps(inputs: Floats, curvatures: Floats, slopes: Floats, pull: Floats) -> Floats:
    """Solve for the steps of all regressions, (P, L): where a system is singular, a little is added to its diagonal."""
    from scipy.linalg import cho_factor, cho_solve
    from scipy.linalg.blas import dsyrk

    steps = np.empty_like(slopes)
    for at in range(slopes.shape[1]):
        hessian = dsyrk(1.0, (inputs * np.sqrt(curvatures[:, at : at + 1])).T, lower=True)  # the half that is needed
        hessian[np.diag_indices(len(hessian))] += pull[:, 0] + LEAST_CURVATURE
        steps[:, at] = cho_solve(cho_factor(hessian, lower=True, check_finite=False), slopes[:, at], check_finite=False)
    return steps
