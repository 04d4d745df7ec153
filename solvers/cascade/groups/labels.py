"""Label-setting search over states of grouped classifiers, for deadlines and for too many states (beam search).

A label is a path to a state, with its worst-case time and expected duration. Labels are processed by level. Each state
keeps its non-dominated labels or, without a deadline, the label of least expected duration. A label is pruned if its
duration plus a lower bound of the remaining duration exceeds the duration of the best known cascade within its
deadline. So no optimal cascade is lost.

A call is tried only if its ratio of time to conditional success probability is at least that of the previous call and
below C_n. Optimal cascades have this property: by Lemma 2 for neighbors of different groups; for neighbors of one
group, because otherwise the first could be removed.

Beam search: with a ``width``, at most ``width`` labels per level are extended, half of them selected by bound and half
by an estimate of the result. The proved lower bound is the smaller one of the best cascade and the least bound of
labels that were not extended.

Complexity: O(l n log(l n)) time for l labels of n members; about 70 bytes per label, and a few times that on the
current level. l is at most 2 million; at most twice as many candidates may be pending.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.cascade.groups.pareto import find_least_by_state, find_undominated, find_undominated_by_state
from solvers.cascade.groups.state_layout import StateLayout
from solvers.cascade.problem import DEADLINE_TOLERANCE, MAX_LABELS, TIE_TOLERANCE, CascadeFront

Estimate = Callable[[Int64s, Floats], Floats]
"""Estimates the expected duration from states, (s, w), given the remaining worst-case time of IDK classifiers, (s,):
(s,).
"""

_SECOND_BOUND_LABELS = 256
"""Minimum number of labels for a second lower bound."""


class TooManyLabels(Exception):
    """An exact search needs more labels than allowed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Labels:
    """Labels in columns: states (l, w), other arrays (l,).

    ``before`` is the previous label. ``member`` is the member called last, -1 if none.
    """

    states: Int64s
    maximum: Floats
    expected: Floats
    left: Floats
    ratio: Floats
    before: Int64s
    member: Int64s

    def __getitem__(self, keep: Int64s | Bools) -> "_Labels":
        return _Labels(*(getattr(self, field.name)[keep] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.maximum)


@dataclass(frozen=True, slots=True)
class SearchTask:
    """Parameters of a search.

    Attributes:
        bounds: functions that bound the remaining expected duration from below, the cheapest to evaluate first.
        guess: estimate of the remaining expected duration, which ranks partial paths (labels) in a beam search.
        deadline: inf for none.
        for_all_deadlines: whether to find the best cascade for every deadline up to ``deadline``.
        width: number of labels kept per level in a beam search; None for all.
        max_labels: maximum number of labels of an exact search.
    """

    layout: StateLayout
    bounds: Sequence[Estimate]
    guess: Estimate
    deadline: float = math.inf
    for_all_deadlines: bool = False
    width: int | None = None
    max_labels: int = MAX_LABELS


class LabelSearch:
    """Label-setting search for the best cascade of a SearchTask, exact or as a beam search.

    A label is a partial cascade with its expected and maximum duration.
    """

    def __init__(self, task: SearchTask) -> None:
        self._task, self._layout = task, task.layout
        self._spare = task.deadline * (1 + DEADLINE_TOLERANCE) - task.layout.problem.last.worst_case
        self._thrifty = task.for_all_deadlines or math.isfinite(task.deadline)
        self._pending: dict[int, list[_Labels]] = {}
        self._count = self._waiting = 0
        self._kept: list[_Labels] = []
        self._cut = np.inf
        self._best = np.empty((2, 0))

    def run(self) -> CascadeFront:
        """Search all levels; raise TooManyLabels if an exact search exceeds its limit."""
        nothing = np.zeros(1, dtype=np.int64)
        start = _Labels(
            np.zeros((1, self._layout.words_per_state), dtype=np.int64),
            np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1), nothing - 1, nothing - 1,
        )  # fmt: skip
        self._pending[0] = [start]
        self._waiting = 1
        for level in range(self._layout.levels + 1):
            waiting = self._pending.pop(level, [])
            if waiting:
                self._process_level(level, _concatenate(waiting))
        return self._front()

    def _process_level(self, level: int, labels: _Labels) -> None:
        """Select the labels of a level, and extend them by every later member."""
        self._waiting -= len(labels)
        choose = find_undominated_by_state if self._thrifty else find_least_by_state
        labels = labels[choose(labels.states, labels.maximum, labels.expected)]
        self._add_finished(labels)
        labels = self._narrow(*self._prune(labels))
        self._kept.append(labels)
        first = self._count
        self._count += len(labels)
        self._extend(level, labels, first)
        most = self._task.max_labels
        if self._task.width is None and (self._count > most or self._waiting > 2 * most):
            raise TooManyLabels

    def _estimate(self, estimate: Estimate, labels: _Labels) -> Floats:
        return labels.expected + labels.left * estimate(labels.states, self._spare - labels.maximum)

    def _prune(self, labels: _Labels) -> tuple[_Labels, Floats]:
        """Drop labels that cannot improve on the best known cascade.

        Return the remaining labels and their bounds.
        """
        lower = labels.expected
        for i, bound in enumerate(self._task.bounds):
            if i == 0 or len(labels) > _SECOND_BOUND_LABELS:
                lower = np.maximum(lower, self._estimate(bound, labels))
                keep = lower <= self._best_within(labels.maximum + self._layout.problem.last.worst_case) * (
                    1 + TIE_TOLERANCE
                )
                labels, lower = labels[keep], lower[keep]
        return labels, lower

    def _narrow(self, labels: _Labels, lower: Floats) -> _Labels:
        width = self._task.width
        if width is None or len(labels) <= width:
            return labels
        ranks = [np.argsort(np.argsort(by, kind="stable")) for by in (lower, self._estimate(self._task.guess, labels))]
        order = np.argsort(np.minimum(*ranks), kind="stable")
        self._cut = min(self._cut, float(lower[order[width:]].min()))
        return labels[np.sort(order[:width])]

    def _add_finished(self, labels: _Labels) -> None:
        last = self._layout.problem.last
        maxima = np.append(self._best[0], labels.maximum + last.worst_case)
        expected = np.append(self._best[1], labels.expected + labels.left * last.execution_time)
        keep = find_undominated(maxima, expected)
        self._best = np.stack((maxima[keep], expected[keep]))

    def _best_within(self, maxima: Floats) -> Floats:
        """Return the least known expected duration within each label's deadline, (l,); inf if there is none.

        If the search is for all deadlines, a label's deadline is its maximum duration. A tolerance covers rounding
        errors.
        """
        allowed = maxima if self._task.for_all_deadlines else np.full(len(maxima), self._task.deadline)
        at = np.searchsorted(self._best[0], allowed * (1 - DEADLINE_TOLERANCE), side="right")
        return np.asarray(np.append(np.inf, self._best[1])[at])

    def _extend(self, level: int, labels: _Labels, first: int) -> None:
        """Extend each label by each later member, and sort the results by level."""
        layout, problem = self._layout, self._layout.problem
        rise, success = layout.list_transitions(layout.decode_states(labels.states))
        ratio = problem.times / np.where(success > 0, success, np.inf)
        wanted = (rise > 0) & (success > 0) & (ratio < problem.last.execution_time)
        wanted &= ratio >= labels.ratio[:, None] * (1 - TIE_TOLERANCE)
        wanted &= labels.maximum[:, None] + problem.worst <= self._spare
        rows, members = np.nonzero(wanted)
        states = labels.states[rows]
        groups = problem.groups[members]
        rises = rise[rows, members]
        states[np.arange(len(rows)), layout.word[groups]] += rises * layout.stride[groups]
        called = _Labels(
            states,
            labels.maximum[rows] + problem.worst[members],
            labels.expected[rows] + labels.left[rows] * problem.times[members],
            labels.left[rows] * (1.0 - success[rows, members]),
            ratio[rows, members],
            first + rows,
            members,
        )
        self._waiting += len(called)
        for rise_of in np.unique(rises):
            self._pending.setdefault(level + int(rise_of), []).append(called[rises == rise_of])

    def _front(self) -> CascadeFront:
        labels = _concatenate(self._kept)
        last = self._layout.problem.last
        maxima = labels.maximum + last.worst_case
        expected = labels.expected + labels.left * last.execution_time
        ends = find_undominated(maxima, expected)
        least = None if self._cut == np.inf else min(self._cut, float(expected[ends[-1]]))
        return CascadeFront(_yield_cascades(labels, ends), least)


def _concatenate(blocks: list[_Labels]) -> _Labels:
    return _Labels(*(np.concatenate([getattr(part, field.name) for part in blocks]) for field in fields(_Labels)))


def _yield_cascades(labels: _Labels, ends: Int64s) -> Iterator[tuple[int, ...]]:
    for end in reversed(ends.tolist()):
        members, at = [], end
        while labels.before[at] >= 0:
            members.append(int(labels.member[at]))
            at = int(labels.before[at])
        yield tuple(reversed(members))
