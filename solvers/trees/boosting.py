"""Gradient boosting of oblivious trees with vectors in their leaves, for regression and for class probabilities.

A tree's questions are chosen for one random projection of the gradients of all outputs, so that they cost what those of
a single output cost; its leaves then hold a step for every output. Numbers are cut into at most ``BINS`` bins at
quantiles. A tree may ask about ``COLUMNS`` columns, drawn for it. The growing is compiled (``boosting_kernel``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Singles, UInt8s
from solvers.trees.oblivious_trees import Forest

MAX_BINS, MAX_COLUMNS = 48, 32


@dataclass(frozen=True, slots=True)
class BoostingParams:
    """How to boost. trees: how many; depth: of each; rate: the share of a step that is taken; ridge: added to the
    curvature in a leaf, which pulls steps out of small leaves towards 0."""

    trees: int
    depth: int
    rate: float
    ridge: float


@dataclass(frozen=True, slots=True, eq=False)
class BinnedTable:
    """Columns cut into bins. bins: (d, n) uint8, C-contiguous; edges: for each column the rising upper ends of all bins
    but the last: a number is in the first bin that does not end below it."""

    bins: UInt8s
    edges: tuple[Floats, ...]

    @classmethod
    def from_inputs(cls, inputs: Floats) -> "BinnedTable":
        """Cut (n, d) numbers at quantiles, or at every number if there are few different ones."""
        edges = tuple(_edges(column) for column in inputs.T)
        bins = [np.searchsorted(ends, column) for ends, column in zip(edges, inputs.T, strict=True)]
        return cls(np.array(bins, dtype=np.uint8).reshape(inputs.shape[::-1]), edges)

    def take(self, which: Bools) -> "BinnedTable":
        """Take some rows."""
        return BinnedTable(np.ascontiguousarray(self.bins[:, which]), self.edges)


def _edges(column: Floats) -> Floats:
    distinct = np.unique(column)
    if len(distinct) <= MAX_BINS:
        return distinct[:-1]
    return np.unique(np.quantile(column, np.linspace(0, 1, MAX_BINS + 1)[1:-1], method="nearest"))


def boost_regression(binned: BinnedTable, targets: Floats, growth: BoostingParams, rng: np.random.Generator) -> Forest:
    """Regress targets, (n, L), by least squares. O(T D n d) for the questions and O(T n L) for the leaves."""
    from solvers.trees.boosting_kernel import grow_regression_forest  # here, so that only a fit loads numba

    residuals = targets.astype(np.float32)
    base = residuals.mean(axis=0, dtype=np.float64).astype(np.float32)
    residuals -= base
    return _boosted(grow_regression_forest, binned, (residuals,), base, growth, rng)


def boost_classes(
    binned: BinnedTable, labels: NDArray[Any], classes: int, growth: BoostingParams, rng: np.random.Generator
) -> Forest:
    """Fit the logits of class probabilities to labels, (n,), below ``classes``, by the logarithmic loss."""
    from solvers.trees.boosting_kernel import grow_class_forest

    counts = np.bincount(labels, minlength=classes) + 0.5
    base = np.log(counts / counts.sum()).astype(np.float32)
    logits = np.tile(base, (len(labels), 1))
    return _boosted(grow_class_forest, binned, (logits, labels.astype(np.int64)), base, growth, rng)


def _boosted(
    kernel: Callable[..., None],
    binned: BinnedTable,
    state: tuple[NDArray[Any], ...],
    base: Singles,
    growth: BoostingParams,
    rng: np.random.Generator,
) -> Forest:
    trees, depth, outputs = growth.trees, growth.depth, len(base)
    directions = rng.normal(size=(trees, outputs)) if outputs > 1 else np.ones((trees, 1))
    widths = np.array([len(ends) + 1 for ends in binned.edges])
    usable = np.flatnonzero(widths > 1)
    usable = usable if len(usable) else np.zeros(1, dtype=np.int64)
    asked = np.zeros((trees, min(MAX_COLUMNS, len(usable))), dtype=np.int64)
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
