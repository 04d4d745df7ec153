"""The columns that a mixture is made of: each estimates, from an embedding, how likely each classifier is right."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from models.arrays import Floats, Singles
from solvers.portfolio.learned.embedding import NARROW
from solvers.portfolio.learned.forest import RandomForest
from solvers.portfolio.learned.kernel import Kernel
from solvers.trees.boosting import Binned, Growth, boost
from solvers.trees.oblivious_trees import Forest

NEIGHBOURS = (10, 30, 100)
"""Nearest rows whose mean is a column, each."""
STRENGTHS = (0.003, 0.1)
"""Logistic curves by the inverse of how strongly they are pulled to a constant."""
MOST_ITEMS = 20_000
"""Rows that neighbours are sought among; of more, so many at random."""
GROWTH = Growth(trees=400, depth=5, rate=0.05, ridge=20.0)


class Regression(Protocol):
    """Estimates k columns for (n, e) embeddings: (k, n, m)."""

    def estimate(self, inputs: Singles) -> Floats:
        """Estimate."""


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    """Linear logits, one set of them for each strength: weights (k, e, m), intercepts (k, m)."""

    weights: Singles
    intercepts: Singles

    @classmethod
    def fit(cls, inputs: Singles, targets: Floats) -> "Logistic":
        """Fit each classifier's logits to graded answers: a row counts as right by its quality, as wrong by the rest.

        O(k m (n e² + e³)) by Newton's method.
        """
        fitted = [[_logits(inputs, column, strength) for column in targets.T] for strength in STRENGTHS]
        weights = np.stack([np.stack([one[0] for one in row], axis=1) for row in fitted])
        intercepts = np.array([[one[1] for one in row] for row in fitted])
        return cls(weights.astype(np.float32), intercepts.astype(np.float32))

    def estimate(self, inputs: Singles) -> Floats:
        """Estimate, O(k n e m)."""
        logits = np.einsum("ne,kem->knm", inputs, self.weights, optimize=True) + self.intercepts[:, None]
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), dtype=np.float64)


def _logits(inputs: Singles, quality: Floats, strength: float) -> tuple[Floats, float]:
    from sklearn.linear_model import LogisticRegression

    mean = float(np.clip(quality.mean(), 1e-4, 1 - 1e-4))
    if quality.max() == quality.min():
        return np.zeros(inputs.shape[1]), float(np.log(mean / (1 - mean)))
    graded = bool(np.any((quality > 0) & (quality < 1)))
    twice = np.concatenate((inputs, inputs)) if graded else inputs
    is_right = np.repeat([1, 0], len(quality)) if graded else quality.astype(np.int64)
    weights = np.concatenate((quality, 1 - quality)) if graded else None
    curve = LogisticRegression(C=strength, solver="newton-cholesky", max_iter=50)
    curve.fit(twice.astype(np.float64), is_right, sample_weight=weights)
    return curve.coef_[0], float(curve.intercept_[0])


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Rows and how right each classifier was about them: items (r, e), success (r, m)."""

    items: Singles
    success: Singles

    @classmethod
    def fit(cls, inputs: Singles, targets: Floats, rng: np.random.Generator) -> "Neighbours":
        """Keep rows, at random where there are too many."""
        some = np.arange(len(inputs))
        if len(inputs) > MOST_ITEMS:
            some = np.sort(rng.choice(len(inputs), MOST_ITEMS, replace=False))
        return cls(np.ascontiguousarray(inputs[some]), targets[some].astype(np.float32))

    def estimate(self, inputs: Singles) -> Floats:
        """Average over the nearest rows (Euclid's distance), O(n r e)."""
        import faiss  # here, so that who does not ask neighbours does not load it

        most = min(NEIGHBOURS[-1], len(self.items))
        _, places = faiss.knn(np.ascontiguousarray(inputs), self.items, most)
        columns = np.empty((len(NEIGHBOURS), len(inputs), self.success.shape[1]))
        for k, count in enumerate(NEIGHBOURS):
            columns[k] = self.success[places[:, : min(count, most)]].mean(axis=1, dtype=np.float64)
        return columns


@dataclass(frozen=True, slots=True, eq=False)
class Forests:
    """A random forest."""

    trees: RandomForest

    def estimate(self, inputs: Singles) -> Floats:
        """Estimate, one column."""
        return self.trees.estimate(inputs)[None]


@dataclass(frozen=True, slots=True, eq=False)
class Boosted:
    """Boosted oblivious trees."""

    trees: Forest

    @classmethod
    def fit(cls, inputs: Singles, targets: Floats, rng: np.random.Generator) -> "Boosted":
        """Regress all classifiers at once."""
        return cls(boost(Binned.of(inputs.astype(np.float64)), targets, GROWTH, rng))

    def estimate(self, inputs: Singles) -> Floats:
        """Estimate, one column."""
        return np.clip(self.trees.predict(inputs.astype(np.float64)).astype(np.float64), 0.0, 1.0)[None]


KINDS = ("logistic", "neighbours", "forest", "boosting", "kernel")
"""Kinds of regressions."""


def _seen_by(kind: str, inputs: Singles) -> Singles:
    """Take the directions of (n, e) embeddings that a kind sees: in many all but kernels get lost."""
    return inputs if kind == "kernel" else np.ascontiguousarray(inputs[:, :NARROW])


def fit(kind: str, embedded: Singles, targets: Floats, rng: np.random.Generator) -> Regression:
    """Fit a kind to (n, e) embeddings and how right each classifier was about them, (n, m)."""
    inputs = _seen_by(kind, embedded)
    match kind:
        case "logistic":
            return Logistic.fit(inputs, targets)
        case "neighbours":
            return Neighbours.fit(inputs, targets, rng)
        case "forest":
            return Forests(RandomForest.fit(inputs, targets, int(rng.integers(2**31))))
        case "boosting":
            return Boosted.fit(inputs, targets, rng)
        case _:
            return Kernel.fit(inputs, targets, rng)


def estimate(kind: str, regression: Regression, embedded: Singles) -> Floats:
    """Estimate from (n, e) embeddings how right each classifier is, (n, m), by the mean of a kind's columns."""
    return np.asarray(regression.estimate(_seen_by(kind, embedded)).mean(axis=0))
