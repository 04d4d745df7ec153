"""Problem definition of the paper: IDK classifiers, a deterministic classifier, and their dependence.

Every type of dependence is expressed by groups: classifiers of a group are fully dependent (Definition 2), and groups
are independent (Definition 1). *independent* has one group per classifier, *dependent* one group for all. The share of
items that remain unclassified is q = 1 - P after a single classifier. For a group, it is q of the most powerful member
that has run; for a cascade, the product over groups (Equation 10).

The expected duration sums mean execution times; the maximum duration (Section 6) sums worst-case times. The paper
proves its order rules (Lemma 2, increasing P within a group) by exchanging neighbors. An exchange changes only the
expected duration, because a sum of worst-case times does not depend on the order. So the rules also hold with two
different times per classifier.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from models.arrays import Floats, Int64s
from models.cascade import Classifier, SolveDependence
from solvers.shared_setup import NO_SETUP, SharedSetup

TIE_TOLERANCE = 1e-12
"""Relative tolerance within which expected durations are equal."""

DEADLINE_TOLERANCE = 1e-12
"""Relative tolerance of sums in a dynamic program above a deadline; results are checked again without it."""

MAX_LABELS = 2_000_000
"""Maximum number of states, or of labels where a state has a frontier, of an exact algorithm."""


@dataclass(frozen=True, slots=True)
class CascadeSolution:
    """A cascade with its durations; members are indices of IDK classifiers, in calling order."""

    members: tuple[int, ...]
    expected: float
    maximum: float


@dataclass(frozen=True, slots=True, eq=False)
class CascadeProblem:
    """IDK classifiers in a fixed order, and the deterministic classifier that ends every cascade.

    Attributes:
        idk: sorted by probability, time, worst case, and name, so that results do not depend on the input's order.
        times: (n,), mean times C.
        worst: (n,), worst-case times.
        powers: (n,), success probabilities P.
        idk_shares: (n,), shares 1 - P left unclassified.
        groups: (n,), group numbers from 0.
        counts: (2^n,), number of items that each set of classifiers leaves unclassified, if dependence is counted in a
            trace instead of assumed.
        setup: set-up groups of the n IDK classifiers and the deterministic one, with mean costs. Times are those of
            classifiers alone, with their groups.
    """

    idk: tuple[Classifier, ...]
    last: Classifier
    times: Floats
    worst: Floats
    powers: Floats
    idk_shares: Floats
    groups: Int64s
    counts: Int64s | None = None
    setup: SharedSetup = NO_SETUP

    @classmethod
    def from_classifiers(
        cls, idk: Iterable[Classifier], last: Classifier, dependence: SolveDependence
    ) -> "CascadeProblem":
        """Sort the classifiers and number their groups."""
        ordered = sorted(idk, key=lambda k: (k.success_probability, k.execution_time, k.worst_case, k.name))
        number: dict[tuple[str, str], int] = {}
        groups = [number.setdefault(_group_key(k, dependence), len(number)) for k in ordered]
        return cls(
            tuple(ordered),
            last,
            np.array([k.execution_time for k in ordered], dtype=np.float64),
            np.array([k.worst_case for k in ordered], dtype=np.float64),
            np.array([k.success_probability for k in ordered], dtype=np.float64),
            np.array([1.0 - k.success_probability for k in ordered], dtype=np.float64),
            np.array(groups, dtype=np.int64),
        )

    def classifier_names(self, solution: CascadeSolution) -> tuple[str, ...]:
        """Return the classifier names of a cascade, the deterministic one last."""
        return (*(self.idk[k].name for k in solution.members), self.last.name)

    def reaching_probabilities(self, members: Sequence[int]) -> list[float]:
        """Return the probability of reaching each classifier, the deterministic one last.

        Source: Equation 10. With one member per group it equals Lemma 1; with a single group, Equation 6.
        """
        if self.counts is not None:
            return _counted_shares(self.counts, members)
        groups, shares = self.groups.tolist(), self.idk_shares.tolist()
        left: dict[int, float] = {}
        reached = [1.0]
        for k in members:
            group, share = groups[k], shares[k]
            if group in left:
                left[group] = min(left[group], share)
                reached.append(math.prod(left.values()))
            else:
                left[group] = share
                reached.append(reached[-1] * share)
        return reached

    def evaluate(self, members: Iterable[int]) -> CascadeSolution:
        """Compute the expected and the maximum duration of a cascade by definition, with exactly rounded sums."""
        chosen = tuple(members)
        times, worst = self.times.tolist(), self.worst.tolist()
        called = [*(times[k] for k in chosen), self.last.execution_time]
        longest = [*(worst[k] for k in chosen), self.last.worst_case]
        if len(self.setup):
            calls = (*chosen, len(self.idk))
            called = [t - float(self.setup.compute_saved_costs(k, calls[:i])) for i, (k, t) in _pair(calls, called)]
            longest = [t - self.setup.compute_saved_worst(k, calls[:i]) for i, (k, t) in _pair(calls, longest)]
        expected = math.fsum([u * c for u, c in zip(self.reaching_probabilities(chosen), called, strict=True)])
        return CascadeSolution(chosen, expected, math.fsum(longest))

    def remove_redundant(self, solution: CascadeSolution) -> CascadeSolution:
        """Remove members if the cascade without them is not worse.

        Complexity: O(n^3) for n members, usually O(n^2).
        """
        for i in range(len(solution.members)):
            shorter = self.evaluate(solution.members[:i] + solution.members[i + 1 :])
            if shorter.expected <= solution.expected * (1 + TIE_TOLERANCE):
                return self.remove_redundant(shorter)
        return solution


def _pair(calls: Sequence[int], times: Sequence[float]) -> Iterator[tuple[int, tuple[int, float]]]:
    return enumerate(zip(calls, times, strict=True))


def _counted_shares(counts: Int64s, members: Sequence[int]) -> list[float]:
    sets = list(accumulate((1 << k for k in members), initial=0))
    return [int(counts[s]) / int(counts[0]) for s in sets]


def _group_key(classifier: Classifier, dependence: SolveDependence) -> tuple[str, str]:
    if dependence == "dependent":
        return "all", ""
    if dependence == "grouped" and classifier.group is not None:
        return "group", classifier.group
    return "alone", classifier.name


@dataclass(frozen=True, slots=True, eq=False)
class CascadeFront:
    """Result of an algorithm: cascades by increasing maximum and decreasing expected duration.

    Attributes:
        cascades: computed at first use, from the least expected duration to the largest.
        lower_bound: bound of the expected duration within the deadline; None if the front is exact.
    """

    cascades: Iterator[tuple[int, ...]]
    lower_bound: float | None = None


def find_best_within(problem: CascadeProblem, front: CascadeFront, deadline: float | None) -> CascadeSolution:
    """Return the cascade of the lowest expected duration whose worst-case duration is within the deadline.

    Worst-case durations are correctly rounded sums. Ties go to the smaller worst-case duration.
    The deterministic classifier alone must be within the deadline.
    """
    best: CascadeSolution | None = None
    for members in front.cascades:
        solution = problem.evaluate(members)
        if best is not None and solution.expected > best.expected * (1 + TIE_TOLERANCE):
            break
        if deadline is None or solution.maximum <= deadline:
            best = solution if best is None else min(best, solution, key=lambda s: s.maximum)
    return problem.remove_redundant(best if best is not None else problem.evaluate(()))


def build_step_function(problem: CascadeProblem, front: CascadeFront) -> list[CascadeSolution]:
    """Return the best cascade for every deadline.

    Maximum durations strictly rise, and expected durations strictly fall.
    """
    solutions = sorted(
        {problem.evaluate(members) for members in front.cascades},
        key=lambda s: (s.maximum, s.expected, len(s.members), problem.classifier_names(s)),
    )
    steps: list[CascadeSolution] = []
    for solution in solutions:
        if not steps or solution.expected < steps[-1].expected * (1 - TIE_TOLERANCE):
            steps.append(solution)
    return steps
