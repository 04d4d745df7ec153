"""Training of the policies of nodes, backward over the DAG, and validation by rollouts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from models.arrays import Bools, Floats, Int16s, Int64s
from models.policy import PolicyOptions
from solvers.parallel import run_parallel
from solvers.policy.baseline_points import BaselinePoints
from solvers.policy.classifier_training import TrainingRows
from solvers.policy.classless import (
    known_advantages,
)
from solvers.policy.graph import Graph
from solvers.policy.graph_reduce import reduce_graph
from solvers.policy.learned_limits import exceeds_limits
from solvers.policy.losses import StoppingLosses
from solvers.policy.node_features import compute_node_features
from solvers.policy.regression import RIDGE, NodePolicy, NodeTraining, fit_node_policy
from solvers.policy.rollout import simulate_policy
from solvers.policy.traffic import PassedCounts
from solvers.trees.boosting import BoostingParams
from solvers.trees.oblivious_trees import STAGE_TREES

MAX_LEAF_NUMBERS = 1 << 22
"""Maximum total size of leaves of all nodes' forests, 16 MB; more edges mean fewer trees."""
MAX_GROWN_NUMBERS, MIN_GROWN_NUMBERS = 3_000_000, 1_900_000
"""The same for a grown graph before pruning, which keeps about two thirds of its edges: 8 MB, or less without room."""
MAX_PLAN_NUMBERS = 4_000_000
"""Numbers in a grown plan: 16 MB of its 20 MB limit."""
MAX_TREES, MAX_TREE_DEPTH, LEARNED_SHARE = 24, 3, 0.95
"""Maximum number and depth of trees in forests of advantages, and the share of a leaf's mean that all of them learn.

On three simulated traces of six classifiers, on which they were chosen, error rates were 16.1 to 20.6 %, compared with
16.2 to 20.7 % for 80 trees of depth 4, at two fifths of the size.
"""


@dataclass(frozen=True, slots=True, eq=False)
class LearnedPolicies:
    """Policies of nodes and their validation results.

    Attributes:
        policies: policy of each node with actions.
        errors: (L, n), loss of each row under each trade-off.
        costs: (L, n), cost of each row.
        acquired: (L, n), number of acquired sensors.
        answered: (L, n), 1 for rows that get an answer, 0 for rejected rows.
        passed: (L,), number of rows on each edge and node.
        loss: mean of errors plus weighted costs.
    """

    policies: dict[int, NodePolicy]
    errors: Floats
    costs: Floats
    acquired: Floats
    answered: Floats
    passed: Sequence[PassedCounts]
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class PolicyTask:
    """Training data of the policies of nodes.

    Attributes:
        predictions: for each node (n, C) out-of-fold posteriors, or (n, M) answer quality.
        fixed: points that are not learned.
        costs: (n, M + G), of sensors, then of set-up groups.
        means: (M + G,).
        tradeoffs: (L,), first of the curve, then of hard budgets, then of deadlines.
        rows: for each node, the rows to which its policy is fitted, (n,).
        caps: (L,), maximum cost of an item at mean prices, infinite if none.
        deadlines: (L,), maximum time of an item, infinite if none.
        set_times: (S,), maximum time of each node.
    """

    options: PolicyOptions
    training: TrainingRows
    graph: Graph
    predictions: Sequence[Floats]
    losses: StoppingLosses
    fixed: BaselinePoints
    costs: Floats
    means: Floats
    tradeoffs: Floats
    seeds: Sequence[int]
    rows: Sequence[Bools]
    caps: Floats
    deadlines: Floats
    set_times: Floats

    @property
    def curve_slice(self) -> slice:
        """Index range of the curve in ``tradeoffs``."""
        return slice(0, self.hard_budget_slice.start)

    @property
    def hard_budget_slice(self) -> slice:
        """Index range of hard budgets in ``tradeoffs``."""
        return slice(int((np.isinf(self.caps) & np.isinf(self.deadlines)).sum()), self.deadline_slice.start)

    @property
    def deadline_slice(self) -> slice:
        """Index range of deadlines in ``tradeoffs``."""
        return slice(int(np.isinf(self.deadlines).sum()), len(self.deadlines))


def learn_policies(task: PolicyTask, report: Callable[[int], None]) -> LearnedPolicies:
    """Learn the policies of all nodes, and simulate all rows with them."""
    policies: dict[int, NodePolicy] = {}

    def learn_layer(nodes: Sequence[int], weights: Sequence[Floats]) -> list[Int16s]:
        jobs = [_node_job(task, node, each) for node, each in zip(nodes, weights, strict=True)]
        before = len(policies)
        learned = list(run_parallel(jobs, lambda done: report(before + done)))
        policies.update(zip(nodes, learned, strict=True))
        return [each.actions for each in learned]

    chosen = reduce_graph(task.graph, task.losses.learned, task.costs, task.tradeoffs, learn_layer)
    errors, costs, acquired, answered, passed = validate_policies(task.graph, chosen, task.losses, task.costs)
    losses = errors + task.tradeoffs[:, None] * costs
    loss = float(losses[task.curve_slice].mean())
    return LearnedPolicies(policies, errors, costs, acquired, answered, passed, loss)


def _node_job(task: PolicyTask, node: int, weights: Floats) -> Callable[[], NodePolicy]:
    training, graph = task.training, task.graph
    features = compute_node_features(training.sensors, graph.members[node], task.predictions[node], training.cells)
    weighted_costs = graph.step_costs(node, task.means)[:, None] * task.tradeoffs
    targets = graph.list_actions(node)
    forbidden = exceeds_limits(graph.mark_paid(targets).astype(np.float64) @ task.means, task.caps)
    forbidden |= exceeds_limits(task.set_times[targets], task.deadlines)
    node_training = NodeTraining(features, weights, training.folds, weighted_costs, task.rows[node], forbidden)
    if training.quality is not None:
        acquired, further = graph.members[node], graph.members[graph.list_actions(node)]
        ahead = known_advantages(task.predictions[node], acquired, further, training.reject_quality)
        can_stop = node > 0 or not training.has_to_acquire
        node_training = replace(node_training, can_stop=can_stop, known_advantages=ahead)
    return partial(fit_node_policy, node_training, _forest_growth(task), task.seeds[node])


def _forest_growth(task: PolicyTask) -> BoostingParams:
    """Return boosting parameters for advantages that keep the plan small."""
    of_a_leaf = len(task.graph.targets) * task.training.members * len(task.tradeoffs)
    depth, numbers = min(task.options.depth, MAX_TREE_DEPTH), MAX_LEAF_NUMBERS
    if task.curve_slice.stop < len(task.caps):
        classifiers = len(task.graph) * task.training.members * task.training.classes
        others = classifiers * (task.options.trees << task.options.depth)
        numbers = min(MAX_GROWN_NUMBERS, max(MIN_GROWN_NUMBERS, (MAX_PLAN_NUMBERS - others) * 3 // 2))
    trees = max(STAGE_TREES, min(task.options.trees, MAX_TREES, numbers // (of_a_leaf << depth)))
    return BoostingParams(trees, depth, 1 - (1 - LEARNED_SHARE) ** (1 / trees), RIDGE)


def validate_policies(
    graph: Graph, chosen: Sequence[Int16s], losses: StoppingLosses, costs: Floats
) -> tuple[Floats, Floats, Floats, Floats, Sequence[PassedCounts]]:
    """Roll out every row under every trade-off.

    Args:
        chosen: (n, L) actions of each node.
        losses: losses of stopping.
        costs: (n, M + G).
    Returns:
        Losses, costs, numbers of sensors, and whether rows get an answer, (L, n) each, and the counts of rows per edge
            and node, (L,).
    """
    rows, at_points, passed, paid = np.arange(losses.observed.shape[1]), [], [], graph.mark_paid(slice(None))
    for at in range(chosen[0].shape[1]):
        walks = simulate_policy(graph, len(rows), partial(_chosen_actions, chosen, at))
        ends = walks.ends
        figures = ((paid[ends] * costs).sum(axis=1), graph.members[ends].sum(axis=1), ~losses.rejected[ends, rows])
        at_points.append((losses.observed[ends, rows], *figures))
        passed.append(PassedCounts.from_walks(graph, walks, losses.observed))
    errors, spent, acquired, answered = (np.array(each, dtype=np.float64) for each in zip(*at_points, strict=True))
    return errors, spent, acquired, answered, passed


def _chosen_actions(chosen: Sequence[Int16s], at: int, node: int, rows: Int64s) -> Int16s:
    return np.asarray(chosen[node][rows, at])
