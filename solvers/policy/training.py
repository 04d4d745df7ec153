"""Fitting the classifiers of acquired sets, every member of them, in parallel over the sets."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from models.policy import PolicyOptions
from solvers.policy.basis import Basis
from solvers.policy.boosting import Binned, Growth, boost_classes
from solvers.policy.classifiers import Member, softmax, tree_inputs, tree_owners, weigh
from solvers.policy.forest import Forest

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
R = TypeVar("R")

RATE, RIDGE = 0.15, 2.0
"""How fast forests of classifiers learn, and how strongly their small leaves are pulled to 0."""
PENALTY = 1.0
"""The inverse strength of the linear models' ridge penalty, scikit-learn's C."""
ITERATIONS = 100
SHARES = {"linear": 1.0, "both": 0.5, "boosted": 0.0}
"""What the linear models' logits count for, the forests' the rest: one half each is the geometric mean."""


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """What classifiers learn from. cells: (n, D); labels: (n,) below classes; parts: (n,) below K, the part of the rows
    that each is in, which member k does not learn from."""

    basis: Basis
    cells: Floats
    labels: Ints
    classes: int
    parts: NDArray[np.int64]

    @property
    def members(self) -> int:
        """The number of parts, and of members, K."""
        return int(self.parts.max()) + 1


def cut(labels: Ints, folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Cut rows into parts at random, each class spread evenly over them: (n,).

    >>> np.bincount(cut(np.zeros(10, np.int32), 5, np.random.default_rng(0))).tolist()
    [2, 2, 2, 2, 2]
    """
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    parts = np.empty(len(labels), dtype=np.int64)
    parts[order] = np.arange(len(labels)) % folds
    return parts


def train(
    lessons: Lessons, sets: Bools, options: PolicyOptions, seeds: Sequence[int], tell: Callable[[int], None]
) -> tuple[list[list[Member]], list[Floats]]:
    """Fit the classifiers of sets, (S, M), and say of every row what the member that had not seen it says.

    Gives for each set its K members, and the posteriors (n, C). Equal seeds give equal bits on any number of processes.
    """
    jobs = [partial(_train_set, lessons, chosen, options, seed) for chosen, seed in zip(sets, seeds, strict=True)]
    found = in_parallel(jobs, tell)
    return [members for members, _ in found], [posteriors for _, posteriors in found]


def in_parallel(jobs: Sequence[Callable[[], R]], tell: Callable[[int], None]) -> list[R]:
    """Do jobs where joblib was told to, a few at once, each in one thread; ``tell`` hears how many are done."""
    at_once, found = max(2 * joblib.effective_n_jobs(), 1), list[R]()
    for start in range(0, len(jobs), at_once):
        tell(len(found))
        found += joblib.Parallel()(joblib.delayed(_alone)(job) for job in jobs[start : start + at_once])
    tell(len(found))
    return found


def _alone(job: Callable[[], R]) -> R:
    with threadpool_limits(1):
        return job()


def _train_set(lessons: Lessons, chosen: Bools, options: PolicyOptions, seed: int) -> tuple[list[Member], Floats]:
    """Fit the members of one set's classifier; its trees are as many as lose least on the rows not seen."""
    share, rng = SHARES[options.answers], np.random.default_rng(seed)
    places, values = lessons.basis.functions(lessons.cells, lessons.basis.sensors.columns_of(np.flatnonzero(chosen)))
    inputs = tree_inputs(lessons.basis.sensors, lessons.cells)
    binned = Binned.of(np.where(chosen[tree_owners(lessons.basis.sensors)], inputs, 0.0))
    members, losses = [], np.zeros(options.trees + 1)
    for k in range(lessons.members):
        seen = lessons.parts != k
        weights, intercept = _fit_linear(lessons, chosen, places, values, seen, share)
        growth = Growth(options.trees if share < 1 and chosen.any() else 0, options.depth, RATE, RIDGE)
        forest = boost_classes(binned.rows(seen), lessons.labels[seen], lessons.classes, growth, rng)
        member = Member(weights, intercept, _weighed(forest, 1 - share, options.trees))
        linear = intercept + weigh(_spread(lessons.basis, chosen, weights), places[~seen], values[~seen])
        labels = lessons.labels[~seen]
        losses += member.forest.staged_losses(inputs[~seen], partial(_log_loss, linear, labels))
        members.append(member)
    best = int(losses.argmin())
    members = [replace(member, forest=member.forest.first(best)) for member in members]
    return members, _unseen(lessons, chosen, members, places, values, inputs)


def _fit_linear(
    lessons: Lessons, chosen: Bools, places: NDArray[np.int64], values: Floats, seen: Bools, share: float
) -> tuple[Any, Any]:
    """Fit a logistic regression to the rows seen: weights (f, C) of the set's functions, intercept (C,), both times
    the share. A class that was not seen gets what half a row would."""
    from scipy.sparse import csr_array
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    own = chosen[lessons.basis.owners]
    counts = np.bincount(lessons.labels[seen], minlength=lessons.classes)
    weights = np.zeros((int(own.sum()), lessons.classes))
    intercept = np.log((counts + 0.5) / (counts.sum() + 0.5 * lessons.classes))
    present = np.flatnonzero(counts)
    if share > 0 and len(weights) and len(present) > 1:
        width = places.shape[1]
        ends = np.arange(0, width * int(seen.sum()) + 1, width)
        table = csr_array((values[seen].ravel(), places[seen].ravel(), ends), shape=(int(seen.sum()), len(own)))
        table.sum_duplicates()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # held-out rows judge it, not its gradient
            model = LogisticRegression(C=PENALTY, max_iter=ITERATIONS).fit(table[:, own], lessons.labels[seen])
        sides = (-0.5, 0.5) if len(present) == 2 else (1.0,)
        weights[:, present] = np.concatenate([side * model.coef_ for side in sides]).T
        intercept[present] = np.concatenate([side * model.intercept_ for side in sides])
    return (share * weights).astype(np.float32), (share * intercept).astype(np.float32)


def _weighed(forest: Forest, share: float, trees: int) -> Forest:
    """Multiply what a forest says by its share, and fill it up with trees that say 0."""
    missing, depth = trees - len(forest.columns), forest.columns.shape[1]
    return Forest(
        (share * forest.base).astype(np.float32),
        np.concatenate([forest.columns, np.zeros((missing, depth), dtype=np.int32)]),
        np.concatenate([forest.thresholds, np.zeros((missing, depth))]),
        np.concatenate([share * forest.leaves, np.zeros((missing, *forest.leaves.shape[1:]))]).astype(np.float32),
    )


def _spread(basis: Basis, chosen: Bools, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Put the weights of a set's functions, (f, C), at their places among all functions, (F, C)."""
    own = chosen[basis.owners]
    every = np.zeros((len(own), weights.shape[1]), dtype=np.float32)
    every[own] = weights
    return every


def _log_loss(linear: Floats, labels: Ints, forest: NDArray[np.float32]) -> float:
    chances = softmax(linear + forest)[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(chances, 1e-12)).sum())


def _unseen(
    lessons: Lessons,
    chosen: Bools,
    members: list[Member],
    places: NDArray[np.int64],
    values: Floats,
    inputs: Floats,
) -> Floats:
    """Let every row be judged by the member that had not seen it: (n, C)."""
    found = np.empty((len(lessons.labels), lessons.classes))
    for k, member in enumerate(members):
        rows = lessons.parts == k
        linear = member.intercept + weigh(_spread(lessons.basis, chosen, member.weights), places[rows], values[rows])
        found[rows] = softmax(linear + member.forest.predict(inputs[rows]))
    return found
