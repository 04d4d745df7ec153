"""Gradient boosting of oblivious trees with multiple outputs, for regression and class probabilities.

The splits of a tree are chosen for one random projection of the gradients of all outputs. So choosing splits takes no
longer than for a single output. The leaves have a step for every output. Columns are binned at quantiles into at most
``MAX_BINS`` bins. Each tree uses a random sample of ``MAX_COLUMNS`` columns.
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
    """Parameters of boosting: number of trees, depth, learning rate, and L2 regularization (ridge)."""

    trees: int
    depth: int
    rate: float
    ridge: float


@dataclass(frozen=True, slots=True, eq=False)
class BinnedTable:
    """Binned columns.

    Attributes:
        bins: (d, n), C-contiguous.
        edges: inclusive upper ends of the bins of each column, rising; the last bin has none.
    """

    bins: UInt8s
    edges: tuple[Floats, ...]

    @classmethod
    def from_inputs(cls, inputs: Floats) -> "BinnedTable":
        """Bin a table, (n, d), at quantiles, or at every distinct number if these are few."""
        edges = tuple(_edges(column) for column in inputs.T)
        bins = [np.searchsorted(ends, column) for ends, column in zip(edges, inputs.T, strict=True)]
        return cls(np.array(bins, dtype=np.uint8).reshape(inputs.shape[::-1]), edges)

    def take(self, row_mask: Bools) -> "BinnedTable":
        """Return the table of the rows where ``row_mask`` is true."""
        return BinnedTable(np.ascontiguousarray(self.bins[:, row_mask]), self.edges)


def _edges(column: Floats) -> Floats:
    distinct = np.unique(column)
    if len(distinct) <= MAX_BINS:
        return distinct[:-1]
    return np.unique(np.quantile(column, np.linspace(0, 1, MAX_BINS + 1)[1:-1], method="nearest"))


def boost_regression(binned: BinnedTable, targets: Floats, params: BoostingParams, rng: np.random.Generator) -> Forest:
    """Fit targets, (n, L), by least squares. Complexity: O(T D n d) for splits and O(T n L) for leaves."""
    from solvers.trees.boosting_kernel import grow_regression_forest  # here, so that only a fit loads numba

    residuals = targets.astype(np.float32)
    base = residuals.mean(axis=0, dtype=np.float64).astype(np.float32)
    residuals -= base
    return _grow_forest(grow_regression_forest, binned, (residuals,), base, params, rng)


def boost_classes(
    binned: BinnedTable, labels: NDArray[Any], classes: int, params: BoostingParams, rng: np.random.Generator
) -> Forest:
    """Fit logits of class probabilities to labels, (n,), by the log loss.

    Labels are below ``classes``.
    """
    from solvers.trees.boosting_kernel import grow_class_forest

    counts = np.bincount(labels, minlength=classes) + 0.5
    base = np.log(counts / counts.sum()).astype(np.float32)
    logits = np.tile(base, (len(labels), 1))
    return _grow_forest(grow_class_forest, binned, (logits, labels.astype(np.int64)), base, params, rng)


def _grow_forest(
    kernel: Callable[..., None],
    binned: BinnedTable,
    state: tuple[NDArray[Any], ...],
    base: Singles,
    params: BoostingParams,
    rng: np.random.Generator,
) -> Forest:
    trees, depth, outputs = params.trees, params.depth, len(base)
    directions = rng.normal(size=(trees, outputs)) if outputs > 1 else np.ones((trees, 1))
    widths = np.array([len(ends) + 1 for ends in binned.edges])
    usable = np.flatnonzero(widths > 1)
    usable = usable if len(usable) else np.zeros(1, dtype=np.int64)
    candidates = np.zeros((trees, min(MAX_COLUMNS, len(usable))), dtype=np.int64)
    for row in candidates:
        row[:] = rng.choice(usable, len(row), replace=False)
    columns, bins = np.zeros((trees, depth), dtype=np.int32), np.zeros((trees, depth), dtype=np.int64)
    leaves = np.zeros((trees, 1 << depth, outputs), dtype=np.float32)
    kernel(binned.bins, widths, *state, directions, candidates, params.rate, params.ridge, columns, bins, leaves)
    ends = [
        [_get_threshold(binned.edges[c], b) for c, b in zip(*row, strict=True)]
        for row in zip(columns, bins, strict=True)
    ]
    return Forest(base, columns, np.array(ends).reshape(trees, depth), leaves)


def _get_threshold(edges: Floats, place: int) -> float:
    """Return the threshold of a split; the largest number without a split."""
    return float(edges[place]) if place < len(edges) else float(np.finfo(np.float64).max)
