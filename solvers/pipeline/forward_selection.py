"""Chains: features ordered by forward selection and cut into stages (used by ``fewer_features``).

An order is cut into stages in two ways: one feature per stage with the rest in the last stage, or stages of nearly
equal size.
"""

from collections.abc import Callable, Iterator

import numpy as np

from models.arrays import Floats, Int8s, Int64s
from solvers.base import Progress, no_progress
from solvers.pipeline.configurations import make_single_stage
from solvers.pipeline.objectives import ConfigurationScores
from solvers.setup_groups import NO_GROUPS, SetupGroups


def split_into_stages(order: Int64s, max_stages: int) -> Iterator[Int8s]:
    """Yield chromosomes, (n,), for each number of stages, the most stages first.

    An order is cut in both ways: one feature per stage, and evenly.
    """
    for stages in range(min(max_stages, len(order)), 0, -1):
        yield from (_cut_singly(order, stages), _cut_evenly(order, stages))


def order_by_forward_selection(
    evaluate: Callable[[Int8s], ConfigurationScores],
    costs: Floats,
    progress: Progress = no_progress,
    *,
    for_its_cost: bool = True,
    start: float = 0.0,
    groups: SetupGroups = NO_GROUPS,
) -> Int64s:
    """Order features by forward selection.

    Free features come first. With ``for_its_cost``, the next feature is the one with the most additional correct rows
    per cost; otherwise, the one with the most additional correct rows. With losses, qualities count. Ties go to the
    cheaper feature, then to the first.

    Args:
        costs: (n + G,), of features, then of set-up groups.
        start: correct rows, or sum of qualities, without features.
        groups: set-up groups; a feature also costs the groups that it is the first to need.
    """
    n = len(costs) - len(groups)
    order: list[int] = []
    right = start
    while len(order) < n:
        progress(len(order), n, "forward selection of features")
        remaining = np.setdiff1d(np.arange(n), order)
        prices = groups.step_costs(costs, np.isin(np.arange(n), order))[remaining]
        scores = evaluate(np.stack([make_single_stage([*order, f], n) for f in remaining]))
        paid = for_its_cost & (prices > 0)
        gains = (scores.right - right) / np.where(paid, prices, 1.0)
        best = int(np.lexsort((remaining, prices, -gains, paid))[0])
        order.append(int(remaining[best]))
        right = float(scores.right[best])
    return np.array(order, dtype=np.int64)


def _cut_singly(order: Int64s, stages: int) -> Int8s:
    """Cut an order into single features, with the rest in the last stage.

    >>> _cut_singly(np.array([2, 0, 1, 3]), 3).tolist()
    [1, 2, 0, 2]
    """
    genes = np.empty(len(order), dtype=np.int8)
    genes[order] = np.minimum(np.arange(len(order)), stages - 1)
    return genes


def _cut_evenly(order: Int64s, stages: int) -> Int8s:
    """Cut an order into stages of nearly equal size.

    >>> _cut_evenly(np.array([2, 0, 1, 3]), 2).tolist()
    [0, 1, 0, 1]
    """
    genes = np.empty(len(order), dtype=np.int8)
    genes[order] = np.arange(len(order)) * stages // len(order)
    return genes
