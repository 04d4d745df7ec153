"""The states of a policy with their classifiers: sets of sensors that are enumerated, or grown."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from models import FeatureTable
from models.arrays import Bools, Floats, Int32s
from models.policy import PolicyOptions
from solvers.base import Progress
from solvers.policy.classifier_training import TrainingRows, train
from solvers.policy.graph import Graph
from solvers.policy.growth import grow
from solvers.trees.oblivious_trees import STAGE, Forest

FEW = 6
"""Up to so many sensors auto takes every set for a node; beyond, the DAG is grown."""
USUAL_NODES, MOST_LEAVES, MANY_LEAVES = 60, 2_000_000, 6_000_000
"""Nodes that growth usually leaves, and the numbers in the leaves of their classifiers' forests then, 4 MB, or, where
these would be fewer than ``ENOUGH_TREES``, up to 12 MB."""
FEWEST_TREES, ENOUGH_TREES = 12, 48
USUAL_TREES, FARTHER = 80, 1.3
"""Where classes are so many that there are fewer trees than asked for, these learn so much faster that they go so many
times as far as the usual number. By 16 of 80 trees 78 letters in 100 were told from all of 16 features, at the rate for
80, and 79 to 80 at one that is raised so; by 48 such 83 to 84, as by 80. On drawn tables of 10 and 30 classes 48 lose
as little as 80."""
MOST_ROWS = 40_000
"""Rows that a policy is grown from: of a larger table they are drawn."""
MOST_QUICK = 20_000
"""Rows beyond which trees take most of the time."""


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """members: of each node's classifier; posteriors: (n, C) of each node, of members that had not seen the row; rows:
    (n,) for each node, those that its policy learns from."""

    graph: Graph
    members: list[list[Forest]]
    posteriors: Sequence[Floats]
    rows: Sequence[Bools]


def grows(options: PolicyOptions, fetches: int) -> bool:
    """Tell whether states are to be grown, of so many fetches of sensors."""
    return fetches > FEW if options.graph == "auto" else options.graph == "grown"


def drawn(table: FeatureTable, rng: np.random.Generator) -> FeatureTable:
    """Draw the rows of a table that a policy is grown from, if there are more than ``MOST_ROWS``, in their order."""
    if table.rows <= MOST_ROWS:
        return table
    rows = np.sort(rng.choice(table.rows, MOST_ROWS, replace=False))
    return table.take(rows)


def grown_states(
    training: TrainingRows,
    options: PolicyOptions,
    means: Floats,
    times: Floats,
    fetches: Int32s,
    rng: np.random.Generator,
    progress: Progress,
) -> States:
    """Grow the DAG, means and times (M,) of sensors, fetches (M,) what brings each, with classifiers that are not too
    large for the archive together."""
    trees = trees_of(options, training.classes, training.members, len(training.labels))
    if trees < options.trees:
        training = replace(training, rate=raised(training.rate, min(options.trees, USUAL_TREES) / trees))
    with threadpool_limits(1, user_api="blas"):
        grown = grow(
            training,
            options.model_copy(update={"trees": trees}),
            means,
            times,
            fetches,
            rng,
            lambda layers, of, nodes: progress(layers, of, f"{nodes} nodes are grown"),
        )
    return States(grown.graph, grown.members, grown.posteriors, grown.rows)


def trees_of(options: PolicyOptions, classes: int, members: int, rows: int) -> int:
    """Tell how many trees the classifiers of a grown graph have: beyond ``MOST_QUICK`` rows not ``ENOUGH_TREES``.

    >>> [trees_of(PolicyOptions(), classes, 5, 1_000) for classes in (2, 8, 26, 200)]
    [80, 52, 48, 12]
    >>> trees_of(PolicyOptions(), 26, 5, 40_000)
    16
    """
    of_a_tree = USUAL_NODES * members * (1 << options.depth) * classes
    most, many = (leaves // of_a_tree // STAGE * STAGE for leaves in (MOST_LEAVES, MANY_LEAVES))
    enough = min(many, ENOUGH_TREES) if rows <= MOST_QUICK else FEWEST_TREES
    return min(options.trees, max(FEWEST_TREES, enough, most))


def raised(rate: float, times: float) -> float:
    """Raise the rate of trees, of which there are so many times fewer.

    >>> raised(0.15, 0.5), round(raised(0.15, 80 / 48), 3)
    (0.15, 0.297)
    """
    return max(rate, float(1 - (1 - rate) ** (FARTHER * times)))


def enumerated_states(
    training: TrainingRows, options: PolicyOptions, graph: Graph, seeds: Sequence[int], progress: Progress
) -> States:
    """Fit the classifiers of a DAG that was drawn beforehand."""

    def tell(done: int) -> None:
        progress(done, len(graph), f"{done} of {len(graph)} classifiers are fitted")

    known = graph.members & training.sensors.telling  # sets that tell the same share a classifier
    place = {key: at for at, key in enumerate(dict.fromkeys(each.tobytes() for each in known))}
    of_nodes = [place[each.tobytes()] for each in known]
    first = [of_nodes.index(at) for at in range(len(place))]
    members, posteriors = train(training, known[first], options, [seeds[node] for node in first], tell)
    every = np.ones(len(training.labels), dtype=np.bool_)
    return States(graph, [members[at] for at in of_nodes], [posteriors[at] for at in of_nodes], [every] * len(graph))
