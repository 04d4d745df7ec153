"""Blocks of near items with bounding boxes: leaves of a k-d tree over all samples' items."""

from typing import NamedTuple

import numpy as np

from models.arrays import Int32s, Int64s, Singles
from solvers.portfolio.neighbors.kernel import BLOCK, STEP


class ItemBlocks(NamedTuple):
    """Items that are in at least one sample, each once, in b blocks.

    Attributes:
        blocks: (b, d, BLOCK), coordinates, d padded to a multiple of ``STEP``; the last block repeats an item.
        low, high: (b, d), smallest and largest coordinates of each block.
        starts: (b * BLOCK + 1,), where each item's rows in ``members`` start.
        members: (e, 2), a sample that contains the item, and the item's index in the sample.
    """

    blocks: Singles
    low: Singles
    high: Singles
    starts: Int64s
    members: Int32s

    @classmethod
    def from_samples(cls, items: Singles, samples: Int32s) -> "ItemBlocks":
        """Arrange the items, (r, d), of samples, (K, s).

        Complexity: O(K s log(K s) + u d log u) time for u items in at least one sample.
        """
        used = np.unique(samples).astype(np.int64)
        order = _order_items(items, used)
        slots = np.zeros(len(items), np.int64)
        slots[order] = np.arange(len(order))
        padded = pad_coordinates(items[np.pad(order, (0, -len(order) % BLOCK), mode="edge")])
        grouped = padded.reshape(-1, BLOCK, padded.shape[1])
        flat = slots[samples].ravel()
        members = np.argsort(flat, kind="stable")
        starts = np.zeros(len(padded) + 1, np.int64)
        np.cumsum(np.bincount(flat, minlength=len(padded)), out=starts[1:])
        return cls(
            np.ascontiguousarray(grouped.transpose(0, 2, 1)),
            grouped.min(axis=1),
            grouped.max(axis=1),
            starts,
            np.column_stack(np.divmod(members, samples.shape[1])).astype(np.int32),
        )


def pad_coordinates(vectors: Singles) -> Singles:
    """Append zeros to vectors, (n, d), up to a multiple of ``STEP`` coordinates."""
    return np.ascontiguousarray(np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % STEP))))


def _order_items(items: Singles, rows: Int64s) -> Int64s:
    """Order the rows of items so that their blocks are the leaves of a k-d tree.

    The number of blocks in the left half of a node is a power of two. So the exclusive or of two block numbers rises
    with the size of their least common subtree.
    """
    if len(rows) <= BLOCK:
        return rows
    left = BLOCK
    while 2 * left < len(rows):
        left *= 2
    inside = items[rows]
    axis = int(inside.var(axis=0, dtype=np.float64).argmax())
    split = np.argpartition(inside[:, axis], left - 1)
    return np.concatenate([_order_items(items, rows[split[:left]]), _order_items(items, rows[split[left:]])])
