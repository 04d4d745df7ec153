"""Kernel ridge regression on embeddings: smooth functions of the distance to some rows, as a Gaussian process has them.

Of few rows and many directions that all tell a little it makes more than trees and neighbors do, which pick some.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles

MAX_CENTERS = 500
"""Rows whose distances count (the Nyström approximation); of more, so many at random."""
RIDGES = tuple(float(10.0**power) for power in np.arange(-2, 4.5, 0.5))
"""What may be added to the kernel's diagonal, which is 1."""
NEGLIGIBLE = 1e-7
"""Directions of the kernel with less than this share of the largest one's variance are left out."""


ROUNDING, MIN_WIDTH = 1e-9, 1e-12
"""Squared distances of at most this share of the largest are those of equal rows; the least width."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelRegression:
    """centres: (r, e) rows; width: (1,) the square of a distance that counts as far; weights: (r, m) of how near each
    of them is; base: (m,) what is said where none is near."""

    centres: Singles
    width: Floats
    weights: Floats
    base: Floats

    @classmethod
    def fit(cls, inputs: Singles, targets: Floats, rng: np.random.Generator) -> "KernelRegression":
        """Regress (n, m) targets on (n, e) inputs. The width is the median squared distance. How strongly weights are
        pulled to 0 is chosen by generalised cross-validation (Golub, Heath, Wahba, 1979).

        O(n r (e + r) + r³).
        """
        some = np.arange(len(inputs))
        if len(inputs) > MAX_CENTERS:
            some = np.sort(rng.choice(len(inputs), MAX_CENTERS, replace=False))
        centres = np.ascontiguousarray(inputs[some])
        far = _squared_distances(inputs, centres)
        far[far <= ROUNDING * far.max()] = 0.0
        width = max(float(np.median(far[far > 0])), MIN_WIDTH) if np.any(far > 0) else 1.0
        within = _whitened(np.exp(-far[some] / width))
        features = np.exp(-far / width) @ within
        base = targets.mean(axis=0)
        weights = within @ _ridge(features, targets - base)
        return cls(centres, np.array([width]), weights, base)

    def estimate(self, inputs: Singles) -> Floats:
        """Estimate from (n, e) inputs: (n, m). O(n r (e + m))."""
        near = np.exp(-_squared_distances(inputs, self.centres) / self.width)
        return np.asarray(np.clip(self.base + near @ self.weights, 0.0, 1.0))


def _squared_distances(inputs: Singles, centres: Singles) -> Floats:
    """Square Euclid's distance of (n, e) inputs to (r, e) centres: (n, r).

    >>> _squared_distances(np.array([[0, 3]]), np.array([[4, 0], [0, 3]])).tolist()
    [[25.0, 0.0]]
    """
    given, others = inputs.astype(np.float64), centres.astype(np.float64)
    squares = (given * given).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    squares -= 2 * given @ others.T
    return np.asarray(np.maximum(squares, 0.0))


def _whitened(kernel: Floats) -> Floats:
    """Find features, as weights of a (r, r) kernel's columns, whose products are the kernel: (r, k)."""
    variances, directions = np.linalg.eigh(kernel)
    kept = variances > NEGLIGIBLE * variances[-1]
    return np.asarray(directions[:, kept] / np.sqrt(variances[kept]))


def _ridge(features: Floats, targets: Floats) -> Floats:
    """Regress (n, m) targets on (n, k) features with the ridge of ``RIDGES`` that generalised cross-validation finds
    best: (k, m)."""
    variances, directions = np.linalg.eigh(features.T @ features)
    variances = np.maximum(variances, 0.0)[:, None]
    along = directions.T @ (features.T @ targets)
    best, chosen = np.inf, along
    for ridge in RIDGES:
        one = along / (variances + ridge)
        left = float((targets * targets).sum() - (one * (2 * along - variances * one)).sum())
        used = float((variances / (variances + ridge)).sum()) / len(features)
        error = left / max(1 - used, 1e-9) ** 2
        if error < best:
            best, chosen = error, one
    return np.asarray(directions @ chosen)
