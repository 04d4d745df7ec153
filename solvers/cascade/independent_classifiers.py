"""Independent IDK classifiers: Algorithm 1, and Algorithm 4 for all deadlines at once.

By Lemma 2, an optimal cascade is ordered by C / P, with or without a deadline, and has no classifier whose C / P
exceeds the deterministic classifier's time C_n.

``order_independent`` is Algorithm 1 in O(n log n) time. ``build_independent_frontier`` evaluates recurrence (13) over
labels: non-dominated pairs of maximum and expected duration. The paper uses integer times up to a deadline. Here, times
may be real numbers, and one pass solves every deadline. It takes O(l log l) time for l labels of about 24 bytes. l is
at most the number of distinct sums. With more than 2 million labels, fronts are thinned, and the result has a lower
bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.cascade.groups.pareto import find_undominated, subsample_front
from solvers.cascade.problem import DEADLINE_TOLERANCE, MAX_LABELS, CascadeFront, CascadeProblem


def sort_by_ratio(problem: CascadeProblem) -> list[int]:
    """Return the classifiers with C / P below C_n, sorted by C / P; ties keep the problem's order.

    A classifier with a ratio equal to C_n saves nothing and would increase the maximum duration.
    """
    ratios = problem.times / problem.powers
    order = np.argsort(ratios, kind="stable")
    return [int(k) for k in order if ratios[k] < problem.last.execution_time]


def order_independent(problem: CascadeProblem) -> CascadeFront:
    """Order independent classifiers without a deadline (Algorithm 1)."""
    return CascadeFront(iter([tuple(sort_by_ratio(problem))]))


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """E(k, ·): labels by increasing maximum.

    ``behind`` is the index of the label in the next stage. ``used`` is whether K_k is called.
    """

    member: int
    maxima: Floats
    expected: Floats
    behind: Int64s
    used: Int64s


def build_independent_frontier(
    problem: CascadeProblem, deadline: float | None = None, max_labels: int = MAX_LABELS
) -> CascadeFront:
    """Order independent classifiers for every deadline up to ``deadline`` (Equations 12 and 13)."""
    order = sort_by_ratio(problem)
    none = np.zeros(1, dtype=np.int64)
    stage = _Stage(-1, np.array([problem.last.worst_case]), np.array([problem.last.execution_time]), none, none)
    stages, max_loss, remaining_labels = [stage], 0.0, max_labels
    limit = np.inf if deadline is None else deadline * (1 + DEADLINE_TOLERANCE)
    for todo, k in zip(range(len(order), 0, -1), reversed(order), strict=True):
        stage, width = _extend_stage(problem, stage, k, limit, max(remaining_labels // todo, 1))
        stages.append(stage)
        max_loss += width
        remaining_labels -= len(stage.maxima)
    return CascadeFront(_yield_cascades(stages), float(stage.expected[-1]) - max_loss if max_loss else None)


def _extend_stage(problem: CascadeProblem, rest: _Stage, k: int, limit: float, max_labels: int) -> tuple[_Stage, float]:
    """Return E(k, ·) from E(k + 1, ·), by skipping K_k or calling it first."""
    maxima = np.concatenate((rest.maxima, rest.maxima + problem.worst[k]))
    expected = np.concatenate((rest.expected, problem.times[k] + problem.idk_shares[k] * rest.expected))
    keep = find_undominated(maxima, expected)
    keep = keep[maxima[keep] <= limit]
    thin, width = subsample_front(expected[keep], max_labels)
    keep = keep[thin]
    n = len(rest.maxima)
    return _Stage(k, maxima[keep], expected[keep], keep % n, keep // n), width


def _yield_cascades(stages: list[_Stage]) -> Iterator[tuple[int, ...]]:
    for label in range(len(stages[-1].maxima) - 1, -1, -1):
        members, at = [], label
        for stage in reversed(stages):
            if stage.used[at]:
                members.append(stage.member)
            at = int(stage.behind[at])
        yield tuple(members)
