"""Fully dependent IDK classifiers: Algorithm 2, and Algorithm 5 for all deadlines at once.

If a classifier leaves an item unclassified, every less powerful classifier does, too (Definition 2). So P increases
along an optimal cascade. If K_h is called directly before K_i, an item reaches K_i with probability 1 - P_h.

``order_dependent`` evaluates Equation 6 in O(n^2) time and O(n) memory. ``build_dependent_frontier`` evaluates Equation
15 over
labels: non-dominated pairs of maximum and expected duration. One pass solves every deadline, and times may be real
numbers. It takes O(n l log l) time for l labels of 24 bytes. With more than 2 million labels, fronts are thinned, and
the result has a lower bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.cascade.groups.pareto import find_undominated, subsample_front
from solvers.cascade.problem import DEADLINE_TOLERANCE, MAX_LABELS, TIE_TOLERANCE, CascadeFront, CascadeProblem


def order_dependent(problem: CascadeProblem) -> CascadeFront:
    """Order fully dependent classifiers without a deadline (Algorithm 2); ties go to the smaller maximum duration."""
    n = len(problem.idk)
    times = [*problem.times.tolist(), problem.last.execution_time]
    worst = [*problem.worst.tolist(), problem.last.worst_case]
    powers = [*problem.powers.tolist(), 1.0]
    least: list[tuple[float, float]] = []
    before: list[int] = []
    for i in range(n + 1):
        value, longest, behind = times[i], worst[i], -1
        for h in range(i):
            if powers[h] < powers[i]:
                expected, maximum = least[h][0] + (1.0 - powers[h]) * times[i], least[h][1] + worst[i]
                better = expected < value * (1 - TIE_TOLERANCE)
                if better or (expected <= value * (1 + TIE_TOLERANCE) and maximum < longest):
                    value, longest, behind = expected, maximum, h
        least.append((value, longest))
        before.append(behind)
    return CascadeFront(iter([_trace_back(before, n)]))


def _trace_back(before: list[int], end: int) -> tuple[int, ...]:
    members = []
    while before[end] >= 0:
        end = before[end]
        members.append(end)
    return tuple(reversed(members))


@dataclass(frozen=True, slots=True, eq=False)
class _EndingLabels:
    """F(k, ·): labels of cascades that end with K_k, by increasing maximum.

    Each label refers to the preceding K_h and its label.
    """

    maxima: Floats
    expected: Floats
    before: Int64s
    label: Int64s


def build_dependent_frontier(
    problem: CascadeProblem, deadline: float | None = None, max_labels: int = MAX_LABELS
) -> CascadeFront:
    """Order fully dependent classifiers for every deadline up to ``deadline`` (Equations 14 and 15)."""
    n = len(problem.idk)
    times = np.append(problem.times, problem.last.execution_time)
    worst = np.append(problem.worst, problem.last.worst_case)
    powers = np.append(problem.powers, 1.0)
    limit = np.inf if deadline is None else deadline * (1 + DEADLINE_TOLERANCE)
    endings: list[_EndingLabels] = []
    max_loss, remaining_labels = 0.0, max_labels
    for k in range(n + 1):
        spare = limit - (0.0 if k == n else problem.last.worst_case)
        ending = _extend_endings(endings, k, times[k], worst[k], powers, spare)
        thin, width = subsample_front(ending.expected, max(remaining_labels // (n + 1 - k), 1))
        endings.append(
            _EndingLabels(ending.maxima[thin], ending.expected[thin], ending.before[thin], ending.label[thin])
        )
        max_loss += width
        remaining_labels -= len(thin)
    least = float(endings[n].expected[-1]) - max_loss if max_loss else None
    return CascadeFront(_yield_cascades(endings), least)


def _extend_endings(
    endings: list[_EndingLabels], k: int, time: float, worst: float, powers: Floats, limit: float
) -> _EndingLabels:
    """Return F(k, ·) from F(h, ·) of all h of smaller power.

    K_k is called alone, or after a cascade that ends with K_h.
    """
    useful = [h for h in range(k) if powers[h] < powers[k]]
    sizes = [len(endings[h].maxima) for h in useful]
    maxima = np.concatenate([[worst], *(endings[h].maxima + worst for h in useful)])
    expected = np.concatenate([[time], *(endings[h].expected + (1.0 - powers[h]) * time for h in useful)])
    before = np.concatenate([[-1], np.repeat(np.array(useful, dtype=np.int64), sizes)]).astype(np.int64)
    label = np.concatenate([[0], *(np.arange(size) for size in sizes)]).astype(np.int64)
    keep = find_undominated(maxima, expected)
    keep = keep[maxima[keep] <= limit]
    return _EndingLabels(maxima[keep], expected[keep], before[keep], label[keep])


def _yield_cascades(endings: list[_EndingLabels]) -> Iterator[tuple[int, ...]]:
    last = len(endings) - 1
    for label in range(len(endings[last].maxima) - 1, -1, -1):
        members, k, at = [], last, label
        while endings[k].before[at] >= 0:
            k, at = int(endings[k].before[at]), int(endings[k].label[at])
            members.append(k)
        yield tuple(reversed(members))
