"""Savings of a policy compared with fixed sets of sensors, two-stage rules, and single classifiers."""

from collections.abc import Iterator, Sequence

import numpy as np

from models import FeatureTable, Trace
from models.arrays import Bools, Floats, Int64s
from models.losses import Losses
from models.savings import Savings
from solvers.policy.graph import Graph
from solvers.savings import BaselineReplays, Replay, SettingReplay, measure_best_savings, split_in_halves
from solvers.trace_baselines import find_current_baseline, replay_trace_baselines
from solvers.two_stage_rules import escalated_mask, tune_two_stages


def measure_policy_savings(
    dataset: FeatureTable | Trace,
    sensors: Sequence[str],
    graph: Graph,
    observed: Floats,
    posteriors: Sequence[Floats],
    costs: Floats,
    points: dict[str, SettingReplay],
    rng: np.random.Generator,
) -> Savings:
    """Select a point and baselines on one half of the rows, and measure savings on the other half.

    Args:
        observed: (S, n), out-of-fold errors of each node's classifier.
        posteriors: S arrays (n, C), out-of-fold.
        costs: (n, M + G), of sensors, then of set-up groups.
        points: replay of each trade-off of the curve, by name.
    """
    items = dataset.item_codes
    parts = split_in_halves(items, rng)
    if isinstance(dataset, Trace) and not dataset.spec.has_classes:
        dataset = dataset.with_reject()
        baselines = replay_trace_baselines(dataset, parts[0])
        alternatives = BaselineReplays.from_replays(
            baselines,
            items,
            find_current_baseline(baselines, dataset, parts[0]),
            dataset.spec.unit,
            dataset.loss_scale,
        )
        return measure_best_savings(points, alternatives, parts, rng)
    alone = {
        _name_set(sensors, graph.members[node]): Replay(
            1 - observed[node], np.asarray((graph.mark_paid(node) * costs).sum(axis=1))
        )
        for node in list_fixed_sets(graph, observed[:, parts[0]].mean(axis=1), costs.mean(axis=0))
    }
    losses = (dataset.losses or Losses.zero_one(posteriors[0].shape[1])).among_true_classes()
    tradeoff = 1 / dataset.loss_scale if dataset.loss_scale else None
    alone |= _replay_two_stages(sensors, graph, observed, _confidences(posteriors, losses), costs, parts[0], tradeoff)
    today = _name_set(sensors, graph.members[int(graph.members.sum(axis=1).argmax())])
    if isinstance(dataset, Trace):
        alone |= replay_trace_baselines(dataset, parts[0])
        today = find_current_baseline(alone, dataset, parts[0])
    return measure_best_savings(
        points, BaselineReplays.from_replays(alone, items, today, dataset.spec.unit, dataset.loss_scale), parts, rng
    )


def _replay_two_stages(
    sensors: Sequence[str],
    graph: Graph,
    observed: Floats,
    confidences: Floats,
    costs: Floats,
    learned: Int64s,
    tradeoff: float | None,
) -> dict[str, Replay]:
    """Replay two-stage rules.

    A rule acquires a fixed set of sensors and, below a confidence threshold, a larger set.
    """
    nodes = list_fixed_sets(graph, observed[:, learned].mean(axis=1), costs.mean(axis=0))
    members = graph.members[nodes]
    paid = np.asarray(costs @ graph.mark_paid(np.array(nodes)).T.astype(np.float64))
    confidence = confidences[:, nodes]
    right = 1 - observed[nodes].T

    def costs_of_both(i: int, j: int) -> Floats | None:
        return paid[learned, j] if not np.any(members[i] & ~members[j]) else None

    replays = {}
    for rule in tune_two_stages(confidence[learned], right[learned], paid[learned], costs_of_both, tradeoff):
        is_escalated = escalated_mask(rule, confidence)
        names = [_name_set(sensors, members[place]) for place in (rule.first, rule.second)]
        replays[f"{names[0]}, then {names[1]} below {rule.threshold:.3g}"] = Replay(
            np.where(is_escalated, right[:, rule.second], right[:, rule.first]),
            np.where(is_escalated, paid[:, rule.second], paid[:, rule.first]),
        )
    return replays


def _confidences(posteriors: Sequence[Floats], losses: Losses) -> Floats:
    """Return 1 minus the expected loss of each node's answer, (n, S).

    If all errors are equal, this is the probability of the answer.
    """
    return np.column_stack([1 - losses.choose(each)[1] for each in posteriors])


def list_fixed_sets(graph: Graph, errors: Floats, costs: Floats) -> list[int]:
    """Return the nodes of fixed-set baselines.

    Sets: none, single sensors, the cheapest sensors, forward selection, and all sensors.

    Args:
        errors: (S,), error rate of each node.
        costs: (M + G,), mean costs.
    """
    nodes = {tuple(members): node for node, members in enumerate(graph.members.astype(bool).tolist())}
    sizes = graph.members.sum(axis=1)
    cheapest = graph.groups.order_by_cost(costs)
    every = np.arange(len(cheapest))
    prefixes = [tuple(np.isin(every, cheapest[:k]).tolist()) for k in range(len(every) + 1)]
    fixed = {nodes[each] for each in prefixes if each in nodes} | set(np.flatnonzero(sizes <= 1).tolist())
    return sorted(fixed | set(_forward_selection(graph, errors)) | {int(np.argmax(sizes))})


def _forward_selection(graph: Graph, errors: Floats) -> Iterator[int]:
    node = 0
    yield node
    while len(further := graph.list_actions(node)):
        node = int(further[np.argmin(errors[further])])
        yield node


def _name_set(sensors: Sequence[str], members: Bools) -> str:
    own = [name for name, member in zip(sensors, members.tolist(), strict=True) if member]
    return f"one classifier on {' + '.join(own)}" if own else "the most common class"
