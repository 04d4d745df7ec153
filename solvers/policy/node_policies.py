"""What the nodes decide, as arrays: forests of advantages, or tournaments, for every member and trade-off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.arrays import Bools, Floats, Int16s, Int32s, Singles
from solvers.policy.filter_tree import Tournament, monomials, play, standardize
from solvers.policy.regression import Regressed, least
from solvers.trees.oblivious_trees import Forest


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Edges are counted through all nodes: those of node s are offsets[s] to offsets[s + 1]. prices: (E,) average step
    costs; tradeoffs: (H + B,), none negative; must_begin: whether the first node may not stop; the others are as in
    ``PolicyPlan``."""

    offsets: Int32s
    prices: Floats
    tradeoffs: Floats
    base: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles
    degree: int
    centres: Floats
    scales: Floats
    matches: Singles
    must_begin: bool = False

    def may_stop(self, node: int) -> bool:
        """Tell whether a node may stop."""
        return node > 0 or not self.must_begin

    def advantages(self, node: int, member: int, points: slice, features: Floats) -> Floats:
        """Estimate what each action of a node costs more than stopping, its price included, for rows that look like
        features, (n, d), under P points: (n, A, P). A filter tree knows the mean of it alone."""
        edges = slice(int(self.offsets[node]), int(self.offsets[node + 1]))
        base = self.base[edges, member, points]
        leaves = np.moveaxis(self.leaves[edges, member, :, :, points], 0, 2)
        leaves = leaves.reshape(*leaves.shape[:2], base.size)
        forest = Forest(base.reshape(-1), self.columns[node, member], self.thresholds[node, member], leaves)
        losses = forest.predict(features).reshape(-1, *base.shape)
        return np.asarray(losses + self.prices[edges, None] * self.tradeoffs[points])

    def choose(
        self,
        node: int,
        member: int,
        point: int,
        features: Floats,
        barred: Bools | None = None,
        foreseen: Floats | float = 0.0,
    ) -> tuple[Int16s, Floats]:
        """Choose the action of a node for rows that look like features, (n, d): (n,), 0 stops; and its advantages.

        barred: (A,), actions that must not be taken; where one wins a tournament the mean advantages of the others
        decide. foreseen: (n, A), what of the advantages was not learned.
        """
        advantages = self.advantages(node, member, slice(point, point + 1), features)[..., 0] + foreseen
        allowed = advantages if barred is None else np.where(barred, np.inf, advantages)
        if not len(self.matches):
            return least(allowed, may_stop=self.may_stop(node)), advantages
        d = features.shape[1]
        edges = slice(int(self.offsets[node]), int(self.offsets[node + 1]))
        inputs = monomials(standardize(features, self.centres[node, :d], self.scales[node, :d]), self.degree)
        winners = play(self.matches[edges, member, point, : inputs.shape[1]], inputs)
        if barred is not None:
            winners = np.where(np.append(False, barred)[winners], least(allowed), winners)
        return winners, advantages


def from_regression(offsets: Int32s, policies: dict[int, Regressed], points: Sequence[int]) -> dict[str, Any]:
    """Put the forests of nodes into arrays, for some of the trade-offs; nodes without edges ask nothing."""
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
    used = int(np.flatnonzero(leaves.any(axis=(0, 1, 3, 4))).max(initial=-1)) + 1  # the last trees may all say 0
    return {
        "base": base,
        "edge_columns": columns[:, :, :used].copy(),
        "edge_thresholds": thresholds[:, :, :used].copy(),
        "edge_leaves": leaves[:, :, :used].copy(),
        "centres": np.zeros((len(offsets) - 1, 0)),
        "scales": np.ones((len(offsets) - 1, 0)),
        "matches": np.zeros((0, one.base.shape[0], len(kept), 0), dtype=np.float32),
    }


def from_tournaments(offsets: Int32s, policies: dict[int, Tournament], points: Sequence[int]) -> dict[str, Any]:
    """Put the tournaments of nodes into arrays, for some of the trade-offs; shorter ones are filled up with 0."""
    one, nodes, edges, kept = next(iter(policies.values())), len(offsets) - 1, int(offsets[-1]), list(points)
    widest = max(len(each.centre) for each in policies.values())
    most = max(each.matches.shape[3] for each in policies.values())
    members = one.base.shape[0]
    base = np.zeros((edges, members, len(kept)), dtype=np.float32)
    matches = np.zeros((edges, members, len(kept), most), dtype=np.float32)
    centres, scales = np.zeros((nodes, widest)), np.ones((nodes, widest))
    for node, each in policies.items():
        own = slice(int(offsets[node]), int(offsets[node + 1]))
        base[own] = np.moveaxis(each.base[:, :, kept], 1, 0)
        matches[own, :, :, : each.matches.shape[3]] = np.moveaxis(each.matches[:, :, kept], 1, 0)
        centres[node, : len(each.centre)], scales[node, : len(each.centre)] = each.centre, each.scale
    return {
        "base": base,
        "edge_columns": np.zeros((nodes, members, 0, 1), dtype=np.int32),
        "edge_thresholds": np.zeros((nodes, members, 0, 1)),
        "edge_leaves": np.zeros((edges, members, 0, 2, len(kept)), dtype=np.float32),
        "centres": centres,
        "scales": scales,
        "matches": matches,
    }
