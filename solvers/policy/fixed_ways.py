"""Fixed ways: the same sensors for all items, under the trade-offs and limits where nothing learned is surely better.

From few rows the nodes' policies learn chance, too, and then one fixed set of sensors answers better than they do, as
far as a hard budget reaches above all. So each point is held against the best fixed set within its limits, on the
rows' cross-validated losses, and is learned only where it loses less by a standard error of the difference between the
two (the one-standard-error rule of Breiman, Friedman, Olshen and Stone, *Classification and Regression Trees*, 1984,
section 3.4.3). Of all sets that cost no more, or take no longer, that of the least logarithmic loss is looked at: who
errs least among many was lucky.

So was, a little, what was chosen, and what it met is too good to be true on the rows that chose it. What is said is
therefore counted on each part of the rows where the other parts chose (``chosen_by``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s
from solvers.policy.curve import FixedSets
from solvers.policy.fixed_points import FixedPoints
from solvers.policy.graph import Graph
from solvers.policy.hard_budgets import beyond
from solvers.policy.learning import LearnedPolicies, Task
from solvers.policy.regression import Regressed
from solvers.statistics import standard_error_of_mean

LEAST = 1e-3
"""What going on along a fixed way is taken to gain at least: what gains nothing is not gone."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedWays:
    """sets: the nodes that points are held against; ends: (L,) of these the one that all rows end at under each point,
    -1 where what was learned decides; before: (S,) the node before each on its way."""

    sets: Int64s
    ends: Int64s
    before: Int64s

    @classmethod
    def of(cls, task: Task, learned: LearnedPolicies, rows: Bools | slice = slice(None)) -> "FixedWays":
        """Choose the points that are fixed, by some of the rows, (n,)."""
        log_losses = log_losses_of(task.judged, task.training.labels, rows)
        set_costs = task.graph.members @ task.means
        best = [best_within(each, log_losses) for each in (set_costs, task.set_times)]
        sets = np.unique(np.concatenate([np.zeros(1, dtype=np.int64), *best]))
        within = ~beyond(set_costs[sets], task.caps) & ~beyond(task.set_times[sets], task.deadlines)
        expected = task.losses.learned[sets][:, rows].mean(axis=1)
        weighed = expected[:, None] + set_costs[sets, None] * task.tradeoffs
        ends = sets[np.where(within, weighed, np.inf).argmin(axis=0)]
        costs = task.graph.members[ends].astype(np.float64) @ task.costs[rows].T
        items = task.training.items
        gained = task.losses.observed[ends][:, rows] - learned.errors[:, rows]
        gained += task.tradeoffs[:, None] * (costs - learned.costs[:, rows])
        is_better = gained.mean(axis=1) > standard_error_of_mean(gained, None if items is None else items[rows])
        return cls(sets, np.where(is_better, -1, ends), _before(task.graph, log_losses))

    def way_to(self, end: int) -> list[int]:
        """List the nodes of the way to one, the first the empty set."""
        way = [end]
        while way[0]:
            way.insert(0, int(self.before[way[0]]))
        return way

    def met(self, task: Task, learned: LearnedPolicies) -> LearnedPolicies:
        """Tell what rows meet where they go these ways, and what points are held against; policies are left alone."""
        errors, costs, acquired = (each.copy() for each in (learned.errors, learned.costs, learned.acquired))
        fixed, members = self.ends >= 0, task.graph.members.astype(np.float64)
        ends = self.ends[fixed]
        errors[fixed], costs[fixed] = task.losses.observed[ends], members[ends] @ task.costs.T
        acquired[fixed] = members[ends].sum(axis=1)[:, None]
        loss = float((errors + task.tradeoffs[:, None] * costs)[task.curve].mean())
        sets, set_costs = self.sets, members[self.sets] @ task.costs.T
        held = FixedSets(task.losses.observed[sets], set_costs, task.losses.learned[sets], fixed, task.training.items)
        return replace(learned, errors=errors, costs=costs, acquired=acquired, loss=loss, fixed_sets=held)


def log_losses_of(judged: Sequence[Floats], labels: Int32s, rows: Bools | slice = slice(None)) -> Floats:
    """Tell the mean logarithmic loss of nodes' classifiers on some rows, by members that had not seen them: (S,)."""
    labels = labels[rows]
    of_truth = (each[rows][np.arange(len(labels)), labels] for each in judged)
    return np.array([-np.log(np.maximum(chances, 1e-12)).mean() for chances in of_truth])


def best_within(amounts: Floats, log_losses: Floats) -> Int64s:
    """Find the sets that lose less than all that cost less, or take less long, amounts (S,): their places.

    >>> best_within(np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.7, 0.6, 0.5, 0.55])).tolist()
    [0, 2]
    """
    order = np.lexsort((log_losses, amounts))
    before = np.minimum.accumulate(np.append(np.inf, log_losses[order][:-1]))
    return np.asarray(order[log_losses[order] < before])


def _before(graph: Graph, log_losses: Floats) -> Int64s:
    """Find the node before each: of those that lead to it the one that loses least, (S,)."""
    before = np.zeros(len(graph), dtype=np.int64)
    for node in np.argsort(-log_losses, kind="stable").tolist():
        before[graph.actions_of(node)] = node
    return before


def chosen_by(task: Task, learned: LearnedPolicies, rows: Bools) -> LearnedPolicies:
    """Tell what all rows meet where some of them, (n,), choose the ways."""
    return FixedWays.of(task, learned, rows).met(task, learned)


def with_fixed_ways(task: Task, learned: LearnedPolicies) -> LearnedPolicies:
    """Let all rows go one way where nothing learned is surely better, and tell what they meet there."""
    ways = FixedWays.of(task, learned)
    policies: dict[int, Regressed] = dict(learned.policies)
    passed = list(learned.passed)
    for end in np.unique(ways.ends[ways.ends >= 0]).tolist():
        points, way = np.flatnonzero(ways.ends == end), ways.way_to(end)
        for node, target in zip(way, [*way[1:], -1], strict=True):
            if node in policies:
                policies[node] = _led(task, policies[node], node, target, end, points)
        one = FixedPoints.along(task.graph, [way], task.losses.observed, task.costs)
        for point in points.tolist():
            passed[point] = one.passed[0]
    return replace(ways.met(task, learned), policies=policies, passed=passed)


def _led(task: Task, policy: Regressed, node: int, target: int, end: int, points: Int64s) -> Regressed:
    """Let a node's policy lead to a target, or stop if there is none, under some points. Where the target is barred,
    the action follows that is best on average, if it gains anything."""
    base, leaves = policy.base.copy(), policy.leaves.copy()
    leaves[..., points] = 0.0
    if target < 0:
        base[..., points] = np.maximum(base[..., points], 0.0)
        return replace(policy, base=base, leaves=leaves)
    action = int(np.flatnonzero(task.graph.actions_of(node) == target)[0])
    tradeoffs, costs = task.tradeoffs[points], task.graph.members @ task.means
    errors = float((task.losses.observed[node] - task.losses.observed[end]).mean())
    gains = np.maximum(LEAST, errors - (costs[end] - costs[node]) * tradeoffs)
    base[..., points] = np.maximum(base[..., points], -gains / 2)
    base[:, action, points] = -gains - (costs[target] - costs[node]) * tradeoffs
    return replace(policy, base=base, leaves=leaves)
