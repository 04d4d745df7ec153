"""Fitting the classifiers of acquired sets, every member of them, in parallel over the sets."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from solvers.policy.forest import STAGE, Forest

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
R = TypeVar("R")

RATE, RIDGE = 0.15, 2.0
"""How fast forests of classifiers learn, and how strongly their small leaves are pulled to 0."""
PENALTY = 1.0
"""The inverse strength of the linear models' ridge penalty, scikit-learn's C."""
ITERATIONS = 100
SHARES = {"linear": (1.0,), "both": (0.5, 0.0, 1.0), "boosted": (0.0,)}
"""What the linear models' logits may count for, the forests' the rest: one half each is the geometric mean."""


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


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What the classifiers of one set of sensors see. own: (F,) bool, its basis functions; places, values: (n, w) of
    them; inputs: (n, d) for trees, binned: the same in bins, other sensors' columns blank."""

    lessons: Lessons
    own: Bools
    places: NDArray[np.int64]
    values: Floats
    inputs: Floats
    binned: Binned

    @classmethod
    def of(cls, lessons: Lessons, chosen: Bools) -> "_Seen":
        sensors = lessons.basis.sensors
        places, values = lessons.basis.functions(lessons.cells, sensors.columns_of(np.flatnonzero(chosen)))
        inputs = tree_inputs(sensors, lessons.cells)
        binned = Binned.of(np.where(chosen[tree_owners(sensors)], inputs, 0.0))
        return cls(lessons, chosen[lessons.basis.owners], places, values, inputs, binned)

    def linear(self, member: Member, rows: Bools) -> Floats:
        """Tell the logits of a member's linear model for some rows."""
        every = np.zeros((len(self.own), member.weights.shape[1]), dtype=np.float32)
        every[self.own] = member.weights
        return member.intercept + weigh(every, self.places[rows], self.values[rows])


def _train_set(lessons: Lessons, chosen: Bools, options: PolicyOptions, seed: int) -> tuple[list[Member], Floats]:
    """Fit the members of one set's classifier. How many trees, and what they count for beside the linear model, is what
    loses least, by the logarithmic loss, on the rows not seen."""
    seen, rng, shares = _Seen.of(lessons, chosen), np.random.default_rng(seed), SHARES[options.answers]
    trees = options.trees if min(shares) < 1 and chosen.any() else 0
    members, losses = [], np.zeros((trees // STAGE + 1, len(shares)))
    for k in range(lessons.members):
        rows = lessons.parts != k
        weights, intercept = _fit_linear(seen, rows, options.answers != "boosted")
        growth = Growth(trees, options.depth, RATE, RIDGE)
        forest = boost_classes(seen.binned.rows(rows), lessons.labels[rows], lessons.classes, growth, rng)
        member = Member(weights, intercept, forest)
        log_losses = partial(_log_losses, seen.linear(member, ~rows), lessons.labels[~rows], shares)
        losses += forest.staged_losses(seen.inputs[~rows], log_losses)
        members.append(member)
    stage, share = np.unravel_index(losses.argmin(), losses.shape)
    members = [_weighed(member, shares[share], STAGE * int(stage), options.trees) for member in members]
    posteriors = np.empty((len(lessons.labels), lessons.classes))
    for k, member in enumerate(members):
        rows = lessons.parts == k
        posteriors[rows] = softmax(seen.linear(member, rows) + member.forest.predict(seen.inputs[rows]))
    return members, posteriors


def _fit_linear(seen: _Seen, rows: Bools, wanted: bool) -> tuple[Any, Any]:
    """Fit a logistic regression to some rows: weights (f, C) of the set's functions, intercept (C,). A class that is
    not among them gets what half a row would. Not wanted, only the classes' shares count."""
    from scipy.sparse import csr_array
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    labels = seen.lessons.labels[rows]
    counts = np.bincount(labels, minlength=seen.lessons.classes)
    weights = np.zeros((int(seen.own.sum()), seen.lessons.classes))
    intercept = np.log((counts + 0.5) / (counts.sum() + 0.5 * seen.lessons.classes))
    present = np.flatnonzero(counts)
    if wanted and len(weights) and len(present) > 1:
        width = seen.places.shape[1]
        ends = np.arange(0, width * len(labels) + 1, width)
        table = csr_array((seen.values[rows].ravel(), seen.places[rows].ravel(), ends), (len(labels), len(seen.own)))
        table.sum_duplicates()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # held-out rows judge it, not its gradient
            model = LogisticRegression(C=PENALTY, max_iter=ITERATIONS).fit(table[:, seen.own], labels)
        sides = (-0.5, 0.5) if len(present) == 2 else (1.0,)
        weights[:, present] = np.concatenate([side * model.coef_ for side in sides]).T
        intercept[present] = np.concatenate([side * model.intercept_ for side in sides])
    return weights.astype(np.float32), intercept.astype(np.float32)


def _weighed(member: Member, share: float, first: int, trees: int) -> Member:
    """Weigh a member's linear model with a share and the first trees of its forest with the rest, and fill the forest
    up with trees that say 0."""
    forest = member.forest.first(first)
    missing, depth = trees - len(forest.columns), forest.columns.shape[1]
    full = Forest(
        ((1 - share) * forest.base).astype(np.float32),
        np.concatenate([forest.columns, np.zeros((missing, depth), dtype=np.int32)]),
        np.concatenate([forest.thresholds, np.zeros((missing, depth))]),
        np.concatenate([(1 - share) * forest.leaves, np.zeros((missing, *forest.leaves.shape[1:]))]).astype(np.float32),
    )
    scale = np.float32(share)
    return Member(scale * member.weights, scale * member.intercept, full)


def _log_losses(linear: Floats, labels: Ints, shares: Sequence[float], forest: NDArray[np.float32]) -> list[float]:
    """Tell the logarithmic loss for each share that the linear model may count for."""
    rows, found = np.arange(len(labels)), []
    for share in shares:
        chances = softmax(share * linear + (1 - share) * forest)[rows, labels]
        found.append(float(-np.log(np.maximum(chances, 1e-12)).sum()))
    return found
