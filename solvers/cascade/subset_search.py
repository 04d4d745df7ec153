"""Arbitrary dependence, counted in a trace: exact dynamic program over sets of IDK classifiers.

left(S) is the number of items for which every member of S returns IDK. It is computed for all 2^n sets at once: items
are binned by the set of classifiers that return IDK, and the bins are summed over supersets. Then, over N items,

    V(∅) = 0,    V(S) = min over k in S of V(S without k) + C_k · left(S without k) / N

is the least expected duration of calling exactly S. The complete cascade takes V(S) + C_n · left(S) / N. The worst-case
time depends only on the set, so one pass solves all deadlines. Lemma 1 and Definition 2 of the paper are special cases
of left(S).

A classifier that shares set-up work with the last one, or with a member of S, costs less than alone. That depends only
on sets, too, so the recurrence holds with costs that depend on S. Assumed dependence takes left(S) from Equation 10.

Complexity: O(N n + n 2^n) time; about 70 bytes per set, 67 MiB for n = 20, the maximum.
"""

from collections.abc import Iterator

import numpy as np

from models.arrays import Bools, Floats, Int8s, Int64s
from solvers.cascade.groups.pareto import find_undominated
from solvers.cascade.problem import CascadeFront, CascadeProblem

MAX_CLASSIFIERS = 20
"""Maximum number of IDK classifiers of the dynamic program."""


def count_unclassified(answers: Bools) -> Int64s:
    """Return, for each set of classifiers, the number of items that all of them leave unclassified.

    Args:
        answers: (N, n), True where a classifier answers.
    Returns:
        (2^n,); bit j of an index is classifier j.
    Complexity: O(N n + n 2^n) time, O(N + 2^n) memory.

    >>> count_unclassified(np.array([[True, False], [False, False], [False, True]])).tolist()
    [3, 2, 2, 1]
    """
    n = answers.shape[1]
    idk = np.zeros(len(answers), dtype=np.int64)
    for j in range(n):
        idk |= np.where(answers[:, j], 0, np.int64(1) << j)
    counts = np.bincount(idk, minlength=1 << n)
    for j in range(n):
        halves = counts.reshape(-1, 2, 1 << j)
        halves[:, 0] += halves[:, 1]
    return counts


def solve_set_states(problem: CascadeProblem) -> CascadeFront:
    """Find the optimal order for every deadline, exactly, from the items that each set leaves unclassified."""
    n, counts = len(problem.idk), problem.counts
    if not len(problem.setup) if counts is None else len(counts) != 1 << n:
        raise ValueError("set-states requires the number of unclassified items of every set of classifiers")
    reached = _list_reached_shares(problem)
    sets = np.arange(1 << n)
    value, last = _solve_values(n, reached, problem)
    maximum = np.full(1, problem.last.worst_case)
    for worst in problem.worst:
        maximum = np.concatenate((maximum, maximum + worst))
    if len(problem.setup):
        maximum = maximum - problem.setup.sum_saved_worst(mark_members(sets | 1 << n, n + 1))
    ending = problem.last.execution_time - _compute_saved_costs(problem, n, sets)
    return CascadeFront(_yield_cascades(find_undominated(maximum, value + ending * reached), last))


def mark_members(sets: Int64s, n: int) -> Bools:
    """Return which sets, (S,), contain which of n members: (S, n)."""
    return np.asarray((sets[:, None] >> np.arange(n)) & 1 == 1)


def _list_reached_shares(problem: CascadeProblem) -> Floats:
    """Return the share of items that each set of classifiers leaves unclassified, (2^n,)."""
    n, counts = len(problem.idk), problem.counts
    if counts is not None:
        return np.asarray(counts / counts[0])
    reached = np.ones(1 << n)
    holds = mark_members(np.arange(1 << n), n)
    for group in np.unique(problem.groups):
        reached *= np.where(holds[:, problem.groups == group], problem.idk_shares[problem.groups == group], 1.0).min(1)
    return reached


def _compute_saved_costs(problem: CascadeProblem, k: int, sets: Int64s) -> Floats | float:
    """Return the cost that a call of a classifier saves after each set, because it shares set-up work with the set."""
    saved: Floats | float = 0.0
    for mask, cost in zip(problem.setup.groups.masks, problem.setup.costs.tolist(), strict=True):
        if mask >> k & 1:
            saved = saved + cost * ((sets & mask) != 0)
    return saved


def _yield_cascades(sets: Int64s, last: Int8s) -> Iterator[tuple[int, ...]]:
    """Yield cascades, each in calling order, from the least expected duration to the least maximum."""
    for chosen in reversed(sets.tolist()):
        members, rest = [], chosen
        while rest:
            members.append(int(last[rest]))
            rest ^= 1 << members[-1]
        yield tuple(reversed(members))


def _solve_values(n: int, reached: Floats, problem: CascadeProblem) -> tuple[Floats, Int8s]:
    """Return V of every set, by increasing size, and the member called last."""
    value = np.full(1 << n, np.inf)
    value[0] = 0.0
    last = np.zeros(1 << n, dtype=np.int8)
    for sets in group_by_size(n)[1:]:
        for k in range(n):
            having = sets[(sets >> k) & 1 == 1]
            without = having ^ (1 << k)
            time = problem.times[k] - _compute_saved_costs(problem, k, without)
            called = value[without] + time * reached[without]
            better = called < value[having]
            value[having[better]] = called[better]
            last[having[better]] = k
    return value, last


def group_by_size(n: int) -> list[Int64s]:
    """Return the sets of n members grouped by size, the empty set first."""
    size = np.zeros(1, dtype=np.int8)
    for _ in range(n):
        size = np.concatenate((size, size + 1)).astype(np.int8)
    order = np.argsort(size, kind="stable")
    return np.split(order, np.cumsum(np.bincount(size))[:-1])
