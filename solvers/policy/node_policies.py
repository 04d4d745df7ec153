"""Policies of nodes as arrays: forests of advantages for every member and trade-off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.arrays import Bools, Floats, Int16s, Int32s, Singles
from solvers.policy.regression import NodePolicy, choose_least
from solvers.trees.oblivious_trees import Forest


@dataclass(frozen=True, slots=True, eq=False)
class NodeDecisions:
    """Decisions at all nodes; the edges of node s are offsets[s] to offsets[s + 1].

    Attributes:
        prices: (E,), mean step costs.
        tradeoffs: (H + B,), not negative.
        has_to_acquire: whether stopping is not allowed at the first node.
    """

    offsets: Int32s
    prices: Floats
    tradeoffs: Floats
    base: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles
    has_to_acquire: bool = False

    def can_stop(self, node: int) -> bool:
        """Return whether a node may stop."""
        return node > 0 or not self.has_to_acquire

    def estimate_advantages(self, node: int, member: int, points: slice, features: Floats) -> Floats:
        """Estimate the extra loss of each action compared with stopping, price included, (n, A, P).

        features: (n, d).
        """
        edges = slice(int(self.offsets[node]), int(self.offsets[node + 1]))
        base = self.base[edges, member, points]
        leaves = np.moveaxis(self.leaves[edges, member, :, :, points], 0, 2)
        leaves = leaves.reshape(*leaves.shape[:2], base.size)
        forest = Forest(base.reshape(-1), self.columns[node, member], self.thresholds[node, member], leaves)
        losses = forest.predict(features).reshape(-1, *base.shape)
        return np.asarray(losses + self.prices[edges, None] * self.tradeoffs[points])

    def choose_actions(
        self,
        node: int,
        member: int,
        point: int,
        features: Floats,
        forbidden: Bools | None = None,
        known_part: Floats | float = 0.0,
    ) -> tuple[Int16s, Floats]:
        """Choose an action per row, (n,), 0 to stop; also return advantages, (n, A).

        Args:
            features: (n, d).
            forbidden: (A,), actions that are not allowed.
            known_part: (n, A), part of the advantages that is not learned.
        """
        advantages = self.estimate_advantages(node, member, slice(point, point + 1), features)[..., 0] + known_part
        allowed = advantages if forbidden is None else np.where(forbidden, np.inf, advantages)
        return choose_least(allowed, can_stop=self.can_stop(node)), advantages


def pack_policies(offsets: Int32s, policies: dict[int, NodePolicy], points: Sequence[int]) -> dict[str, Any]:
    """Stack the forests of nodes into arrays, for some of the trade-offs.

    Nodes without edges get zeros.
    """
    one = next(iter(policies.values()))
    kept = list(points)
    shape = (len(offsets) - 1, *one.columns.shape)
    columns, thresholds = np.zeros(shape, dtype=np.int32), np.zeros(shape)
    edges = int(offsets[-1])
    base = np.zeros((edges, one.base.shape[0], len(kept)), dtype=np.float32)
    leaves = np.zeros((edges, *one.leaves.shape[:3], len(kept)), dtype=np.float32)
    for node, each in policies.items():
        own = slice(int(offsets[node]), int(offsets[node + 1]))
        columns[node], thresholds[node] = each.columns, each.thresholds
        base[own] = np.moveaxis(each.base[:, :, kept], 1, 0)
        leaves[own] = np.moveaxis(each.leaves[..., kept], 3, 0)
    used = int(np.flatnonzero(leaves.any(axis=(0, 1, 3, 4))).max(initial=-1)) + 1  # trailing trees may be 0 everywhere
    return {
        "base": base,
        "edge_columns": columns[:, :, :used].copy(),
        "edge_thresholds": thresholds[:, :, :used].copy(),
        "edge_leaves": leaves[:, :, :used].copy(),
    }
