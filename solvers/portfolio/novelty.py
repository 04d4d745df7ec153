"""How far a query is from what a portfolio learned from: guarantees rest on similar queries (OCCAM, Appendix A).

The novelty of a query is the share of training items that are nearer to their nearest reference item than it is: 0.5 is
usual, 1 is farther than any of them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from models.arrays import Floats, Int64s, Singles
from solvers.item_splits import ItemRows

MAX_REFERENCES, MAX_NUMBERS, MAX_JUDGED = 1000, 400_000, 2000
"""Reference items, coordinates of all of them, and items whose distances are measured."""
QUANTILES = 201
NOVEL = 0.99
"""The novelty from which on a query of a batch counts as novel."""
_QUERIES_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class NoveltyScale:
    """references: (r, d) items that were learned from; distances: (q,) quantiles of the distances of other items to the
    nearest of them, rising. Both are empty where no other item could be measured."""

    references: Singles
    distances: Floats

    @classmethod
    def fit(cls, vectors: Singles, items: Int64s, rng: np.random.Generator) -> "NoveltyScale":
        """Draw references from embeddings (n, d), one row of each item, and measure how far other items are from them.

        items: (n,) equal for rows of one item; the scale is empty if there is one item only. O(r n d).
        """
        order = rng.permutation(ItemRows.from_codes(items).first)
        most = min(MAX_REFERENCES, max(MAX_NUMBERS // vectors.shape[1], 1), max(len(order) // 2, 1))
        judged = order[most:][:MAX_JUDGED]
        if not len(judged):
            return cls(np.empty((0, 0), dtype=np.float32), np.empty(0))
        references = vectors[order[:most]].astype(np.float32)
        away = nearest_distances(*squared(references), vectors[judged])
        return cls(references, np.quantile(away, np.linspace(0, 1, QUANTILES)))

    @property
    def fields(self) -> dict[str, Any]:
        """Name them as a plan does."""
        return {"novelty_references": self.references, "novelty_distances": self.distances}

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        return squared(self.references)

    def rank(self, queries: Floats | Singles) -> Floats:
        """Return the novelty of queries (n, d), from 0 to 1: (n,). O(n r d)."""
        away = nearest_distances(*self._table, queries)
        below = np.searchsorted(self.distances, away * (1 - 1e-6), side="left")
        return np.asarray(below / len(self.distances))


def squared(references: Singles) -> tuple[Floats, Floats]:
    """Return references (r, d) in double precision, and the squared norm of each, (r,)."""
    table = references.astype(np.float64)
    return table, (table * table).sum(axis=1)


def nearest_distances(references: Floats, squares: Floats, queries: Floats | Singles) -> Floats:
    """Return Euclid's distance of each of n queries, (n, d), to the nearest reference, (r, d) with squared norms (r,).

    O(n r d).
    """
    blocks = []
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        part = np.asarray(queries[start : start + _QUERIES_AT_ONCE], dtype=np.float64)
        nearest = np.argmin(squares - 2 * part @ references.T, axis=1)
        blocks.append(np.sqrt(((part - references[nearest]) ** 2).sum(axis=1)))
    return np.concatenate(blocks) if blocks else np.zeros(0)
