"""Fitting the classifiers of acquired sets, every member of them, in parallel over the sets."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.policy import Answers, PolicyOptions
from solvers.item_splits import ItemRows, rarest_labels
from solvers.parallel import in_parallel
from solvers.policy.node_classifiers import Member, shares_of, tree_inputs, tree_owners, weigh
from solvers.policy.piecewise_basis import Basis
from solvers.policy.sensors import with_embedding
from solvers.statistics import softmax
from solvers.trees.boosting import Binned, Growth, boost, boost_classes
from solvers.trees.oblivious_trees import STAGE, Forest

RATE, RIDGE = 0.15, 2.0
"""How fast forests of classifiers learn, unless told, and how strongly their small leaves are pulled to 0."""
PENALTY = 1.0
"""The inverse strength of the linear models' ridge penalty, scikit-learn's C."""
SHRINKAGE, LEFT, SMOOTH = 50.0, 0.003, 30.0
"""Where quality is learned: the linear models' ridge penalty, what all trees leave of the way to a leaf's mean, and how
strongly small leaves are pulled to 0."""
ITERATIONS = 100
MOST_LOST = 27.6
"""Nats that a row is taken to lose at most: those of a chance of one in a million million."""
MOSTLY, FEWEST_OF_A_FOLD = 0.95, 20
"""Rows that come to a set are learned from alone if they are a smaller share of all, and so many are in each fold."""
SHARES = {"linear": (1.0,), "both": (0.5, 0.0, 1.0), "boosted": (0.0,)}
"""What the linear models' logits may count for, the forests' the rest: one half each is the geometric mean."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRows:
    """The rows that classifiers learn from. cells: (n, D); labels: (n,) below classes; folds: (n,) below K, the fold
    that each row is in: member k learns from all but fold k; quality: (n, M) where answers have no classes: what is
    learned then is how good each sensor's answer is, the classes being sensors; None where they have. rate: how fast
    forests of class probabilities learn. items: (n,) equal for rows of one item; None: no item repeats."""

    basis: Basis
    cells: Floats
    labels: Int32s
    classes: int
    folds: Int64s
    quality: Floats | None = None
    rate: float = RATE
    items: Int64s | None = None

    @property
    def members(self) -> int:
        """The number of folds, and of members, K."""
        return int(self.folds.max()) + 1


def cut(labels: Int32s, items: Int64s, folds: int, rng: np.random.Generator) -> Int64s:
    """Split rows into folds at random, whole items each, each class spread evenly over them: (n,).

    >>> np.bincount(cut(np.zeros(10, np.int32), np.arange(10), 5, np.random.default_rng(0))).tolist()
    [2, 2, 2, 2, 2]
    """
    grouped = ItemRows.from_codes(items)
    own = rarest_labels(grouped, labels)
    order = rng.permutation(len(own))
    order = order[np.argsort(own[order], kind="stable")]
    fold = np.empty(len(own), dtype=np.int64)
    fold[order] = np.arange(len(own)) % folds
    return np.asarray(fold[grouped.place])


def train(
    training: TrainingRows, sets: Bools, options: PolicyOptions, seeds: Sequence[int], tell: Callable[[int], None]
) -> tuple[list[list[Member]], list[Floats]]:
    """Fit the classifiers of sets, (S, M), and say of every row what the member that had not seen it says.

    Gives for each set its K members, and the posteriors (n, C). Equal seeds give equal bits on any number of processes.
    """
    jobs = [partial(_train_set, training, chosen, options, seed) for chosen, seed in zip(sets, seeds, strict=True)]
    trained = list(in_parallel(jobs, tell))
    return [members for members, _ in trained], [posteriors for _, posteriors in trained]


def train_for(
    training: TrainingRows, sets: Bools, reached: Sequence[Bools], options: PolicyOptions, seeds: Sequence[int]
) -> list[tuple[list[Member], Floats]]:
    """Fit the classifiers of sets, (S, M), as ``train`` does, each for the rows, (n,), that come to it: to all rows or
    to those alone, whichever loses less on them. Gives for each set its members, and the posteriors of all rows."""
    jobs = [
        partial(_train_for, _Seen.of(training, chosen, options.answers), rows, options, seed)
        for chosen, rows, seed in zip(sets, reached, seeds, strict=True)
    ]
    return list(in_parallel(jobs))


def _train_for(seen: "_Seen", rows: Bools, options: PolicyOptions, seed: int) -> tuple[list[Member], Floats]:
    every = _fit_set(seen, np.ones_like(rows), options, seed)
    if rows.mean() > MOSTLY or not enough(rows, seen.folds):
        return every
    own = _fit_set(seen, rows, options, seed)
    return min(every, own, key=lambda each: _log_loss(each[1][rows], seen.labels[rows]))


def enough(rows: Bools, folds: Int64s) -> bool:
    """Tell whether so many of the rows, (n,), are in each fold that they can be learned from alone."""
    return bool(np.bincount(folds[rows], minlength=int(folds.max()) + 1).min() >= FEWEST_OF_A_FOLD)


def _log_loss(posteriors: Floats, labels: Int32s) -> float:
    return float(-np.log(np.maximum(posteriors[np.arange(len(labels)), labels], 1e-12)).sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What the classifiers of one set of sensors see, and nothing of the others. labels, folds, classes, members,
    quality, rate: of the training; own: (F,) bool, its basis functions; places, values: (n, w) of them; columns: (d,)
    places of its own among those that trees see; inputs: (n, d) of them, binned: the same in bins."""

    labels: Int32s
    folds: Int64s
    classes: int
    members: int
    own: Bools
    places: Int64s
    values: Floats
    columns: Int64s
    inputs: Floats
    binned: Binned
    quality: Floats | None
    rate: float

    @classmethod
    def of(cls, training: TrainingRows, chosen: Bools, answers: Answers) -> "_Seen":
        sensors = training.basis.sensors
        known, cells = with_embedding(chosen), sensors.known_columns(chosen)
        linear = cells if answers != "boosted" else cells[:0]
        places, values = training.basis.functions(training.cells, linear)
        inputs = tree_inputs(sensors.of_columns(cells), training.cells[:, cells])
        columns = np.flatnonzero(known[tree_owners(sensors)])
        if not len(columns):  # trees that ask nothing have a column to ask about, too
            inputs, columns = np.zeros((len(inputs), 1)), np.zeros(1, dtype=np.int64)
        return cls(
            training.labels,
            training.folds,
            training.classes,
            training.members,
            known[training.basis.owners],
            places,
            values,
            columns,
            inputs,
            Binned.of(inputs),
            training.quality,
            training.rate,
        )

    def linear(self, member: Member, rows: Bools) -> Floats:
        """Tell the logits of a member's linear model for some rows."""
        every = np.zeros((len(self.own), member.weights.shape[1]), dtype=np.float32)
        every[self.own] = member.weights
        return member.intercept + weigh(every, self.places[rows], self.values[rows])


def _train_set(training: TrainingRows, chosen: Bools, options: PolicyOptions, seed: int) -> tuple[list[Member], Floats]:
    return _fit_set(
        _Seen.of(training, chosen, options.answers), np.ones(len(training.labels), dtype=np.bool_), options, seed
    )


def _fit_set(seen: _Seen, learn: Bools, options: PolicyOptions, seed: int) -> tuple[list[Member], Floats]:
    """Fit the members of one set's classifier to some rows, (n,). How many trees of a member, and what they count for
    beside the linear model, is what loses least in the other members, by the logarithmic loss, on those of the rows
    that each had not seen: the part that judges a member has chosen nothing of it."""
    rng, shares = np.random.default_rng(seed), SHARES[options.answers]
    trees = options.trees if min(shares) < 1 and seen.own.any() else 0
    fitted, losses = [], np.zeros((seen.members, trees // STAGE + 1, len(shares)))
    for k in range(seen.members):
        rows, judged = learn & (seen.folds != k), learn & (seen.folds == k)
        wanted = options.answers != "boosted"
        if seen.quality is None:
            weights, intercept = _fit_linear(seen, rows, wanted)
            growth = Growth(trees, options.depth, seen.rate, RIDGE)
            forest = boost_classes(seen.binned.rows(rows), seen.labels[rows], seen.classes, growth, rng)
            member = Member(weights, intercept, forest)
            lost = partial(_log_losses, seen.linear(member, judged), seen.labels[judged], shares)
        else:
            weights, intercept = _fit_ridge(seen, seen.quality[rows], rows, wanted)
            growth = Growth(trees, options.depth, 1 - LEFT ** (1 / max(trees, 1)), SMOOTH)
            forest = boost(seen.binned.rows(rows), seen.quality[rows], growth, rng)
            member = Member(weights, intercept, forest)
            lost = partial(_squares, seen.linear(member, judged), seen.quality[judged], shares)
        losses[k] = forest.staged_losses(seen.inputs[judged], lost)
        fitted.append(member)
    members, posteriors = [], np.empty((len(seen.labels), seen.classes))
    for k, whole in enumerate(fitted):
        stage, share = np.unravel_index((losses.sum(axis=0) - losses[k]).argmin(), losses.shape[1:])
        member = _weighed(whole, shares[share], STAGE * int(stage), options.trees)
        members.append(member)
        rows = seen.folds == k
        scores = seen.linear(member, rows) + member.forest.predict(seen.inputs[rows])
        posteriors[rows] = softmax(scores) if seen.quality is None else shares_of(scores)
    return [_placed(member, seen.columns) for member in members], posteriors


def _placed(member: Member, columns: Int64s) -> Member:
    """Let a member's trees ask about the columns where all sensors' stand."""
    forest = member.forest
    asked = columns[forest.columns].astype(np.int32)
    return Member(member.weights, member.intercept, Forest(forest.base, asked, forest.thresholds, forest.leaves))


def _fit_linear(seen: _Seen, rows: Bools, wanted: bool) -> tuple[Any, Any]:
    """Fit a logistic regression to some rows: weights (f, C) of the set's functions, intercept (C,). A class that is
    not among them gets what half a row would. Not wanted, only the classes' shares count."""
    from scipy.sparse import csr_array
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    labels = seen.labels[rows]
    counts = np.bincount(labels, minlength=seen.classes)
    weights = np.zeros((int(seen.own.sum()), seen.classes))
    intercept = np.log((counts + 0.5) / (counts.sum() + 0.5 * seen.classes))
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


def _fit_ridge(seen: _Seen, quality: Floats, rows: Bools, wanted: bool) -> tuple[Singles, Singles]:
    """Fit a ridge regression of how good sensors' answers were, (r, M), to some rows: weights (f, M) of the set's
    functions, intercept (M,). Not wanted, only the means count."""
    functions = np.zeros((len(quality), len(seen.own)))
    np.add.at(functions, (np.arange(len(quality))[:, None], seen.places[rows]), seen.values[rows])
    functions = functions[:, seen.own]
    means, centre = quality.mean(axis=0), functions.mean(axis=0)
    weights = np.zeros((functions.shape[1], quality.shape[1]))
    if wanted and len(weights):
        centred = functions - centre
        right = centred.T @ (quality - means)
        weights = np.linalg.solve(centred.T @ centred + SHRINKAGE * np.eye(len(weights)), right)
    return weights.astype(np.float32), (means - centre @ weights).astype(np.float32)


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


def _squares(linear: Floats, quality: Floats, shares: Sequence[float], forest: Singles) -> list[float]:
    """Tell the squared error for each share that the linear model may count for."""
    return [float(np.square(shares_of(share * linear + (1 - share) * forest) - quality).sum()) for share in shares]


def _log_losses(linear: Floats, labels: Int32s, shares: Sequence[float], forest: Singles) -> list[float]:
    """Tell the logarithmic loss for each share that the linear model may count for."""
    rows, losses = np.arange(len(labels)), []
    for share in shares:
        logits = np.ascontiguousarray((share * linear + (1 - share) * forest).T)  # NumPy reduces short rows slowly
        logits -= logits.max(axis=0)
        lost = np.log(np.exp(logits).sum(axis=0)) - logits[labels, rows]
        losses.append(float(np.minimum(lost, MOST_LOST).sum()))
    return losses
