"""Learn the policies of nodes, backwards over the DAG, and walk rows through to see what they meet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from models import FeatureTable, Trace
from models.arrays import Bools, Floats, Int16s, Int32s, Int64s
from models.policy import PolicyOptions
from solvers.parallel import in_parallel
from solvers.policy.classifier_training import TrainingRows
from solvers.policy.classless import (
    foreseen,
)
from solvers.policy.fixed_points import FixedPoints
from solvers.policy.graph import Graph
from solvers.policy.graph_reduce import reduce_graph
from solvers.policy.hard_budgets import beyond
from solvers.policy.losses import Losses
from solvers.policy.node_features import node_features
from solvers.policy.regression import RIDGE, NodeTraining, Regressed, learn_by_regression
from solvers.policy.rollout import walk
from solvers.policy.sensor_times import fetches_of, worst_times
from solvers.policy.sensors import costs_of
from solvers.policy.traffic import Passed
from solvers.trees.boosting import Growth
from solvers.trees.oblivious_trees import STAGE

MOST_NUMBERS = 1 << 22
"""Numbers in the leaves of all nodes' forests: 16 MB; with more edges there are fewer trees."""
MOST_GROWN, LEAST_GROWN = 3_000_000, 1_900_000
"""The same for a grown graph, of whose edges some two thirds are kept: 8 MB, or less where there is no room for it."""
ROOM = 4_000_000
"""Numbers in a grown plan: 16 MB of the 20 that it is to take at most."""
FEW_TREES, SHALLOW, FAR = 24, 3, 0.95
"""Forests of advantages have few trees of at most this depth, and learn so fast that all of them go so far towards the
mean of a leaf. On three drawn traces of six classifiers policies erred no more than with 80 trees of depth 4 (16.1 to
20.6 % of fresh items beside 16.2 to 20.7 %), in two fifths of the room; that is what they were chosen by, too."""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicies:
    """What was made of the DAG. policies: of each node that has one; errors, costs, acquired: (L, n), what each
    row met under each trade-off: 1 if wrongly answered, what it paid, how many sensors it acquired; passed: (L,)
    the ways that rows took; loss: the mean of errors and weighed costs."""

    policies: dict[int, Regressed]
    errors: Floats
    costs: Floats
    acquired: Floats
    passed: Sequence[Passed]
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """All that the nodes' policies are learned from. judged: (n, C) for each node, how likely the classes are by the
    member that had not seen the row, or (n, M) how good answers without classes are; fixed: points beside those that
    are learned; costs: (n, M); means: (M,); tradeoffs: (L,); rows: for each node those, (n,), that its policy learns
    from; caps: (L,) what no item may cost more than, at average prices, and deadlines: (L,) how long it may take;
    infinite for trade-offs of the curve, which stand first, before those of hard budgets and those of deadlines;
    set_times: (S,) of nodes."""

    options: PolicyOptions
    training: TrainingRows
    graph: Graph
    judged: Sequence[Floats]
    losses: Losses
    fixed: FixedPoints
    costs: Floats
    means: Floats
    tradeoffs: Floats
    seeds: Sequence[int]
    rows: Sequence[Bools]
    caps: Floats
    deadlines: Floats
    set_times: Floats

    @property
    def curve(self) -> slice:
        """The trade-offs of the curve."""
        return slice(0, self.hard.start)

    @property
    def hard(self) -> slice:
        """Those of hard budgets."""
        return slice(int((np.isinf(self.caps) & np.isinf(self.deadlines)).sum()), self.timed.start)

    @property
    def timed(self) -> slice:
        """Those of deadlines."""
        return slice(int(np.isinf(self.deadlines).sum()), len(self.deadlines))


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """What sensors cost and how long they take. costs: (n, M) of each row; means: (M,); times: (M,) at most, in unit;
    (0,): not known; fetches: (M,) what brings each."""

    costs: Floats
    means: Floats
    times: Floats
    unit: str
    fetches: Int32s

    @classmethod
    def of(cls, dataset: FeatureTable | Trace, sensors: Sequence[str], options: PolicyOptions) -> "Prices":
        """Read them of a dataset."""
        costs = costs_of(dataset)
        means = np.minimum(costs.mean(axis=0), costs.max(axis=0))  # rounding can lift a mean above every cost
        times, unit = worst_times(dataset, costs, options.worst_case_quantile)
        return cls(costs, means, times, unit, fetches_of(sensors, options.parallel))


def learn(task: Task, tell: Callable[[int], None]) -> LearnedPolicies:
    """Learn the policies of all nodes, and let rows walk through them."""
    policies: dict[int, Regressed] = {}

    def learn_layer(nodes: Sequence[int], weights: Sequence[Floats]) -> list[Int16s]:
        jobs = [_job(task, node, each) for node, each in zip(nodes, weights, strict=True)]
        before = len(policies)
        learned = list(in_parallel(jobs, lambda done: tell(before + done)))
        policies.update(zip(nodes, learned, strict=True))
        return [each.actions for each in learned]

    chosen = reduce_graph(task.graph, task.losses.learned, task.costs, task.tradeoffs, learn_layer)
    errors, costs, acquired, passed = validate(task.graph, chosen, task.losses.observed, task.costs)
    losses = errors + task.tradeoffs[:, None] * costs
    loss = float(losses[task.curve].mean())
    return LearnedPolicies(policies, errors, costs, acquired, passed, loss)


def _job(task: Task, node: int, weights: Floats) -> Callable[[], Regressed]:
    training, graph = task.training, task.graph
    features = node_features(training.sensors, graph.members[node], task.judged[node], training.cells)
    weighed_costs = graph.step_costs(node, task.means)[:, None] * task.tradeoffs
    targets = graph.actions_of(node)
    barred = beyond(graph.members[targets].astype(np.float64) @ task.means, task.caps)
    barred |= beyond(task.set_times[targets], task.deadlines)
    node_training = NodeTraining(features, weights, training.folds, weighed_costs, task.rows[node], barred)
    if task.fixed.must_begin:
        ahead = foreseen(task.judged[node], graph.members[node], graph.members[graph.actions_of(node)])
        node_training = replace(node_training, may_stop=node > 0, foreseen=ahead)
    return partial(learn_by_regression, node_training, _growth(task), task.seeds[node])


def _growth(task: Task) -> Growth:
    """Say how forests of advantages grow, so that together they do not become too large."""
    of_a_leaf = len(task.graph.targets) * task.training.members * len(task.tradeoffs)
    depth, numbers = min(task.options.depth, SHALLOW), MOST_NUMBERS
    if task.curve.stop < len(task.caps):
        classifiers = len(task.graph) * task.training.members * task.training.classes
        others = classifiers * (task.options.trees << task.options.depth)
        numbers = min(MOST_GROWN, max(LEAST_GROWN, (ROOM - others) * 3 // 2))
    trees = max(STAGE, min(task.options.trees, FEW_TREES, numbers // (of_a_leaf << depth)))
    return Growth(trees, depth, 1 - (1 - FAR) ** (1 / trees), RIDGE)


def validate(
    graph: Graph, chosen: Sequence[Int16s], observed: Floats, costs: Floats
) -> tuple[Floats, Floats, Floats, Sequence[Passed]]:
    """Walk every row under every trade-off: whether it is answered wrongly, what it costs, how many sensors it has at
    last, (L, n) each, and the ways taken, (L,). chosen: (n, L) actions for each node; observed: (S, n) losses; costs:
    (n, M)."""
    rows, at_points, passed = np.arange(observed.shape[1]), [], []
    for at in range(chosen[0].shape[1]):
        walks = walk(graph, len(rows), partial(_chosen, chosen, at))
        ends = walks.ends
        at_points.append(
            (observed[ends, rows], (graph.members[ends] * costs).sum(axis=1), graph.members[ends].sum(axis=1))
        )
        passed.append(Passed.of(graph, walks, observed))
    errors, spent, acquired = (np.array(each, dtype=np.float64) for each in zip(*at_points, strict=True))
    return errors, spent, acquired, passed


def _chosen(chosen: Sequence[Int16s], at: int, node: int, rows: Int64s) -> Int16s:
    return np.asarray(chosen[node][rows, at])
