"""Accuracy as a function of item size: linear splines in log size, fitted to correct and wrong answers.

A feature whose cost grows with size is often more informative for large items. Then a single accuracy for all sizes is
too high for small items and too low for large ones. The number of knots is chosen by leave-one-out cross-validation.
One knot means one accuracy for all sizes; the index is then that of Poly-Dom, and its guarantee holds. With more knots,
sizes are divided into regions. Each region has its own accuracies, candidates, and skylines, and the guarantee holds
within each region. A decision's expected accuracy is the spline's value at the item's size.

Source: Hastie, Tibshirani, and Friedman, *The Elements of Statistical Learning*, Section 5.2 (regression splines) and
Equation 7.64 (leave-one-out residuals of a linear smoother).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from models.arrays import Floats, Int64s
from solvers.index.selection_bias import (
    Outcomes,
    draw_validation_rows,
    estimate_selection_optimism,
    unpack_outcomes,
)
from solvers.item_splits import effective_rows
from solvers.statistics import standard_error_of_mean

KNOTS = (2, 3, 4, 6, 8)
"""Candidate numbers of knots."""
MIN_ROWS_PER_KNOT = 100
MAX_REGIONS = 10
SIGNIFICANCE = 2.5
"""Standard errors by which a spline must predict better than one accuracy for all sizes."""
MAX_JUDGED_SETS = 64
"""Maximum number of feature sets that choose the number of knots."""
MAX_CONTENDERS = 300
"""Maximum number of a region's feature sets in the resampled choice."""
_SETS_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class SizeRegions:
    """Regions of sizes with different accuracies. The extent of a size is the product of its numbers.

    Attributes:
        knots: (K,), logarithms of extents, rising; (0,) if one accuracy holds for all sizes.
        edges: (R - 1,), extents where regions begin.
        centers: (R,), mean logarithm of the extents of a region's rows.
    """

    knots: Floats = field(default_factory=lambda: np.zeros(0))
    edges: Floats = field(default_factory=lambda: np.zeros(0))
    centers: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class SizeCurves:
    """Accuracy as a function of item size: one spline of K knots for each of m feature sets.

    The knots divide sizes into R regions.

    Attributes:
        levels: (3, K, m), accuracies at the knots: on validation rows, holdout rows, and all rows.
        covariance: (3, K, K), covariance of the levels, for outcomes of variance 1.
        optimism: (R, m), optimism of choosing each set as the best of a region.
        spread: (R, m), standard deviation of this optimism.
    """

    levels: Floats
    covariance: Floats
    optimism: Floats
    spread: Floats


def spline_basis(knots: Floats, at: Floats) -> Floats:
    """Return the hat functions of the knots at n points: (n, K); constant beyond the outer knots.

    >>> spline_basis(np.array([0.0, 2.0]), np.array([-1.0, 0.5, 9.0])).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0]]
    """
    return np.stack([np.interp(at, knots, each) for each in np.eye(len(knots))], axis=1)


def choose_knots(right: Outcomes, extents: Floats, items: Int64s) -> Floats:
    """Choose spline knots by leave-one-out cross-validation; (0,) if size does not matter.

    Args:
        right: (s, n), whether each of s feature sets classifies each row correctly.
        extents: (n,), extents of the rows' sizes.
        items: (n,), equal for rows of one item.
    Complexity: O(s n K).
    """
    at, values = np.log(extents), right.astype(np.float64).T
    constant = _left_out_errors(np.ones((len(at), 1)), values)
    best, least = np.zeros(0), 0.0
    for count in KNOTS:
        knots = np.unique(np.quantile(at, np.linspace(0.01, 0.99, count)))
        if len(knots) < count or len(at) < MIN_ROWS_PER_KNOT * count:
            continue
        gain = constant - _left_out_errors(spline_basis(knots, at), values)
        mean, error = float(gain.mean()), float(standard_error_of_mean(gain, items))
        if mean > max(least, SIGNIFICANCE * error):
            best, least = knots, mean
    return best


def _left_out_errors(basis: Floats, values: Floats) -> Floats:
    """Return the squared leave-one-out error of each row, mean over the sets: (n,)."""
    projection = _projection(basis)
    leverage = np.einsum("nk,kn->n", basis, projection)
    residuals = (values - basis @ (projection @ values)) / np.maximum(1 - leverage, 1e-9)[:, None]
    return np.asarray((residuals**2).mean(axis=1))


def _projection(basis: Floats) -> Floats:
    """Return the least-squares projection from values of rows to levels at the knots: (K, n)."""
    return np.asarray(np.linalg.pinv(basis.T @ basis) @ basis.T)


def find_regions(right: Outcomes, sizes: Floats, items: Int64s, *, has_regions: bool) -> SizeRegions:
    """Return the knots where accuracies depend on size, and regions of about equally many rows.

    Args:
        right: (s, n), whether each of s feature sets classifies each row correctly.
        sizes: (n, d), sizes of the rows.
        items: (n,), equal for rows of one item.
        has_regions: whether costs depend on size, so that the choice may differ by region.
    """
    extents = np.prod(sizes, axis=1)
    knots = choose_knots(right, extents, items)
    edges = _region_edges(extents) if has_regions and len(knots) else np.zeros(0)
    regions = np.searchsorted(edges, extents, side="right")
    sums = np.bincount(regions, weights=np.log(extents), minlength=len(edges) + 1)
    return SizeRegions(knots, edges, sums / np.bincount(regions, minlength=len(edges) + 1))


def _region_edges(extents: Floats) -> Floats:
    """Return the edges of regions, (R - 1,): observed extents above 1."""
    count = min(MAX_REGIONS, len(extents) // MIN_ROWS_PER_KNOT)
    edges = np.unique(np.quantile(extents, np.arange(1, count) / count, method="higher"))
    return np.asarray(edges[(edges > 1) & (edges > extents.min())])


def compute_region_accuracies(regions: SizeRegions, bits: Sequence[bytes], sizes: Floats) -> Floats:
    """Return the accuracies of m feature sets at the center of each region: (R, m)."""
    at = np.log(np.prod(sizes, axis=1))
    levels = _fit_levels(bits, spline_basis(regions.knots, at), np.arange(len(at)))
    return np.asarray(spline_basis(regions.knots, regions.centers) @ levels)


def _fit_levels(bits: Sequence[bytes], basis: Floats, rows: Int64s) -> Floats:
    """Fit the splines of m sets to some rows: (K, m), clipped to [0, 1]."""
    projection, blocks = _projection(basis[rows]), []
    for start in range(0, len(bits), _SETS_AT_ONCE):
        right = np.stack(
            [unpack_outcomes(each, len(basis))[rows] for each in bits[start : start + _SETS_AT_ONCE]], axis=1
        )
        blocks.append(projection @ right)
    return np.asarray(np.clip(np.concatenate(blocks, axis=1), 0.0, 1.0))


def fit_size_curves(
    regions: SizeRegions,
    bits: Sequence[bytes],
    sizes: Floats,
    items: Int64s,
    costs_at: Callable[[Floats], Floats],
    rng: np.random.Generator,
) -> SizeCurves:
    """Fit accuracy as a function of size for m feature sets.

    Also estimates the optimism of the choice in each region.

    Args:
        bits: for each set the packed bits of its correctly classified rows, cross-validated.
        sizes: (n, d), sizes of the rows.
        items: (n,), equal for rows of one item.
        costs_at: returns the cost of each set at a size, (d,).
    Complexity: O(R m n).
    """
    extents = np.prod(sizes, axis=1)
    basis, choosing = spline_basis(regions.knots, np.log(extents)), draw_validation_rows(items, rng)
    parts = [np.flatnonzero(choosing), np.flatnonzero(~choosing), np.arange(len(extents))]
    levels = np.stack([_fit_levels(bits, basis, part) for part in parts])
    dependence = len(items) / effective_rows(items)
    covariance = dependence * np.stack([np.linalg.pinv(basis[part].T @ basis[part]) for part in parts])
    projection, region = _projection(basis), np.searchsorted(regions.edges, extents, side="right")
    optimism, spread = np.zeros((2, len(regions.centers), len(bits)))
    for place, center in enumerate(regions.centers):
        weights = spline_basis(regions.knots, np.array([center]))[0] @ projection
        costs = costs_at(np.median(sizes[region == place], axis=0))
        off = estimate_selection_optimism(bits, items, costs, rng, weights=weights, most_sets=MAX_CONTENDERS)
        optimism[place], spread[place] = off.T
    return SizeCurves(levels, covariance, optimism, spread)
