"""Classifiers whose answers have no classes in common: which of those that were bought is to answer, and how well.

Texts cannot be combined into the answer of a set, so a policy for them returns one of those that it bought. What is
learned at a set is therefore how good each classifier's answer is, bought or not, given what is known: the mean of its
quality, by trees that lower squared errors. Stopping is worth the best of that among what was
bought, and nothing where nothing was: so something always is. What acquiring more is worth is known in part without
learning it, for what is expected of its answer is; what it will tell beside is learned.
"""

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np

from models import DatasetFacts, Fault, FeatureTable, InvalidRequest, Trace, TraceSpec
from models.arrays import Bools, Floats, Int32s, Int64s
from models.policy import PolicyOptions
from solvers.budget_mixture import lower_hull
from solvers.policy.graph import Graph
from solvers.policy.losses import StoppingLosses
from solvers.policy.sensor_times import group_by_fetch

MAX_SETS, MAX_STATES = 64, 160
"""Sets of classifiers that tell how sure they are, all or the smaller ones; states, with those that tell nothing."""
MAX_CLASSIFIERS = 10
"""Of more, those that add most to the best of them under some trade-off are acquired."""
SELECTION_TRADEOFFS = 12
"""Trade-offs under which they may add most."""


def answer_quality(dataset: FeatureTable | Trace) -> Floats | None:
    """Give how good the answers of a trace without classes are, (n, M); None for whatever has classes."""
    return dataset.quality if isinstance(dataset, Trace) and not dataset.spec.has_classes else None


def choose_best_acquired(expected: Floats, bought: Bools) -> Int64s:
    """Choose, of bought classifiers, (M,), the one of which most is expected, (n, M): (n,), the first if none was.

    >>> choose_best_acquired(np.array([[0.2, 0.9, 0.8]]), np.array([True, False, True])).tolist()
    [2]
    """
    return np.asarray(np.where(bought, expected, -1.0).argmax(axis=1))


def known_advantages(expected: Floats, bought: Bools, further: Bools) -> Floats:
    """Tell what stopping behind each action would lose more than stopping now, (n, A), never more than 0: what nodes
    know without learning it. What further sensors tell, which makes the answer better still, is left to learn.

    expected: (n, M) how good answers are; bought: (M,); further: (A, M) what is bought then.

    >>> known_advantages(np.array([[0.5, 0.75]]), np.array([True, False]), np.array([[True, True]])).tolist()
    [[-0.25]]
    """
    now = np.where(bought, expected, 0.0).max(axis=1)
    return np.stack([now - np.where(each, expected, 0.0).max(axis=1) for each in further], axis=1)


def list_answer_tradeoffs(spread: Floats, expected: Floats, means: Floats) -> Floats:
    """List the trade-offs to build, rising: some spread evenly, and as many under which rows change classifiers.

    What a dearer one is expected to be better by, for a unit of cost that it costs more, differs from row to row, (n,
    M): these are quantiles of that over rows, for each two neighbours on the hull of classifiers alone, means (M,).
    """
    if spread[-1] <= 0:  # nothing costs anything
        return spread
    hull = lower_hull(means, 1 - expected.mean(axis=0))
    pairs = [(cheap, dear) for cheap, dear in pairwise(hull) if means[dear] > means[cheap]]
    of_each = np.arange(0.5, len(spread)) / len(spread)
    shares = of_each[:: max(len(pairs), 1)]
    rates = [(expected[:, dear] - expected[:, cheap]) / (means[dear] - means[cheap]) for cheap, dear in pairs]
    changing = np.concatenate([spread, *(np.quantile(each, shares) for each in rates)])
    return np.unique(changing[(changing > 0) & (changing <= spread[-1])])


def answer_losses(expected: Sequence[Floats], members: Bools, quality: Floats, smoothing: float) -> StoppingLosses:
    """Tell what stopping at each node costs, 1 less how good the answer is: observed, (S, n), and learned from. Where
    nothing was bought all is lost.

    expected: (n, M) by the classifier of each of S nodes, the last that of all sensors; members: (S, M); quality: (n,
    M) of the answers. A share, the smoothing, of what nodes learn from is what all sensors expect of the answer.
    """
    rows, observed, learned = np.arange(len(quality)), [], []
    for own, bought in zip(expected, members, strict=True):
        answer = choose_best_acquired(own, bought)
        seen, sure = (each[rows, answer] * bought.any() for each in (quality, expected[-1]))
        observed.append(1 - seen)
        learned.append(1 - (1 - smoothing) * seen - smoothing * sure)
    return StoppingLosses(np.array(observed), np.array(learned))


def build_answer_graph(telling: Bools, costs: Floats, quality: Floats, fetches: Int32s) -> Graph:
    """Draw the DAG. telling: (M,) which classifiers tell how sure they are; costs, quality: (n, M); fetches: (M,) what
    brings each.

    A fetch that tells nothing is bought last, and alone: whatever was decided behind it could have been decided before.
    Of the others all sets are states, or those of up to as many as keep states few.
    """
    sensors, chosen = len(telling), set(select_classifiers(costs, quality))
    asked = [each for each in group_by_fetch(fetches) if each & chosen]
    loud, mute = ([each for each in asked if telling[sorted(each)].any() == wanted] for wanted in (True, False))
    sets = [frozenset[int]()]
    for size in range(1, len(loud) + 1):
        larger = sets + [frozenset[int]().union(*each) for each in combinations(loud, size)]
        if len(larger) > MAX_SETS or len(larger) * (1 + len(mute)) > MAX_STATES:
            break
        sets = larger
    nodes = {*sets, *(each | more for each in sets for more in (*mute, *(loud if len(sets) == 1 else ())))}
    nodes.add(frozenset(range(sensors)))
    ordered = sorted(nodes, key=lambda node: (len(node), sorted(node)))
    place = {node: at for at, node in enumerate(ordered)}
    known = set(sets)
    actions = [
        [place[node | more] for more in asked if not more <= node and (node | more) in place] if node in known else []
        for node in ordered
    ]
    members = np.array([[m in node for m in range(sensors)] for node in ordered], dtype=np.bool_)
    offsets = np.cumsum([0, *map(len, actions)]).astype(np.int32)
    return Graph(members, offsets, np.array([t for each in actions for t in sorted(each)], dtype=np.int32))


def select_classifiers(costs: Floats, quality: Floats) -> list[int]:
    """List the classifiers that are ever acquired, rising: all, or, of many, those that add most to the best of what
    was chosen, under one trade-off after the other: O(P M² n)."""
    sensors = quality.shape[1]
    if sensors <= MAX_CLASSIFIERS:
        return list(range(sensors))
    means, chosen = costs.mean(axis=0), list[int]()
    scale = max(float(means.max()), 1e-200)
    weights = np.geomspace(1e-3, 1.0, SELECTION_TRADEOFFS) / scale
    while len(chosen) < MAX_CLASSIFIERS:
        for weight in weights.tolist():
            net = quality - weight * means
            best = net[:, chosen].max(axis=1, initial=-2.0)
            gains = np.maximum(net, best[:, None]).mean(axis=0)
            gains[chosen] = -np.inf
            chosen += [int(gains.argmax())] if len(chosen) < MAX_CLASSIFIERS else []
    return sorted(chosen)


def check_classless_trace(facts: DatasetFacts, spec: TraceSpec, options: PolicyOptions) -> None:
    """Refuse what needs classes, and traces in which nothing tells one item from another."""
    needing = {
        "graph": options.graph == "grown" and 'is "grown"',
    }
    faults = [
        Fault((name,), f"{said}, which needs classes: {_HAS_QUALITY_ONLY}") for name, said in needing.items() if said
    ]
    if faults:
        raise InvalidRequest.at(*faults)
    if not options.embeds and all(classifier.confidence is None for classifier in spec.classifiers):
        asked = "tell no confidence, and no embeddings are asked for: nothing tells one item from another"
        more = 'give "embeddings": true' if facts.embedding_dimensions else "cascades and portfolios need one of these"
        raise InvalidRequest.at(Fault(("dataset", "classifiers"), f"{asked}; {more}"))


_HAS_QUALITY_ONLY = "this trace tells only how good answers were"
