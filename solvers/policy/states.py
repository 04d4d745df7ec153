"""The states of a policy with their classifiers: sets of sensors that are enumerated, or grown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from models import FeatureTable
from models.arrays import Bools, Floats, Int32s
from models.policy import PolicyOptions
from solvers.base import Progress
from solvers.policy.classifier_training import TrainingRows, train_classifiers
from solvers.policy.graph import Graph
from solvers.policy.growth import grow_graph
from solvers.trees.oblivious_trees import STAGE, Forest

MAX_AUTO_SUBSETS = 6
"""Up to so many sensors auto takes every set for a node; beyond, the DAG is grown."""
TYPICAL_NODES, MAX_LEAVES, MAX_LEAVES_MANY_CLASSES = 60, 2_000_000, 6_000_000
"""Nodes that growth usually leaves, and the numbers in the leaves of their classifiers' forests then, 4 MB, or, where
these would be fewer than ``ENOUGH_TREES``, up to 12 MB."""
MIN_TREES, SUFFICIENT_TREES = 12, 48
DEFAULT_TREES, RATE_BOOST = 80, 1.3
"""Where classes are so many that there are fewer trees than asked for, these learn so much faster that they go so many
times as far as the usual number. By 16 of 80 trees 78 letters in 100 were told from all of 16 features, at the rate for
80, and 79 to 80 at one that is raised so; by 48 such 83 to 84, as by 80. On drawn tables of 10 and 30 classes 48 lose
as little as 80."""
MAX_ROWS = 40_000
"""Rows that a policy is grown from: of a larger table they are drawn."""
MAX_QUICK_ROWS = 20_000
"""Rows beyond which trees take most of the time."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyStates:
    """members: of each node's classifier; posteriors: (n, C) of each node, of members that had not seen the row; rows:
    (n,) for each node, those that its policy learns from."""

    graph: Graph
    members: list[list[Forest]]
    posteriors: Sequence[Floats]
    rows: Sequence[Bools]


def should_grow(options: PolicyOptions, fetches: int) -> bool:
    """Tell whether states are to be grown, of so many fetches of sensors."""
    return fetches > MAX_AUTO_SUBSETS if options.graph == "auto" else options.graph == "grown"


def sample_rows(table: FeatureTable, rng: np.random.Generator) -> FeatureTable:
    """Draw the rows of a table that a policy is grown from, if there are more than ``MOST_ROWS``, in their order."""
    if table.rows <= MAX_ROWS:
        return table
    rows = np.sort(rng.choice(table.rows, MAX_ROWS, replace=False))
    return table.take(rows)


def grow_states(
    training: TrainingRows,
    options: PolicyOptions,
    means: Floats,
    times: Floats,
    fetches: Int32s,
    rng: np.random.Generator,
    progress: Progress,
) -> PolicyStates:
    """Grow the DAG, means and times (M,) of sensors, fetches (M,) what brings each, with classifiers that are not too
    large for the archive together."""
    trees = count_trees(options, training.classes, training.members, len(training.labels))
    if trees < options.trees:
        training = replace(training, rate=raise_rate(training.rate, min(options.trees, DEFAULT_TREES) / trees))
    with threadpool_limits(1, user_api="blas"):
        grown = grow_graph(
            training,
            options.model_copy(update={"trees": trees}),
            means,
            times,
            fetches,
            rng,
            lambda layers, of, nodes: progress(layers, of, f"{nodes} nodes are grown"),
        )
    return PolicyStates(grown.graph, grown.members, grown.posteriors, grown.rows)


def count_trees(options: PolicyOptions, classes: int, members: int, rows: int) -> int:
    """Tell how many trees the classifiers of a grown graph have: beyond ``MOST_QUICK`` rows not ``ENOUGH_TREES``.

    >>> [count_trees(PolicyOptions(), classes, 5, 1_000) for classes in (2, 8, 26, 200)]
    [80, 52, 48, 12]
    >>> count_trees(PolicyOptions(), 26, 5, 40_000)
    16
    """
    of_a_tree = TYPICAL_NODES * members * (1 << options.depth) * classes
    most, many = (leaves // of_a_tree // STAGE * STAGE for leaves in (MAX_LEAVES, MAX_LEAVES_MANY_CLASSES))
    enough = min(many, SUFFICIENT_TREES) if rows <= MAX_QUICK_ROWS else MIN_TREES
    return min(options.trees, max(MIN_TREES, enough, most))


def raise_rate(rate: float, times: float) -> float:
    """Raise the rate of trees, of which there are so many times fewer.

    >>> raise_rate(0.15, 0.5), round(raise_rate(0.15, 80 / 48), 3)
    (0.15, 0.297)
    """
    return max(rate, float(1 - (1 - rate) ** (RATE_BOOST * times)))


def fit_enumerated_states(
    training: TrainingRows, options: PolicyOptions, graph: Graph, seeds: Sequence[int], progress: Progress
) -> PolicyStates:
    """Fit the classifiers of a DAG that was drawn beforehand."""

    def report(done: int) -> None:
        progress(done, len(graph), f"{done} of {len(graph)} classifiers are fitted")

    known = graph.members & training.sensors.has_columns  # sets that tell the same share a classifier
    place = {key: at for at, key in enumerate(dict.fromkeys(each.tobytes() for each in known))}
    of_nodes = [place[each.tobytes()] for each in known]
    first = [of_nodes.index(at) for at in range(len(place))]
    members, posteriors = train_classifiers(training, known[first], options, [seeds[node] for node in first], report)
    every = np.ones(len(training.labels), dtype=np.bool_)
    return PolicyStates(
        graph, [members[at] for at in of_nodes], [posteriors[at] for at in of_nodes], [every] * len(graph)
    )
