"""What a policy knows of an item before anything is acquired: where its embedding lies along a few axes.

Of few coordinates each is an axis; of many, the axes are those along which the rows differ most (principal components),
which no label has chosen: rows that judge the policy have told them nothing that matters. Axes that labels do
choose are those of ``quality_axes``.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles
from models.columns import FARTHEST
from solvers.principal_directions import principal_directions

MAX_AXES = 16
"""Every node looks at all of them, so they are few."""
MAX_ROWS = 20_000
"""Rows that axes are found by."""
MAX_UNREDUCED_DIMENSIONS, ROWS_PER_AXIS = 4, 500
"""Without classes each classifier has an axis (``quality_axes``), and beside these a principal one has so many rows;
embeddings of a few coordinates are taken as they are."""


def count_classless_axes(rows: int, dimensions: int) -> int:
    """Say along how many axes rows without classes are measured before axes of quality are added.

    >>> count_classless_axes(600, 384), count_classless_axes(3000, 384), count_classless_axes(20000, 384)
    (1, 6, 16)
    >>> count_classless_axes(600, 3)
    3
    """
    if dimensions <= MAX_UNREDUCED_DIMENSIONS:
        return dimensions
    return min(MAX_AXES, max(1, rows // ROWS_PER_AXIS))


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingAxes:
    """centre: (d,) what is taken off an embedding; axes: (d, k) float32, along which it is measured then."""

    centre: Floats
    axes: Singles

    @classmethod
    def from_embeddings(cls, embeddings: Singles, most: int = MAX_AXES) -> "EmbeddingAxes":
        """Find the axes of some embeddings, (n, d), ``most`` of them where there are more coordinates; any do where
        rows are all alike: O(n d min(n, d))."""
        dimensions = embeddings.shape[1]
        if dimensions <= most:
            return cls(np.zeros(dimensions), np.eye(dimensions, dtype=np.float32))
        some = _clip_to_range(embeddings[:: 1 + (len(embeddings) - 1) // MAX_ROWS])
        centre = _clip_to_range(some.mean(axis=0))  # rounding may take a mean a little farther
        return cls(centre, principal_directions(some - centre, most).astype(np.float32))

    def project(self, embeddings: Singles | Floats) -> Floats:
        """Tell where embeddings, (n, d), lie: (n, k).

        >>> EmbeddingAxes(np.array([1.0, 0.0]), np.array([[2.0], [0.0]], np.float32)).measure(np.ones((1, 2)) * 3)
        array([[4.]])
        """
        return np.clip(self.subtract_centre(embeddings) @ self.axes, -FARTHEST, FARTHEST)

    def subtract_centre(self, embeddings: Singles | Floats) -> Floats:
        """Take the centre off embeddings, (n, d), none of whose numbers counts as farther than a feature may be."""
        return np.asarray(_clip_to_range(embeddings) - self.centre)


def _clip_to_range(embeddings: Singles | Floats) -> Floats:
    """Take no number for farther than a feature may be: datasets may have any that single precision holds."""
    return np.clip(np.asarray(embeddings, dtype=np.float64), -FARTHEST, FARTHEST)
