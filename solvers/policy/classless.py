"""Selection among the answers of classifiers without common classes, such as texts.

Texts cannot be combined, so the policy returns the answer of one acquired classifier. Each node predicts the quality of
every classifier's answer, acquired or not, by trees with squared loss. The reward of stopping is the highest prediction
among acquired classifiers, and 0 if none is acquired. Where items may be rejected, the reject is one more answer: it is
always acquired, and its quality is known. One part of the advantage of an acquisition is known: it follows from the
predicted quality of the answer. The other part, the information in the confidence, is learned.
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
"""Maximum number of sets of classifiers with confidences, and of states, including classifiers without."""
MAX_CLASSIFIERS = 10
"""Of more classifiers, those are acquired that add most to the best of the others under some trade-off."""
SELECTION_TRADEOFFS = 12
"""Number of trade-offs under which classifiers are selected."""


def compute_answer_quality(dataset: FeatureTable | Trace) -> Floats | None:
    """Return the quality of answers of a trace without classes, (n, M); None for other datasets."""
    return dataset.quality if isinstance(dataset, Trace) and not dataset.spec.has_classes else None


def compute_reject_quality(dataset: FeatureTable | Trace) -> float | None:
    """Return the quality of rejecting an item of a trace without classes; None if items are never rejected."""
    if not isinstance(dataset, Trace) or dataset.spec.has_classes or dataset.spec.reject_cost is None:
        return None
    return float(dataset.with_reject().quality[0, -1])  # equal in all rows: without classes, the price is a number


def append_reject(quality: Floats, acquired: Bools, reject_quality: float | None) -> tuple[Floats, Bools]:
    """Append the reject to the classifiers, always acquired; without rejects, return the arguments.

    Args:
        quality: (n, M).
        acquired: (M,) or (A, M).

    >>> append_reject(np.array([[0.2, 0.9]]), np.array([True, False]), 0.5)
    (array([[0.2, 0.9, 0.5]]), array([ True, False,  True]))
    """
    if reject_quality is None:
        return quality, acquired
    last = np.full((len(quality), 1), reject_quality)
    always = np.ones((*acquired.shape[:-1], 1), dtype=np.bool_)
    return np.concatenate((quality, last), axis=1), np.concatenate((acquired, always), axis=-1)


def choose_best_acquired(expected: Floats, acquired: Bools) -> Int64s:
    """Return the acquired classifier with the highest expected quality, (n,); 0 if none is acquired.

    Args:
        expected: (n, M), predicted quality.
        acquired: (M,), acquired classifiers.

    >>> choose_best_acquired(np.array([[0.2, 0.9, 0.8]]), np.array([True, False, True])).tolist()
    [2]
    """
    return np.asarray(np.where(acquired, expected, -1.0).argmax(axis=1))


def known_advantages(expected: Floats, acquired: Bools, further: Bools, reject_quality: float | None) -> Floats:
    """Return the part of advantages that need not be learned, (n, A); at most 0.

    It is the expected loss of stopping after each action, minus the expected loss of stopping now. The effect of
    further readings on the choice must be learned.

    Args:
        expected: (n, M), predicted quality of answers.
        acquired: (M,), acquired classifiers.
        further: (A, M), classifiers acquired after each action.
        reject_quality: None if items are never rejected.

    >>> known_advantages(np.array([[0.5, 0.75]]), np.array([True, False]), np.array([[True, True]]), None).tolist()
    [[-0.25]]
    """

    def find_best_reward(own: Bools) -> Floats:
        return np.asarray(np.maximum(np.where(own, expected, 0.0).max(axis=1), reject_quality or 0.0))

    now = find_best_reward(acquired)
    return np.stack([now - find_best_reward(each) for each in further], axis=1)


def list_answer_tradeoffs(spread: Floats, expected: Floats, means: Floats) -> Floats:
    """Return the trade-offs to learn for, rising.

    Half of them are evenly spaced. The others are trade-offs at which rows change classifiers: quantiles, over rows, of
    the gain in expected quality per unit of extra cost. Gains are those between neighbors on the hull of single
    classifiers.

    Args:
        expected: (n, M), predicted quality.
        means: (M,), mean costs.
    """
    if spread[-1] <= 0:  # all sensors are free
        return spread
    hull = lower_hull(means, 1 - expected.mean(axis=0))
    pairs = [(low, high) for low, high in pairwise(hull) if means[high] > means[low]]
    of_each = np.arange(0.5, len(spread)) / len(spread)
    shares = of_each[:: max(len(pairs), 1)]
    rates = [(expected[:, high] - expected[:, low]) / (means[high] - means[low]) for low, high in pairs]
    changing = np.concatenate([spread, *(np.quantile(each, shares) for each in rates)])
    return np.unique(changing[(changing > 0) & (changing <= spread[-1])])


def compute_answer_losses(
    expected: Sequence[Floats], members: Bools, quality: Floats, smoothing: float, reject_quality: float | None
) -> StoppingLosses:
    """Return the losses of stopping at each node: 1 minus the quality of the selected answer.

    Args:
        expected: S arrays (n, M), predictions of each node; the last node has all sensors.
        members: (S, M), sensors of each node; a node without sensors has loss 1, or that of the reject.
        quality: (n, M), quality of answers.
        smoothing: weight, in the learned loss, of the last node's prediction; the rest is the observed quality.
        reject_quality: None if items are never rejected.
    """
    rows, observed, learned, rejected = np.arange(len(quality)), [], [], []
    every = members[-1]
    final, graded = (append_reject(each, every, reject_quality)[0] for each in (expected[-1], quality))
    for own, acquired in (append_reject(*each, reject_quality) for each in zip(expected, members, strict=True)):
        answer = choose_best_acquired(own, acquired)
        seen, predicted = (each[rows, answer] * acquired.any() for each in (graded, final))
        observed.append(1 - seen)
        learned.append(1 - (1 - smoothing) * seen - smoothing * predicted)
        rejected.append(answer == quality.shape[1])
    return StoppingLosses(np.array(observed), np.array(learned), np.array(rejected))


def build_answer_graph(has_confidence: Bools, costs: Floats, quality: Floats, fetches: Int32s) -> Graph:
    """Build the DAG of acquired sets.

    A fetch is a set of classifiers that one call acquires. A fetch without confidences is acquired last and alone,
    because it does not inform further decisions. Each set of the other fetches is a state. If there are many fetches,
    only sets up to a maximum size are states.

    Args:
        has_confidence: (M,), classifiers that report a confidence.
        costs: (n, M).
        quality: (n, M).
        fetches: (M,), the fetch of each classifier.
    """
    sensors, chosen = len(has_confidence), set(select_classifiers(costs, quality))
    steps = [each for each in group_by_fetch(fetches) if each & chosen]
    informative = [each for each in steps if has_confidence[sorted(each)].any()]
    silent = [each for each in steps if not has_confidence[sorted(each)].any()]
    sets = [frozenset[int]()]
    for size in range(1, len(informative) + 1):
        larger = sets + [frozenset[int]().union(*each) for each in combinations(informative, size)]
        if len(larger) > MAX_SETS or len(larger) * (1 + len(silent)) > MAX_STATES:
            break
        sets = larger
    nodes = {*sets, *(each | more for each in sets for more in (*silent, *(informative if len(sets) == 1 else ())))}
    nodes.add(frozenset(range(sensors)))
    ordered = sorted(nodes, key=lambda node: (len(node), sorted(node)))
    place = {node: at for at, node in enumerate(ordered)}
    known = set(sets)
    actions = [
        [place[node | more] for more in steps if not more <= node and (node | more) in place] if node in known else []
        for node in ordered
    ]
    members = np.array([[m in node for m in range(sensors)] for node in ordered], dtype=np.bool_)
    offsets = np.cumsum([0, *map(len, actions)]).astype(np.int32)
    return Graph(members, offsets, np.array([t for each in actions for t in sorted(each)], dtype=np.int32))


def select_classifiers(costs: Floats, quality: Floats) -> list[int]:
    """Return the classifiers that may be acquired, by rising index.

    At most ``MAX_CLASSIFIERS`` are returned. Of more, a greedy selection adds for each of P trade-offs in turn the
    classifier that improves the best value most.

    Complexity: O(P M^2 n).
    """
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
    """Raise InvalidRequest for options that need classes.

    Also raise it for traces with neither confidences nor embeddings.
    """
    needing = {
        "graph": options.graph == "grown" and 'is "grown"',
    }
    faults = [
        Fault((name,), f"{value}, which needs classes; {_HAS_QUALITY_ONLY}") for name, value in needing.items() if value
    ]
    if faults:
        raise InvalidRequest.from_faults(*faults)
    if not options.embeds and all(classifier.confidence is None for classifier in spec.classifiers):
        reason = "need a confidence, or embeddings must be requested, to distinguish items"
        more = 'give "embeddings": true' if facts.embedding_dimensions else "cascades and portfolios need one, too"
        raise InvalidRequest.from_faults(Fault(("dataset", "classifiers"), f"{reason}; {more}"))


_HAS_QUALITY_ONLY = "this trace has only the quality of answers"
