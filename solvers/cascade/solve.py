"""The front door: check the classifiers, set aside what cannot help, run the algorithm, say what was proved."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from models import Fault, InvalidRequest
from models.cascade import Algorithm, CascadeDecision, Classifier, Discarded, SolveDependence
from models.errors import Infeasible
from solvers.base import number
from solvers.cascade.groups.search import solve_groups
from solvers.cascade.power_order import power_frontier, power_order
from solvers.cascade.problem import TIE_TOLERANCE, CascadeFront, CascadeProblem, CascadeSolution, find_best_within
from solvers.cascade.ratio_order import ratio_frontier, ratio_order

_GROUPS: tuple[Algorithm, ...] = ("group-states", "group-beam")
_APPLICABLE: dict[tuple[SolveDependence, bool], tuple[Algorithm, ...]] = {
    ("independent", False): ("ratio-order", "ratio-frontier", *_GROUPS),
    ("independent", True): ("ratio-frontier", *_GROUPS),
    ("dependent", False): ("power-order", "power-frontier", *_GROUPS),
    ("dependent", True): ("power-frontier", *_GROUPS),
    ("grouped", False): _GROUPS,
    ("grouped", True): _GROUPS,
}
"""From dependence, and whether there is a deadline, to the algorithms that apply; the first is the default."""


@dataclass(frozen=True, slots=True)
class _SolvedEnding:
    """What came of one deterministic classifier."""

    problem: CascadeProblem
    solution: CascadeSolution
    algorithm: Algorithm
    lower_bound: float

    @property
    def key(self) -> tuple[float, float, int, tuple[str, ...]]:
        return (self.solution.expected, self.solution.maximum, len(self.solution.members), self.names)

    @property
    def names(self) -> tuple[str, ...]:
        return self.problem.names(self.solution)


def solve(
    classifiers: Sequence[Classifier],
    *,
    deadline: float | None = None,
    dependence: SolveDependence | None = None,
    algorithm: Algorithm | None = None,
) -> CascadeDecision:
    """Find the cascade of least expected duration whose maximum duration keeps the deadline.

    classifiers: with times and the deadline in one unit; at least one has success probability 1. dependence: without
    it, grouped if any classifier has a group, else independent. In grouped, a classifier without a group is a group of
    its own; independent and dependent ignore groups. algorithm: the best that applies unless one is named.

    Expected durations count ``execution_time``, the deadline counts ``worst_case_time``; sums are exactly rounded. Of
    several deterministic classifiers those that are beaten in both times are set aside, and of the rest the best is
    kept; IDK classifiers no faster than it, or that cannot finish before it by the deadline, are set aside;
    ``discarded`` says which and why. Among equal expected durations the smaller maximum is preferred. The order of the
    input does not matter.

    Independent: Algorithms 1 and 4, dependent: 2 and 5, grouped: 3, all without a grid of deadlines; time and memory
    as of ``ratio_order``, ``power_order`` and ``groups``. Raises InvalidRequest, naming the field, and Infeasible, with
    the numbers.

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
    """Tell why an IDK classifier cannot be before ``last`` in a best cascade, or None if it may be."""
    if classifier.execution_time >= last.execution_time:
        times = f"{number(classifier.execution_time)} against {number(last.execution_time)}"
        return f"is not faster than the deterministic {last.name}: {times}"
    both = math.fsum((classifier.worst_case, last.worst_case))
    if deadline is not None and both > deadline:
        return f"cannot finish before {last.name} by the deadline: both take {number(both)} of {number(deadline)}"
    return None


def _select_deterministic(classifiers: Sequence[Classifier], deadline: float | None) -> list[Classifier]:
    """Check the input and list the deterministic classifiers that can be best: fitting, not beaten in both times."""
    seen: set[str] = set()
    for i, classifier in enumerate(classifiers):
        if classifier.name in seen:
            raise InvalidRequest.at(Fault(("classifiers", i, "name"), f"{classifier.name!r} stands twice"))
        seen.add(classifier.name)
    if deadline is not None and not (math.isfinite(deadline) and deadline > 0):
        raise InvalidRequest.at(Fault(("deadline",), f"is {deadline}, must be finite and above 0"))
    ends = [k for k in classifiers if k.deterministic]
    if not ends:
        rule = "one must have success probability 1, or a cascade could end without an answer"
        raise InvalidRequest.at(Fault(("classifiers",), f"{rule}; there are {len(classifiers)} and none has"))
    fastest = min(k.worst_case for k in ends)
    if deadline is not None and fastest > deadline:
        times = f"takes {number(fastest)}, the deadline is {number(deadline)}"
        raise Infeasible(f"the fastest deterministic classifier {times}")
    ordered = sorted(ends, key=lambda k: (k.execution_time, k.worst_case, k.name))
    front: list[Classifier] = []
    for k in ordered:
        if not front or k.worst_case < front[-1].worst_case:
            front.append(k)
    return [k for k in front if deadline is None or k.worst_case <= deadline]


def _check_algorithm(algorithm: Algorithm | None, dependence: SolveDependence, deadline: float | None) -> None:
    applying = _APPLICABLE[dependence, deadline is not None]
    if algorithm is not None and algorithm not in applying:
        case = f"{dependence} classifiers {'without a' if deadline is None else 'with a'} deadline"
        raise InvalidRequest.at(
            Fault(("algorithm",), f"{algorithm} does not apply to {case}: use {', '.join(applying)}")
        )


def _solve_with_last(
    classifiers: Sequence[Classifier],
    last: Classifier,
    deadline: float | None,
    dependence: SolveDependence,
    asked: Algorithm | None,
) -> _SolvedEnding:
    """Find the best cascade that ends with ``last``."""
    idk = [k for k in classifiers if not k.deterministic and discard_reason(k, last, deadline) is None]
    problem = CascadeProblem.from_classifiers(idk, last, dependence)
    front, algorithm = _run_algorithm(
        problem, deadline, asked or _APPLICABLE[dependence, deadline is not None][0], asked
    )
    solution = find_best_within(problem, front, deadline)
    lower_bound = solution.expected if front.lower_bound is None else front.lower_bound
    return _SolvedEnding(problem, solution, algorithm, lower_bound)


def _run_algorithm(
    problem: CascadeProblem, deadline: float | None, algorithm: Algorithm, asked: Algorithm | None
) -> tuple[CascadeFront, Algorithm]:
    match algorithm:
        case "ratio-order":
            return ratio_order(problem), algorithm
        case "ratio-frontier":
            return ratio_frontier(problem, deadline), algorithm
        case "power-order":
            return power_order(problem), algorithm
        case "power-frontier":
            return power_frontier(problem, deadline), algorithm
        case _:
            return solve_groups(problem, deadline, asked)


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
    """Tell why another deterministic classifier does not end the cascade."""
    for answer in answers:
        if answer.problem.last is other:
            expected = f"{number(answer.solution.expected)} with it, {number(best.solution.expected)} without"
            return f"is deterministic, and the best cascade expects {expected}"
    if deadline is not None and other.worst_case > deadline:
        return f"is deterministic and takes {number(other.worst_case)}, the deadline is {number(deadline)}"
    last = next(
        answer.problem.last
        for answer in answers
        if answer.problem.last.execution_time <= other.execution_time
        and answer.problem.last.worst_case <= other.worst_case
    )
    return f"is deterministic, and {last.name} is too and no slower"
