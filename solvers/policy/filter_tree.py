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

from solvers.arrays import Floats, Int16s, Singles
from solvers.policy.regression import NodeTraining

PENALTY = 1.0
"""The inverse strength of the ridge penalty, scikit-learn's C, for importances of mean 1."""
TOLERANCE = 1e-2
"""Where a match stops to converge; only the sign of what it says counts."""
SURE = 20.0
"""The decision value of a match that one side always wins."""
MOST_EXACT = 400
"""Up to so many monomials a match is fitted by Newton's method."""
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
        for at in range(tradeoffs):
            matches[k, :, at] = fit_matches(inputs[seen], training.weights[seen, :, at])
            chosen[~seen, at] = play(matches[k, :, at], inputs[~seen])
    return Tournament(base, centre, scale, matches, chosen)


def fit_matches(inputs: Floats, weights: Floats) -> Singles:
    """Learn one tournament from monomials (n, P) and weights (n, A + 1): (A, P)."""
    rows, actions = np.arange(len(inputs)), weights.shape[1] - 1
    winners = [np.full(len(inputs), action, dtype=np.int64) for action in range(actions + 1)]
    coefficients = np.zeros((actions, inputs.shape[1]), dtype=np.float32)
    for at, (left, right) in enumerate(rounds(actions)):
        lead = weights[rows, winners[left]] - weights[rows, winners[right]]
        coefficients[at] = _fit_match(inputs, lead)
        winners.append(np.where(inputs @ coefficients[at] > 0, winners[right], winners[left]))
    return coefficients


def _fit_match(inputs: Floats, lead: Floats) -> Floats:
    """Fit the weights of one match: above 0 where the right side is the lighter, by how much counts."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    coefficients, labels, importance = np.zeros(inputs.shape[1]), lead > 0, np.abs(lead)
    if importance[labels].sum() == 0 or importance[~labels].sum() == 0:
        coefficients[-1] = SURE if labels.any() else -SURE
        return coefficients
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solver = "newton-cholesky" if inputs.shape[1] <= MOST_EXACT else "lbfgs"
        model = LogisticRegression(C=PENALTY, max_iter=30, tol=TOLERANCE, solver=solver)
        model.fit(inputs[:, :-1], labels, sample_weight=importance / importance.mean())
    coefficients[:-1], coefficients[-1] = model.coef_[0], model.intercept_[0]
    return coefficients
