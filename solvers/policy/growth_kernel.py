"""Compiled kernels for gains of sensors in log-loss, used by ``growth_scores``.

Rows have slopes g and curvatures h of the log-loss at the node's out-of-fold posteriors, (n, L). A Newton step s on a
cell of rows is G / (H + ridge), with G and H the cell's sums; it lowers the cell's loss by G s - H s^2 / 2. Steps are
fitted on one half of the rows and evaluated on the other half, and vice versa (cross-fitting). So an uninformative
sensor has no gain on average.
"""

import numpy as np

from models.arrays import Floats, Int64s, UInt8s
from solvers.jit import compile_kernel


@compile_kernel()
def cross_fitted_gain(slope: Floats, curve: Floats, ridge: float) -> float:
    """Return the cross-fitted gain of a cell, summed over both halves.

    slope, curve: (2, L), sums of each half.
    """
    gain = 0.0
    for k in range(slope.shape[1]):
        for half in range(2):
            step = slope[half, k] / (curve[half, k] + ridge)
            gain += slope[1 - half, k] * step - 0.5 * curve[1 - half, k] * step * step
    return gain


@compile_kernel()
def training_gain(slope: Floats, curve: Floats, half: int, ridge: float) -> float:
    """Return the gain of a cell's steps on the half to which they are fitted."""
    gain = 0.0
    for k in range(slope.shape[1]):
        gain += 0.5 * slope[half, k] * slope[half, k] / (curve[half, k] + ridge)
    return gain


@compile_kernel()
def holdout_gain(slope: Floats, curve: Floats, half: int, ridge: float) -> float:
    """Return the gain of steps fitted to one half, evaluated on the other half."""
    gain = 0.0
    for k in range(slope.shape[1]):
        step = slope[half, k] / (curve[half, k] + ridge)
        gain += slope[1 - half, k] * step - 0.5 * curve[1 - half, k] * step * step
    return gain


@compile_kernel()
def accumulate_bins(bins: UInt8s, parts: UInt8s, halves: UInt8s, g: Floats, sums: Floats) -> None:
    """Add slopes or curvatures g to sums by part, bin, and half, then accumulate over the parts.

    sums: (P, w, 2, L), initially zeros; afterward, entry p covers the rows of parts 0 to p. Loops compile several times
    as fast as sums of whole arrays.
    """
    for i in range(len(parts)):
        for k in range(g.shape[1]):
            sums[parts[i], bins[i], halves[i], k] += g[i, k]
    for part in range(1, sums.shape[0]):
        for b in range(sums.shape[1]):
            for half in range(2):
                for k in range(g.shape[1]):
                    sums[part, b, half, k] += sums[part - 1, b, half, k]


@compile_kernel()
def subtract_sums(all_rows: Floats, below: Floats, beyond: Floats) -> None:
    """Write the sums of a cell's other rows, (2, L)."""
    for half in range(2):
        for k in range(all_rows.shape[1]):
            beyond[half, k] = all_rows[half, k] - below[half, k]


@compile_kernel(cache=True)
def compute_split_gains(
    bins: UInt8s, parts: UInt8s, count: int, halves: UInt8s, g: Floats, h: Floats, ridge: float, gains: Floats
) -> None:
    """Write each column's gain in the rows up to each part (index 0), and in the rest (index 1): gains (P, 2, D).

    Args:
        bins: (D, n).
        parts: (n,), below ``count``; the rows up to the last part are all rows.
        halves: (n,), 0 or 1.
        g: (n, L), slopes.
        h: (n, L), curvatures.
    Complexity: O(D (n + P w) L) for columns of w bins.
    """
    width, outputs = int(bins.max()) + 1 if bins.size else 1, g.shape[1]
    slope, curve = np.zeros((2, outputs)), np.zeros((2, outputs))
    for column in range(len(bins)):
        slopes = np.zeros((count, width, 2, outputs))
        curves = np.zeros((count, width, 2, outputs))
        accumulate_bins(bins[column], parts, halves, g, slopes)
        accumulate_bins(bins[column], parts, halves, h, curves)
        for part in range(count):
            for b in range(width):
                gains[part, 0, column] += cross_fitted_gain(slopes[part, b], curves[part, b], ridge)
                subtract_sums(slopes[count - 1, b], slopes[part, b], slope)
                subtract_sums(curves[count - 1, b], curves[part, b], curve)
                gains[part, 1, column] += cross_fitted_gain(slope, curve, ridge)


@compile_kernel()
def accumulate_pairs(
    first: UInt8s, second: UInt8s, halves: UInt8s, g: Floats, h: Floats, slopes: Floats, curves: Floats
) -> None:
    """Add up slopes and curvatures by the bins of two columns: (w, w, 2, L)."""
    slopes[:], curves[:] = 0.0, 0.0
    for i in range(len(first)):
        for k in range(g.shape[1]):
            slopes[first[i], second[i], halves[i], k] += g[i, k]
            curves[first[i], second[i], halves[i], k] += h[i, k]


@compile_kernel()
def update_followers(
    slopes: Floats, curves: Floats, axis: int, ridge: float, price: float, best: Floats, kept: Floats, prices: Floats
) -> None:
    """Update, for each bin of the first column, the best second column so far.

    The best column has the highest training gain per price. The last entry is the best for all bins together. best,
    kept, prices: (w + 1, 2), by bin and training half; ``kept`` holds holdout gains. The last row is for all bins.
    """
    width = len(slopes)
    for half in range(2):
        all_gain, all_gained = 0.0, 0.0
        for b in range(width):
            gain, gained = 0.0, 0.0
            for c in range(width):
                one, two = (b, c) if axis == 0 else (c, b)
                gain += training_gain(slopes[one, two], curves[one, two], half, ridge)
                gained += holdout_gain(slopes[one, two], curves[one, two], half, ridge)
            if gain / price > best[b, half]:
                best[b, half], kept[b, half], prices[b, half] = gain / price, gained, price
            all_gain += gain
            all_gained += gained
        if all_gain / price > best[width, half]:
            best[width, half], kept[width, half] = all_gain / price, all_gained


@compile_kernel(cache=True)
def compute_pair_gains(
    bins: UInt8s,
    owners: Int64s,
    costs: Floats,
    shared: Floats,
    halves: UInt8s,
    g: Floats,
    h: Floats,
    ridge: float,
    gains: Floats,
    fixed: Floats,
    prices: Floats,
) -> None:
    """Write the gain of each column together with its best successors.

    Args:
        bins: (D, n).
        owners: (D,), sensor of each column.
        costs: (D,), price of each column.
        shared: (M, M), what two sensors together save; (0, 0): nothing.
        gains: (D,), output: gain with the best successor of each bin.
        fixed: (D,), output: gain with one successor for all bins.
        prices: (D,), output: mean price of both.
    Complexity: O(D^2 n L).
    """
    columns, width, outputs = len(bins), int(bins.max()) + 1 if bins.size else 1, g.shape[1]
    best = np.full((columns, width + 1, 2), -1.0)
    kept, paid = np.zeros((columns, width + 1, 2)), np.zeros((columns, width + 1, 2))
    slopes, curves = np.zeros((width, width, 2, outputs)), np.zeros((width, width, 2, outputs))
    for first in range(columns):
        for second in range(first + 1, columns):
            price = costs[first] if owners[first] == owners[second] else costs[first] + costs[second]
            if len(shared) and owners[first] != owners[second]:
                price -= shared[owners[first], owners[second]]
            accumulate_pairs(bins[first], bins[second], halves, g, h, slopes, curves)
            update_followers(slopes, curves, 0, ridge, price, best[first], kept[first], paid[first])
            update_followers(slopes, curves, 1, ridge, price, best[second], kept[second], paid[second])
    for column in range(columns):
        counts = np.zeros(width)
        for i in range(bins.shape[1]):
            counts[bins[column, i]] += 1.0
        for half in range(2):
            fixed[column] += kept[column, width, half]
            for b in range(width):
                gains[column] += kept[column, b, half]
                prices[column] += 0.5 * paid[column, b, half] * counts[b] / bins.shape[1]
