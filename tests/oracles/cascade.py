"""Answers that are slow and plainly right, to hold the solvers against on small inputs."""

import math
from collections.abc import Hashable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cascade import Classifier


class Cascade(NamedTuple):
    """A cascade with its durations."""

    expected: float
    maximum: float
    names: tuple[str, ...]


def algorithm_3(classifiers: Sequence[Classifier], deadline: float | None = None) -> Cascade | None:
    """Algorithm 3 of the cascade paper: every subset B of the classifiers with the deterministic one, each ordered by
    computeLength. With a deadline, subsets whose times exceed it are passed over (Section 6.3). None if none is left.

    The deterministic classifier is the only one of probability 1; a classifier without a group is a group of its own.
    """
    ordered = sorted(classifiers, key=lambda k: k.success_probability)
    last = ordered[-1]
    best: Cascade | None = None
    for included in product((False, True), repeat=len(ordered) - 1):
        subset = [k for k, used in zip(ordered, (*included, True), strict=True) if used]
        if deadline is not None and math.fsum(k.worst_case for k in subset) > deadline:
            continue
        expected, order = _compute_length(subset, last)
        if best is None or expected < best.expected:
            best = Cascade(expected, math.fsum(k.worst_case for k in order), tuple(k.name for k in order))
    return best


def _compute_length(subset: Sequence[Classifier], last: Classifier) -> tuple[float, list[Classifier]]:
    """Order a subset, sorted by probability: among the first unused member of each group, and the deterministic
    classifier, always take the one with the least ratio of time to conditional probability."""
    unused = list(subset)
    power: dict[Hashable, float] = {}
    order: list[Classifier] = []
    expected, reached = 0.0, 1.0
    while True:
        candidates: dict[Hashable, Classifier] = {}
        for k in unused:
            candidates.setdefault(_group(k), k)
        chosen, chosen_ratio, chosen_p = last, math.inf, 1.0
        for group, k in candidates.items():
            done = power.get(group, 0.0)
            p = (k.success_probability - done) / (1 - done)
            ratio = k.execution_time / p if p > 0 else math.inf
            if ratio < chosen_ratio:
                chosen, chosen_ratio, chosen_p = k, ratio, p
        expected += reached * chosen.execution_time
        order.append(chosen)
        if chosen is last:
            return expected, order
        reached *= 1 - chosen_p
        power[_group(chosen)] = chosen.success_probability
        unused.remove(chosen)


def _group(k: Classifier) -> Hashable:
    return k.name if k.group is None else ("group", k.group)


def best_permutation(
    classifiers: Sequence[Classifier], dependence: str, deadline: float | None = None
) -> Cascade | None:
    """Try every sequence of classifiers up to its first deterministic one; None if none keeps the deadline.

    Probabilities are multiplied up from the conditional ones of Definitions 1 and 2. Among equal expected durations
    (to 12 digits) the smaller maximum wins.
    """
    groups = [{"independent": k.name, "dependent": "all", "grouped": _group(k)}[dependence] for k in classifiers]
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    members = [
        (number[group], k.execution_time, k.worst_case, k.success_probability)
        for group, k in zip(groups, classifiers, strict=True)
    ]
    power = [0.0] * len(number)
    permutations: list[tuple[float, tuple[int, ...]]] = []

    def call(sequence: tuple[int, ...], reached: float, expected: float, maximum: float) -> None:
        for k, (group, time, worst, p) in enumerate(members):
            if k in sequence or (deadline is not None and maximum + worst > deadline * (1 + 1e-9)):
                continue
            if p == 1.0:
                permutations.append((expected + reached * time, (*sequence, k)))
                continue
            done = power[group]
            power[group] = max(done, p)
            call(
                (*sequence, k),
                reached * (1 - max(p - done, 0.0) / (1 - done)),
                expected + reached * time,
                maximum + worst,
            )
            power[group] = done

    call((), 1.0, 0.0, 0.0)
    return _best(permutations, classifiers, deadline)


def best_by_replay(
    answers: NDArray[np.bool_], classifiers: Sequence[Classifier], deadline: float | None = None
) -> Cascade | None:
    """Try every sequence on every row of a trace. answers: (N, n), a column for each classifier but the last one, which
    is deterministic. None if no sequence keeps the deadline."""
    n = answers.shape[1]
    cascades: list[tuple[float, tuple[int, ...]]] = []

    def call(sequence: tuple[int, ...], waiting: NDArray[np.bool_], spent: float) -> None:
        share = float(waiting.mean())
        cascades.append((spent + share * classifiers[n].execution_time, (*sequence, n)))
        for j in range(n):
            if j not in sequence:
                call((*sequence, j), waiting & ~answers[:, j], spent + share * classifiers[j].execution_time)

    call((), np.ones(len(answers), dtype=bool), 0.0)
    return _best(cascades, classifiers, deadline)


def _best(
    candidates: Sequence[tuple[float, tuple[int, ...]]], classifiers: Sequence[Classifier], deadline: float | None
) -> Cascade | None:
    worst = [k.worst_case for k in classifiers]
    names = [k.name for k in classifiers]
    least, best = math.inf, None
    for expected, order in sorted(candidates):
        if expected > least * (1 + 1e-12):
            break
        maximum = math.fsum(worst[k] for k in order)
        if deadline is None or maximum <= deadline:
            least = min(least, expected)
            cascade = Cascade(expected, maximum, tuple(names[k] for k in order))
            best = cascade if best is None else min(best, cascade, key=lambda c: (c.maximum, len(c.names), c.names))
    return best


def grid_independent(classifiers: Sequence[Classifier], deadlines: int) -> list[list[float]]:
    """E(k, d) of Equations 12 and 13 for d = 0 … deadlines; classifiers in order of C / P, the deterministic one last.

    Times are whole numbers. Returns one row for each k, from 1 to n.
    """
    last = classifiers[-1]
    rows = [[math.inf if d < last.execution_time else last.execution_time for d in range(deadlines + 1)]]
    for k in reversed(classifiers[:-1]):
        rows.insert(0, [_e(k, rows[0], d) for d in range(deadlines + 1)])
    return rows


def _e(k: Classifier, rest: Sequence[float], d: int) -> float:
    time = int(k.execution_time)
    return rest[d] if d < time else min(rest[d], time + (1 - k.success_probability) * rest[d - time])


def grid_dependent(classifiers: Sequence[Classifier], deadlines: int) -> list[list[float]]:
    """F(k, d) of Equations 14 and 15 for d = 0 … deadlines; classifiers by increasing P, the deterministic one last."""
    rows: list[list[float]] = []
    for k in classifiers:
        rows.append([_f(k, classifiers, rows, d) for d in range(deadlines + 1)])
    return rows


def _f(k: Classifier, classifiers: Sequence[Classifier], rows: Sequence[Sequence[float]], d: int) -> float:
    time = int(k.execution_time)
    if d < time:
        return math.inf
    after = [row[d - time] + (1 - classifiers[i].success_probability) * time for i, row in enumerate(rows)]
    return min([float(time), *after])
