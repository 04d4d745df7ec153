"""Kernel ridge regression (Gaussian kernel, Nyström approximation) on embeddings.

With few rows and many weakly informative directions, it is more accurate than trees and nearest neighbors.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Singles

MAX_CENTERS = 500
"""Maximum number of centers, drawn at random from the rows (Nyström approximation)."""
RIDGES = tuple(float(10.0**power) for power in np.arange(-2, 4.5, 0.5))
"""Candidate ridge penalties."""
NEGLIGIBLE = 1e-7
"""Kernel directions below this share of the largest variance are dropped."""


ROUNDING, MIN_WIDTH = 1e-9, 1e-12
"""Squared distances up to this share of the largest count as 0; the minimum width."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelRegression:
    """A fitted kernel regression.

    Attributes:
        centres: (r, e).
        width: (1,), squared width.
        weights: (r, m), of the centers.
        base: (m,), prediction far from all centers.
    """

    centres: Singles
    width: Floats
    weights: Floats
    base: Floats

    @classmethod
    def fit(cls, inputs: Singles, targets: Floats, rng: np.random.Generator) -> "KernelRegression":
        """Fit (n, m) targets, NaN if unknown, to (n, e) inputs.

        The width is the median squared distance. The ridge penalty is chosen by generalized cross-validation,
        separately for each column with unknown targets.

        Complexity: O(n r (e + r) + r³); the second term counts once for each column with unknown targets.
        Source: Golub, Heath, Wahba, 1979.
        """
        some = np.arange(len(inputs))
        if len(inputs) > MAX_CENTERS:
            some = np.sort(rng.choice(len(inputs), MAX_CENTERS, replace=False))
        centres = np.ascontiguousarray(inputs[some])
        far = _squared_distances(inputs, centres)
        far[far <= ROUNDING * far.max()] = 0.0
        width = max(float(np.median(far[far > 0])), MIN_WIDTH) if np.any(far > 0) else 1.0
        within = _whiten(np.exp(-far[some] / width))
        features = np.exp(-far / width) @ within
        base = np.nanmean(targets, axis=0)
        off = targets - base
        if np.isnan(off).any():
            known = ~np.isnan(off)
            columns = [_solve_ridge(features[own], off[own, k, None]) for k, own in enumerate(known.T)]
            solved = np.concatenate(columns, axis=1)
        else:
            solved = _solve_ridge(features, off)
        weights = within @ solved
        return cls(centres, np.array([width]), weights, base)

    def estimate(self, inputs: Singles) -> Floats:
        """Return predictions, (n, m), for (n, e) inputs.

        Complexity: O(n r (e + m)).
        """
        near = np.exp(-_squared_distances(inputs, self.centres) / self.width)
        return np.asarray(np.clip(self.base + near @ self.weights, 0.0, 1.0))


def _squared_distances(inputs: Singles, centres: Singles) -> Floats:
    """Return the squared Euclidean distances of (n, e) inputs to (r, e) centers: (n, r).

    >>> _squared_distances(np.array([[0, 3]]), np.array([[4, 0], [0, 3]])).tolist()
    [[25.0, 0.0]]
    """
    given, others = inputs.astype(np.float64), centres.astype(np.float64)
    squares = (given * given).sum(axis=1)[:, None] + (others * others).sum(axis=1)
    squares -= 2 * given @ others.T
    return np.asarray(np.maximum(squares, 0.0))


def _whiten(kernel: Floats) -> Floats:
    """Return weights, (r, k), of the columns of a kernel, (r, r).

    They yield uncorrelated features whose products are the kernel.
    """
    variances, directions = np.linalg.eigh(kernel)
    kept = variances > NEGLIGIBLE * variances[-1]
    return np.asarray(directions[:, kept] / np.sqrt(variances[kept]))


def _solve_ridge(features: Floats, targets: Floats) -> Floats:
    """Return the ridge regression, (k, m), of targets (n, m) on features (n, k).

    The penalty is chosen by generalized cross-validation.
    """
    variances, directions = np.linalg.eigh(features.T @ features)
    variances = np.maximum(variances, 0.0)[:, None]
    along = directions.T @ (features.T @ targets)
    best, chosen = np.inf, along
    for ridge in RIDGES:
        one = along / (variances + ridge)
        residual = float((targets * targets).sum() - (one * (2 * along - variances * one)).sum())
        used = float((variances / (variances + ridge)).sum()) / len(features)
        error = residual / max(1 - used, 1e-9) ** 2
        if error < best:
            best, chosen = error, one
    return np.asarray(directions @ chosen)
