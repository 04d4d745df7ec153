"""Greedy acquisition by information gain: for each item always the feature that is expected to tell most of its class.

Features are cut at their quintiles; naive Bayes over these bins says how likely the classes are given what is known,
and which feature is expected to leave least entropy. An item stops once the entropy left is at most a threshold, the
lowest whose mean count of features is within the budget on the learning half. The answers come from boosted trees that
learned from the same prefixes of the same orders, what was not acquired missing: naive Bayes answers far worse.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models import FeatureTable
from models.arrays import Floats, Int64s

BINS = 5
AT_ONCE = 500
"""Rows that are walked together."""
REPEATS = 6
"""How often the trees see each row, with other numbers of its features."""
THRESHOLDS = 400


@dataclass(frozen=True, slots=True, eq=False)
class NaiveBayes:
    """edges: of each feature's bins; shares: (C,) of the classes; chances: (n, BINS, C) of bins given the class."""

    edges: tuple[Floats, ...]
    shares: Floats
    chances: Floats

    @classmethod
    def of(cls, table: FeatureTable) -> "NaiveBayes":
        """Count, one added to each bin."""
        inner = np.linspace(0, 1, BINS + 1)[1:-1]
        edges = tuple(np.unique(np.quantile(column, inner)) for column in table.values.T)
        classes = len(table.classes)
        counts = np.array([
            [np.bincount(table.labels[codes == v], minlength=classes) for v in range(BINS)]
            for codes in _binned(edges, table.values).T
        ])  # fmt: skip
        used = np.arange(BINS)[None, :, None] <= np.array([len(each) for each in edges])[:, None, None]
        smoothed = (counts + 1.0) * used
        shares = np.bincount(table.labels, minlength=classes) / table.rows
        return cls(edges, shares, smoothed / smoothed.sum(axis=1, keepdims=True))

    def orders(self, values: Floats) -> tuple[Int64s, Floats]:
        """Walk rows, (m, n), through all features: each row's order, (m, n), and the entropy left after the first k
        of it, (m, n + 1), in nats."""
        walks = [self._walk(_binned(self.edges, values[i : i + AT_ONCE])) for i in range(0, len(values), AT_ONCE)]
        return np.concatenate([order for order, _ in walks]), np.concatenate([left for _, left in walks])

    def _walk(self, codes: Int64s) -> tuple[Int64s, Floats]:
        m, n = codes.shape
        rows = np.arange(m)
        posterior = np.broadcast_to(self.shares, (m, len(self.shares))).copy()
        known = np.zeros((m, n), dtype=bool)
        order, left = np.empty((m, n), dtype=np.int64), np.empty((m, n + 1))
        left[:, 0] = entropy(posterior)
        for k in range(n):
            expected = np.where(known, np.inf, self.expected(posterior))
            order[:, k] = chosen = expected.argmin(axis=1)
            known[rows, chosen] = True
            posterior *= self.chances[chosen, codes[rows, chosen]]
            posterior /= posterior.sum(axis=1, keepdims=True)
            left[:, k + 1] = entropy(posterior)
        return order, left

    def expected(self, posterior: Floats) -> Floats:
        """Tell the entropy to expect after each feature more, (m, n)."""
        joint = posterior[:, None, None, :] * self.chances
        return np.asarray(entropy(joint).sum(axis=2) - entropy(joint.sum(axis=3)))


def _binned(edges: Sequence[Floats], values: Floats) -> Int64s:
    columns = [np.searchsorted(own, column) for own, column in zip(edges, values.T, strict=True)]
    return np.stack(columns, axis=1)


def entropy(shares: Floats) -> Floats:
    """Sum -p log p over the last axis.

    >>> entropy(np.array([[0.5, 0.5], [0.9, 0.1]])).round(3).tolist()
    [0.693, 0.325]
    """
    return np.asarray(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=-1))


def information_gain(
    train: FeatureTable, test: FeatureTable, budgets: Sequence[float], seed: int
) -> list[tuple[float, float]]:
    """Learn from one half, answer the other within budgets of features: accuracy, mean count of features, for each."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    bayes = NaiveBayes.of(train)
    order, left = bayes.orders(train.values)
    rng = np.random.default_rng(seed)
    seen = [_masked(train.values, order, counts) for counts in _counts(rng, train)]
    trees = HistGradientBoostingClassifier(max_iter=60, random_state=seed)
    trees.fit(np.concatenate(seen), np.tile(train.labels, REPEATS))
    asked, rest = bayes.orders(test.values)
    reached = []
    for budget in budgets:
        counts = stops(rest, threshold(left, budget))
        answers = trees.predict(_masked(test.values, asked, counts))
        reached.append((float((answers == test.labels).mean()), float(counts.mean())))
    return reached


def _counts(rng: np.random.Generator, table: FeatureTable) -> Iterator[Int64s]:
    for _ in range(REPEATS):
        yield rng.integers(0, table.values.shape[1] + 1, table.rows)


def _masked(values: Floats, order: Int64s, counts: Int64s) -> Floats:
    """Leave out all but the first features of each row's order."""
    ranks = np.argsort(order, axis=1)
    return np.where(ranks < counts[:, None], values, np.nan)


def stops(left: Floats, threshold: float) -> Int64s:
    """Count for each row the features after which no more entropy than a threshold is left; all, if there is always
    more.

    >>> stops(np.array([[0.7, 0.2, 0.3], [0.7, 0.6, 0.5]]), 0.25).tolist()
    [1, 2]
    """
    reached = left <= threshold
    reached[:, -1] = True
    return np.asarray(reached.argmax(axis=1))


def threshold(left: Floats, budget: float) -> float:
    """Find the lowest threshold whose mean count of features is within the budget."""
    tried = np.unique(np.quantile(left, np.linspace(0, 1, THRESHOLDS)))
    return float(next(each for each in tried if stops(left, float(each)).mean() <= budget))
