"""Projection of an item's embedding onto principal components.

A policy knows the embedding before any acquisition.

Embeddings of few coordinates are used as they are. The axes do not depend on labels, so validation rows stay unbiased.
``quality_axes`` has axes that depend on labels.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles
from models.columns import MAX_COORDINATE_VALUE
from solvers.principal_directions import principal_directions

MAX_AXES = 16
"""Maximum number of axes; every node reads all of them."""
MAX_ROWS = 20_000
"""Maximum number of rows that axes are computed from."""
MAX_UNREDUCED_DIMENSIONS, ROWS_PER_AXIS = 4, 500
"""Without classes: embeddings of at most so many coordinates are not reduced; others get one principal axis per so many
rows, in addition to one axis per classifier (``quality_axes``).
"""


def count_classless_axes(rows: int, dimensions: int) -> int:
    """Return the number of principal axes for a trace without classes.

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
    """A centered projection of embeddings.

    Attributes:
        centre: (d,), the mean that is subtracted.
        axes: (d, k) float32.
    """

    centre: Floats
    axes: Singles

    @classmethod
    def from_embeddings(cls, embeddings: Singles, most: int = MAX_AXES) -> "EmbeddingAxes":
        """Compute up to ``most`` principal axes of embeddings, (n, d).

        Complexity: O(n d min(n, d)).
        """
        dimensions = embeddings.shape[1]
        if dimensions <= most:
            return cls(np.zeros(dimensions), np.eye(dimensions, dtype=np.float32))
        some = _clip_to_range(embeddings[:: 1 + (len(embeddings) - 1) // MAX_ROWS])
        centre = _clip_to_range(some.mean(axis=0))  # rounding may move the mean out of range
        return cls(centre, principal_directions(some - centre, most).astype(np.float32))

    def project(self, embeddings: Singles | Floats) -> Floats:
        """Project embeddings, (n, d), to coordinates (n, k).

        >>> EmbeddingAxes(np.array([1.0, 0.0]), np.array([[2.0], [0.0]], np.float32)).project(np.ones((1, 2)) * 3)
        array([[4.]])
        """
        return np.clip(self.subtract_centre(embeddings) @ self.axes, -MAX_COORDINATE_VALUE, MAX_COORDINATE_VALUE)

    def subtract_centre(self, embeddings: Singles | Floats) -> Floats:
        """Return embeddings, (n, d), clipped to the range of features and centered."""
        return np.asarray(_clip_to_range(embeddings) - self.centre)


def _clip_to_range(embeddings: Singles | Floats) -> Floats:
    """Clip embeddings to the range of features; datasets may contain any single-precision number."""
    return np.clip(np.asarray(embeddings, dtype=np.float64), -MAX_COORDINATE_VALUE, MAX_COORDINATE_VALUE)
