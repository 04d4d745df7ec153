"""Acquisition by exact dynamic programming over information states, and plain simulation, to hold the policy kind
against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int64s
from solvers.policy.graph import Graph
from solvers.setup_groups import NO_GROUPS, SetupGroups


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A tiny problem: n rows, each with the values of M sensors, (n, M), and what stopping at each set costs it."""

    values: Int64s
    losses: Floats
    costs: Floats


def made(rng: np.random.Generator, rows: int, sensors: int, levels: int) -> Table:
    """Draw a problem whose losses, by node, and costs, by row and sensor, are anything."""
    values = rng.integers(levels, size=(rows, sensors))
    losses = np.round(rng.random((1 << sensors, rows)), 2)
    costs = np.round(rng.random((rows, sensors)) * rng.choice([0.0, 0.1, 0.6], size=sensors), 2)
    return Table(values, losses, costs)


def information(table: Table, members: NDArray[np.bool_], row: int) -> tuple[int | None, ...]:
    """Tell what is known of a row when some sensors, (M,), have been acquired."""
    return tuple(int(v) if m else None for v, m in zip(table.values[row], members, strict=True))


def least_loss(table: Table, tradeoff: float, groups: SetupGroups = NO_GROUPS) -> float:
    """Find the least mean loss plus weighted cost of any rule that decides by what is known.

    By recursion over rows with equal readings, which all get the same action. Costs are of sensors, then of groups."""
    sensors = table.values.shape[1]
    graph = Graph.all_subsets(sensors)
    place = {tuple(members): at for at, members in enumerate(graph.members.tolist())}

    def best(rows: Int64s, members: tuple[bool, ...]) -> float:
        least = float(table.losses[place[members], rows].sum())
        for m in (m for m in range(sensors) if not members[m]):
            after = tuple(True if at == m else had for at, had in enumerate(members))
            parts = [rows[table.values[rows, m] == v] for v in np.unique(table.values[rows, m])]
            paid = table.costs[rows, m].sum()
            for group, own in enumerate(groups.members.tolist()):
                if own[m] and not any(own[at] for at in range(sensors) if members[at]):
                    paid += table.costs[rows, sensors + group].sum()
            least = min(least, tradeoff * float(paid) + sum(best(part, after) for part in parts))
        return least

    return best(np.arange(len(table.values)), (False,) * sensors) / len(table.values)


def look_up(table: Table, graph: Graph) -> Callable[[Sequence[int], Sequence[Floats]], list[NDArray[np.int16]]]:
    """Make a learner that keeps, for everything that can be known at a node, the action of the least mean weight."""

    def learn(nodes: Sequence[int], weights: Sequence[Floats]) -> list[NDArray[np.int16]]:
        return [one(node, weight) for node, weight in zip(nodes, weights, strict=True)]

    def one(node: int, weights: Floats) -> NDArray[np.int16]:
        known = [information(table, graph.members[node], row) for row in range(len(table.values))]
        actions = np.zeros((weights.shape[0], weights.shape[2]), dtype=np.int16)
        for state in set(known):
            rows = [row for row, each in enumerate(known) if each == state]
            actions[rows] = weights[rows].mean(axis=0).argmin(axis=0)
        return actions

    return learn


def simulate(graph: Graph, table: Table, chosen: Sequence[NDArray[np.int16]], at: int, tradeoff: float) -> Floats:
    """Walk each row alone along its actions under one trade-off: what it loses and pays, (n,)."""
    paid = np.zeros(len(table.values))
    for row in range(len(paid)):
        node = 0
        while action := int(chosen[node][row, at]):
            target = int(graph.targets[graph.offsets[node] + action - 1])
            for m in np.flatnonzero(graph.mark_paid(target) & ~graph.mark_paid(node)).tolist():
                paid[row] += tradeoff * table.costs[row, m]
            node = target
        paid[row] += table.losses[node, row]
    return paid
