"""Solver for IDK cascades: input checks, pre-selection of classifiers, choice of the algorithm, and optimality."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models import Fault, InvalidRequest
from models.cascade import Algorithm, CascadeDecision, Classifier, Discarded, SolveDependence
from models.errors import Infeasible
from solvers.base import format_number
from solvers.cascade.dependent_classifiers import build_dependent_frontier, order_dependent
from solvers.cascade.groups.search import solve_groups
from solvers.cascade.independent_classifiers import build_independent_frontier, order_independent
from solvers.cascade.problem import TIE_TOLERANCE, CascadeFront, CascadeProblem, CascadeSolution, find_best_within

_GROUPS: tuple[Algorithm, ...] = ("group-states", "group-beam")
_APPLICABLE: dict[tuple[SolveDependence, bool], tuple[Algorithm, ...]] = {
    ("independent", False): ("ratio-order", "ratio-frontier", *_GROUPS),
    ("independent", True): ("ratio-frontier", *_GROUPS),
    ("dependent", False): ("power-order", "power-frontier", *_GROUPS),
    ("dependent", True): ("power-frontier", *_GROUPS),
    ("grouped", False): _GROUPS,
    ("grouped", True): _GROUPS,
}
"""Applicable algorithms by dependence, and whether there is a deadline; the first is the default."""


@dataclass(frozen=True, slots=True)
class _SolvedEnding:
    problem: CascadeProblem
    solution: CascadeSolution
    algorithm: Algorithm
    lower_bound: float

    @property
    def key(self) -> tuple[float, float, int, tuple[str, ...]]:
        return (self.solution.expected, self.solution.maximum, len(self.solution.members), self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return self.problem.classifier_names(self.solution)


def solve(
    classifiers: Sequence[Classifier],
    *,
    deadline: float | None = None,
    dependence: SolveDependence | None = None,
    algorithm: Algorithm | None = None,
) -> CascadeDecision:
    """Find the cascade of least expected duration whose maximum duration is within the deadline.

    Expected durations sum ``execution_time``; the deadline limits the sum of ``worst_case_time``. Sums are exactly
    rounded. Dominated classifiers are discarded: deterministic ones that are slower in both times, and IDK classifiers
    that are not faster than the last classifier or do not fit before it. Of cascades with equal expected duration, the
    one with the smallest maximum is returned. The result does not depend on the order of the input. Independent
    classifiers use Algorithms 1 and 4, dependent ones 2 and 5, and grouped ones 3. None of them uses a grid of
    deadlines.

    Args:
        classifiers: with times in the unit of the deadline; at least one has success probability 1.
        dependence: by default grouped if any classifier has a group, else independent. With ``grouped``, a classifier
            without a group forms a group of one; other dependences ignore groups.
        algorithm: by default the best that is applicable.
    Raises:
        InvalidRequest: a field is invalid.
        Infeasible: no deterministic classifier is within the deadline.
    Complexity: see ``order_independent``, ``order_dependent``, and ``groups``.

    >>> k1 = Classifier(name="K1", execution_time=5, success_probability=0.6)
    >>> k3 = Classifier(name="K3", execution_time=10, success_probability=1)
    >>> solve([k1, k3]).cascade, solve([k1, k3]).expected_duration
    (('K1', 'K3'), 9.0)
    >>> solve([k1, k3], deadline=14).cascade
    ('K3',)
    """
    lasts = _select_deterministic(classifiers, deadline)
    if dependence is None:
        dependence = "independent" if all(k.group is None for k in classifiers) else "grouped"
    _check_algorithm(algorithm, dependence, deadline)
    answers = [_solve_with_last(classifiers, last, deadline, dependence, algorithm) for last in lasts]
    best = min(answers, key=lambda answer: answer.key)
    lower_bound = min(answer.lower_bound for answer in answers)
    optimal = best.solution.expected <= lower_bound * (1 + TIE_TOLERANCE)
    return CascadeDecision(
        cascade=best.names,
        expected_duration=best.solution.expected,
        maximum_duration=best.solution.maximum,
        deadline=None if deadline is None else float(deadline),
        algorithm=best.algorithm,
        optimal=optimal,
        lower_bound=best.solution.expected if optimal else lower_bound,
        discarded=_list_discarded(classifiers, best, answers, deadline),
    )


def discard_reason(classifier: Classifier, last: Classifier, deadline: float | None) -> str | None:
    """Return why an IDK classifier cannot precede ``last`` in an optimal cascade; None if it can."""
    if classifier.execution_time >= last.execution_time:
        times = f"{format_number(classifier.execution_time)} compared with {format_number(last.execution_time)}"
        return f"is not faster than the deterministic {last.name}: {times}"
    both = math.fsum((classifier.worst_case, last.worst_case))
    if deadline is not None and both > deadline:
        limit = format_number(deadline)
        return f"does not fit before {last.name}: both take {format_number(both)}, the deadline is {limit}"
    return None


def _select_deterministic(classifiers: Sequence[Classifier], deadline: float | None) -> list[Classifier]:
    """Check the input, and return the non-dominated deterministic classifiers within the deadline."""
    seen: set[str] = set()
    for i, classifier in enumerate(classifiers):
        if classifier.name in seen:
            raise InvalidRequest.from_faults(
                Fault(("classifiers", i, "name"), f"must be unique, got {classifier.name!r} twice")
            )
        seen.add(classifier.name)
    if deadline is not None and not (math.isfinite(deadline) and deadline > 0):
        raise InvalidRequest.from_faults(Fault(("deadline",), f"must be finite and above 0, got {deadline}"))
    ends = [k for k in classifiers if k.deterministic]
    if not ends:
        rule = "must include a classifier with success probability 1"
        raise InvalidRequest.from_faults(Fault(("classifiers",), f"{rule}, got {len(classifiers)} without"))
    fastest = min(k.worst_case for k in ends)
    if deadline is not None and fastest > deadline:
        times = f"takes {format_number(fastest)}, the deadline is {format_number(deadline)}"
        raise Infeasible(f"the fastest deterministic classifier {times}")
    ordered = sorted(ends, key=lambda k: (k.execution_time, k.worst_case, k.name))
    front: list[Classifier] = []
    for k in ordered:
        if not front or k.worst_case < front[-1].worst_case:
            front.append(k)
    return [k for k in front if deadline is None or k.worst_case <= deadline]


def _check_algorithm(algorithm: Algorithm | None, dependence: SolveDependence, deadline: float | None) -> None:
    applicable = _APPLICABLE[dependence, deadline is not None]
    if algorithm is not None and algorithm not in applicable:
        case = f"{dependence} classifiers {'without a' if deadline is None else 'with a'} deadline"
        raise InvalidRequest.from_faults(
            Fault(("algorithm",), f"{algorithm} is not supported for {case}; use {', '.join(applicable)}")
        )


def _solve_with_last(
    classifiers: Sequence[Classifier],
    last: Classifier,
    deadline: float | None,
    dependence: SolveDependence,
    requested: Algorithm | None,
) -> _SolvedEnding:
    idk = [k for k in classifiers if not k.deterministic and discard_reason(k, last, deadline) is None]
    problem = CascadeProblem.from_classifiers(idk, last, dependence)
    front, algorithm = _run_algorithm(
        problem, deadline, requested or _APPLICABLE[dependence, deadline is not None][0], requested
    )
    solution = find_best_within(problem, front, deadline)
    lower_bound = solution.expected if front.lower_bound is None else front.lower_bound
    return _SolvedEnding(problem, solution, algorithm, lower_bound)


def _run_algorithm(
    problem: CascadeProblem, deadline: float | None, algorithm: Algorithm, requested: Algorithm | None
) -> tuple[CascadeFront, Algorithm]:
    match algorithm:
        case "ratio-order":
            return order_independent(problem), algorithm
        case "ratio-frontier":
            return build_independent_frontier(problem, deadline), algorithm
        case "power-order":
            return order_dependent(problem), algorithm
        case "power-frontier":
            return build_dependent_frontier(problem, deadline), algorithm
        case _:
            return solve_groups(problem, deadline, requested)


def _list_discarded(
    classifiers: Sequence[Classifier], best: _SolvedEnding, answers: Sequence[_SolvedEnding], deadline: float | None
) -> tuple[Discarded, ...]:
    last = best.problem.last
    reasons = {
        k.name: _deterministic_discard_reason(k, best, answers, deadline)
        if k.deterministic
        else discard_reason(k, last, deadline)
        for k in classifiers
        if k is not last
    }
    return tuple(Discarded(name=name, reason=reason) for name, reason in sorted(reasons.items()) if reason is not None)


def _deterministic_discard_reason(
    other: Classifier, best: _SolvedEnding, answers: Sequence[_SolvedEnding], deadline: float | None
) -> str:
    for answer in answers:
        if answer.problem.last is other:
            expected = (
                f"{format_number(answer.solution.expected)} with it, {format_number(best.solution.expected)} without"
            )
            return f"is deterministic; the least expected duration is {expected}"
    if deadline is not None and other.worst_case > deadline:
        return (
            f"is deterministic and takes {format_number(other.worst_case)}, the deadline is {format_number(deadline)}"
        )
    last = next(
        answer.problem.last
        for answer in answers
        if answer.problem.last.execution_time <= other.execution_time
        and answer.problem.last.worst_case <= other.worst_case
    )
    return f"is deterministic, and not faster than the deterministic {last.name}"
