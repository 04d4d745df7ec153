"""States of a policy with their classifiers: sets of sensors, enumerated or grown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from models import FeatureTable
from models.arrays import Bools, Floats
from models.policy import PolicyOptions
from solvers.base import Progress
from solvers.policy.classifier_training import TrainingRows, train_classifiers
from solvers.policy.graph import Graph
from solvers.policy.growth import grow_graph
from solvers.policy.sensor_prices import SensorPrices
from solvers.trees.oblivious_trees import STAGE_TREES, Forest

MAX_AUTO_SUBSETS = 6
"""Maximum number of fetches for which ``auto`` uses all subsets; with more, the DAG is grown."""
TYPICAL_NODES, MAX_LEAVES, MAX_LEAVES_MANY_CLASSES = 60, 2_000_000, 6_000_000
"""Typical number of grown nodes; limits on leaves of their classifiers, 4 MB, or 12 MB where these allow fewer than
``SUFFICIENT_TREES`` trees.
"""
MIN_TREES, SUFFICIENT_TREES = 12, 48
DEFAULT_TREES, RATE_BOOST = 80, 1.3
"""With many classes there are fewer trees than requested; the rate is then raised so that they learn this much farther
than the default number.

With 16 instead of 80 trees, accuracy on 26 letters and 16 features was 78 % at the original rate, and 79 to 80 % at the
raised rate; with 48 trees 83 to 84 %, equal to 80 trees. On simulated tables of 10 and 30 classes 48 trees equal 80,
too.
"""
MAX_ROWS = 40_000
"""Maximum number of rows for growth; larger tables are sampled."""
MAX_QUICK_ROWS = 20_000
"""Number of rows above which trees dominate the time of a fit."""


@dataclass(frozen=True, slots=True, eq=False)
class PolicyStates:
    """Nodes (sets of acquired sensors) with their classifiers.

    Attributes:
        graph: the DAG.
        members: members of each node's classifier.
        posteriors: out-of-fold posteriors (n, C) of each node.
        rows: for each node, the rows to which its policy is fitted, (n,).
    """

    graph: Graph
    members: list[list[Forest]]
    posteriors: Sequence[Floats]
    rows: Sequence[Bools]


def should_grow(options: PolicyOptions, fetches: int) -> bool:
    """Return whether states are grown rather than enumerated."""
    return fetches > MAX_AUTO_SUBSETS if options.graph == "auto" else options.graph == "grown"


def sample_rows(table: FeatureTable, rng: np.random.Generator) -> FeatureTable:
    """Sample ``MAX_ROWS`` rows of a larger table, in their original order."""
    if table.rows <= MAX_ROWS:
        return table
    rows = np.sort(rng.choice(table.rows, MAX_ROWS, replace=False))
    return table.take(rows)


def grow_states(
    training: TrainingRows,
    options: PolicyOptions,
    prices: SensorPrices,
    rng: np.random.Generator,
    progress: Progress,
) -> PolicyStates:
    """Grow the DAG; its classifiers are small enough for the archive."""
    trees = count_trees(options, training.classes, training.members, len(training.labels))
    if trees < options.trees:
        training = replace(training, rate=scale_learning_rate(training.rate, min(options.trees, DEFAULT_TREES) / trees))
    with threadpool_limits(1, user_api="blas"):
        grown = grow_graph(
            training,
            options.model_copy(update={"trees": trees}),
            prices,
            rng,
            lambda layers, of, nodes: progress(layers, of, f"grew {nodes} nodes"),
        )
    return PolicyStates(grown.graph, grown.members, grown.posteriors, grown.rows)


def count_trees(options: PolicyOptions, classes: int, members: int, rows: int) -> int:
    """Return the number of trees of a grown graph's classifiers.

    It is limited by size and, with many rows, by training time.

    >>> [count_trees(PolicyOptions(), classes, 5, 1_000) for classes in (2, 8, 26, 200)]
    [80, 52, 48, 12]
    >>> count_trees(PolicyOptions(), 26, 5, 40_000)
    16
    """
    of_a_tree = TYPICAL_NODES * members * (1 << options.depth) * classes
    most, many = (leaves // of_a_tree // STAGE_TREES * STAGE_TREES for leaves in (MAX_LEAVES, MAX_LEAVES_MANY_CLASSES))
    enough = min(many, SUFFICIENT_TREES) if rows <= MAX_QUICK_ROWS else MIN_TREES
    return min(options.trees, max(MIN_TREES, enough, most))


def scale_learning_rate(rate: float, times: float) -> float:
    """Return the learning rate for a forest with ``times`` times fewer trees.

    >>> scale_learning_rate(0.15, 0.5), round(scale_learning_rate(0.15, 80 / 48), 3)
    (0.15, 0.297)
    """
    return max(rate, float(1 - (1 - rate) ** (RATE_BOOST * times)))


def fit_given_graph(
    training: TrainingRows, options: PolicyOptions, graph: Graph, seeds: Sequence[int], progress: Progress
) -> PolicyStates:
    """Fit the classifiers of a given DAG."""

    def report(done: int) -> None:
        progress(done, len(graph), f"fitted {done} of {len(graph)} classifiers")

    known = graph.members & training.sensors.has_columns  # sets with equal readings share a classifier
    place = {key: at for at, key in enumerate(dict.fromkeys(each.tobytes() for each in known))}
    of_nodes = [place[each.tobytes()] for each in known]
    first = [of_nodes.index(at) for at in range(len(place))]
    members, posteriors = train_classifiers(training, known[first], options, [seeds[node] for node in first], report)
    every = np.ones(len(training.labels), dtype=np.bool_)
    return PolicyStates(
        graph, [members[at] for at in of_nodes], [posteriors[at] for at in of_nodes], [every] * len(graph)
    )
