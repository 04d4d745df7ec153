"""Gradient boosting of oblivious trees with vectors in their leaves, for regression and for class probabilities.

A tree's questions are chosen for one random projection of the gradients of all outputs, so that they cost what those of
a single output cost; its leaves then hold a step for every output. Numbers are cut into at most ``BINS`` bins at
quantiles. A tree may ask about ``COLUMNS`` columns, drawn for it. Compiled in memory when first used in a process.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.policy.forest import Forest

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]

BINS, COLUMNS = 48, 32


@dataclass(frozen=True, slots=True)
class Growth:
    """How to boost. trees: how many; depth: of each; rate: the share of a step that is taken; ridge: added to the
    curvature in a leaf, which pulls steps out of small leaves towards 0."""

    trees: int
    depth: int
    rate: float
    ridge: float


@dataclass(frozen=True, slots=True, eq=False)
class Binned:
    """Columns cut into bins. bins: (d, n) uint8, C-contiguous; edges: for each column the rising upper ends of all bins
    but the last: a number is in the first bin that does not end below it."""

    bins: NDArray[np.uint8]
    edges: tuple[Floats, ...]

    @classmethod
    def of(cls, inputs: Floats) -> "Binned":
        """Cut (n, d) numbers at quantiles, or at every number if there are few different ones."""
        edges = tuple(_edges(column) for column in inputs.T)
        bins = [np.searchsorted(ends, column) for ends, column in zip(edges, inputs.T, strict=True)]
        return cls(np.array(bins, dtype=np.uint8).reshape(inputs.shape[::-1]), edges)

    def rows(self, which: NDArray[np.bool_]) -> "Binned":
        """Take some rows."""
        return Binned(np.ascontiguousarray(self.bins[:, which]), self.edges)


def _edges(column: Floats) -> Floats:
    found = np.unique(column)
    if len(found) <= BINS:
        return found[:-1]
    return np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1], method="nearest"))


def boost(binned: Binned, targets: Floats, growth: Growth, rng: np.random.Generator) -> Forest:
    """Regress targets, (n, L), by least squares. O(T D n d) for the questions and O(T n L) for the leaves."""
    residuals = targets.astype(np.float32)
    base = residuals.mean(axis=0, dtype=np.float64).astype(np.float32)
    residuals -= base
    return _boosted(_kernels()[0], binned, (residuals,), base, growth, rng)


def boost_classes(
    binned: Binned, labels: NDArray[Any], classes: int, growth: Growth, rng: np.random.Generator
) -> Forest:
    """Fit the logits of class probabilities to labels, (n,), below ``classes``, by the logarithmic loss."""
    counts = np.bincount(labels, minlength=classes) + 0.5
    base = np.log(counts / counts.sum()).astype(np.float32)
    logits = np.tile(base, (len(labels), 1))
    return _boosted(_kernels()[1], binned, (logits, labels.astype(np.int64)), base, growth, rng)


def _boosted(
    kernel: Callable[..., None],
    binned: Binned,
    state: tuple[NDArray[Any], ...],
    base: Singles,
    growth: Growth,
    rng: np.random.Generator,
) -> Forest:
    trees, depth, outputs = growth.trees, growth.depth, len(base)
    directions = rng.normal(size=(trees, outputs)) if outputs > 1 else np.ones((trees, 1))
    widths = np.array([len(ends) + 1 for ends in binned.edges])
    usable = np.flatnonzero(widths > 1)
    usable = usable if len(usable) else np.zeros(1, dtype=np.int64)
    asked = np.zeros((trees, min(COLUMNS, len(usable))), dtype=np.int64)
    for row in asked:
        row[:] = rng.choice(usable, len(row), replace=False)
    columns, bins = np.zeros((trees, depth), dtype=np.int32), np.zeros((trees, depth), dtype=np.int64)
    leaves = np.zeros((trees, 1 << depth, outputs), dtype=np.float32)
    kernel(binned.bins, widths, *state, directions, asked, growth.rate, growth.ridge, columns, bins, leaves)
    ends = [[_end(binned.edges[c], b) for c, b in zip(*row, strict=True)] for row in zip(columns, bins, strict=True)]
    return Forest(base, columns, np.array(ends).reshape(trees, depth), leaves)


def _end(edges: Floats, place: int) -> float:
    """Give the threshold above which a question is answered yes; where nothing could be asked, it never is."""
    return float(edges[place]) if place < len(edges) else float(np.finfo(np.float64).max)


@cache
def _kernels() -> tuple[Callable[..., None], Callable[..., None]]:
    return _build(import_module("numba").njit)


def _build(njit: Callable[[Any], Any]) -> tuple[Callable[..., None], Callable[..., None]]:
    @njit
    def ask(bins, widths, asked, slopes, weights, ridge, columns, chosen, leaf):  # type: ignore[no-untyped-def]
        """Choose the questions of one tree for the gradients of one projection, and find the leaf of every row."""
        n = len(slopes)
        leaf[:] = 0
        for level in range(len(columns)):
            nodes, most, best, at = 1 << level, -1.0, asked[0], widths[asked[0]]
            for f in asked:
                width = widths[f]
                if width < 2:
                    continue
                sums, masses, column = np.zeros((nodes, width)), np.zeros((nodes, width)), bins[f]
                for i in range(n):
                    sums[leaf[i], column[i]] += slopes[i]
                    masses[leaf[i], column[i]] += weights[i]
                gains = np.zeros(width - 1)
                for q in range(nodes):
                    total, mass, left, below = sums[q].sum(), masses[q].sum(), 0.0, 0.0
                    for b in range(width - 1):
                        left += sums[q, b]
                        below += masses[q, b]
                        rest = total - left
                        gains[b] += left * left / (below + ridge) + rest * rest / (mass - below + ridge)
                place = gains.argmax()
                if gains[place] > most:
                    most, best, at = gains[place], f, place
            columns[level], chosen[level] = best, at
            column = bins[best]
            for i in range(n):
                leaf[i] = 2 * leaf[i] + (column[i] > at)

    @njit
    def regress(bins, widths, residuals, directions, asked, rate, ridge, columns, chosen, leaves):  # type: ignore[no-untyped-def]
        n, outputs = residuals.shape
        leaf, slopes, weights = np.zeros(n, np.int64), np.zeros(n), np.ones(n)
        for t in range(len(columns)):
            for i in range(n):
                slope = 0.0
                for k in range(outputs):
                    slope += residuals[i, k] * directions[t, k]
                slopes[i] = slope
            ask(bins, widths, asked[t], slopes, weights, ridge, columns[t], chosen[t], leaf)
            sums, counts = np.zeros(leaves.shape[1:]), np.zeros(leaves.shape[1])
            for i in range(n):
                counts[leaf[i]] += 1.0
                for k in range(outputs):
                    sums[leaf[i], k] += residuals[i, k]
            for q in range(len(counts)):
                for k in range(outputs):
                    leaves[t, q, k] = rate * sums[q, k] / (counts[q] + ridge)
            for i in range(n):
                for k in range(outputs):
                    residuals[i, k] -= leaves[t, leaf[i], k]

    @njit
    def classify(bins, widths, logits, labels, directions, asked, rate, ridge, columns, chosen, leaves):  # type: ignore[no-untyped-def]
        n, outputs = logits.shape
        leaf, slopes, weights = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        gradients, curvatures = np.zeros((n, outputs)), np.zeros((n, outputs))
        for t in range(len(columns)):
            for i in range(n):
                highest, total, slope, weight = logits[i].max(), 0.0, 0.0, 0.0
                for k in range(outputs):
                    gradients[i, k] = np.exp(logits[i, k] - highest)
                    total += gradients[i, k]
                for k in range(outputs):
                    p = gradients[i, k] / total
                    curvatures[i, k] = p * (1 - p)
                    gradients[i, k] = (labels[i] == k) - p
                    slope += gradients[i, k] * directions[t, k]
                    weight += curvatures[i, k]
                slopes[i], weights[i] = slope, weight / outputs
            ask(bins, widths, asked[t], slopes, weights, ridge, columns[t], chosen[t], leaf)
            sums, masses = np.zeros(leaves.shape[1:]), np.zeros(leaves.shape[1:])
            for i in range(n):
                for k in range(outputs):
                    sums[leaf[i], k] += gradients[i, k]
                    masses[leaf[i], k] += curvatures[i, k]
            for q in range(len(sums)):
                for k in range(outputs):
                    leaves[t, q, k] = rate * sums[q, k] / (masses[q, k] + ridge)
            for i in range(n):
                for k in range(outputs):
                    logits[i, k] += leaves[t, leaf[i], k]

    return regress, classify
