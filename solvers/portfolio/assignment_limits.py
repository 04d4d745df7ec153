"""Limits of a batch request as constraints of an assignment problem, and the assignment within them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Floats, Int64s
from models.errors import ConflictingLimit, ConflictingLimits
from models.limit_prices import LimitPrice
from models.limits import resolve_budget
from models.portfolio import BatchBudget
from models.portfolio_constraints import (
    ClassifierLimits,
    LimitedOptions,
    Queries,
    Resource,
    ResourceLimit,
    ShareOfQueries,
)
from solvers.portfolio.accuracy_floors import AccuracyFloors, OptimismFunction
from solvers.portfolio.constrained import ConflictingConstraints, ConstrainedChoice, Constraint, assign_constrained

DEFAULT_GAP = 1e-4
"""Default relative optimality gap of an assignment."""
ROUNDING = 1e-9
"""Shares of queries within this of a whole number are whole."""
MAX_LIMITS = 1000
"""Maximum number of limits of a request."""
MIN_HIGHS_S, TIME_SHARE = 0.01, 0.5
"""Minimum time limit of an assignment, and the share of the remaining time where floors may need another one."""
COST, VALUE, CALLS = 0, 1, 2
"""Places of matrices: costs with embeddings, accuracies for floors, costs without embeddings; resources follow."""


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentBatch:
    """A batch of n queries for m classifiers.

    Attributes:
        classifiers: m names.
        values: (n, m), estimated accuracies, regularized.
        costs: (n, m), without embeddings.
        embedding_cost: cost of a query's embedding.
        max_cost: the cost to which fractional budgets are relative.
        resources: use of the trace's resources by name, (m,) or (n, m).
        means: (m,), mean costs, including embeddings.
        optimism: optimism of the values, as a function of the mean cost of the choice by ``means``.
        estimate_mean_cost: guesses the mean cost of the choice, given the minimum accuracy (None to maximize it) and
            the maximum cost.
    """

    classifiers: tuple[str, ...]
    values: Floats
    costs: Floats
    embedding_cost: float
    max_cost: float
    resources: Mapping[str, Floats]
    means: Floats
    optimism: OptimismFunction
    estimate_mean_cost: Callable[[float | None, float], float]


@dataclass(frozen=True, slots=True, eq=False)
class ConstrainedSolution:
    """An assignment within limits.

    Attributes:
        choice: (n,).
        cost: total cost without embeddings.
        gap: proved relative gap.
        prices: each limit with its use and shadow price.
    """

    choice: Int64s
    cost: float
    gap: float
    prices: tuple[LimitPrice, ...]


def assign_within_limits(
    batch: AssignmentBatch,
    request: LimitedOptions,
    time_limit_s: float | None,
    clock: Callable[[], float] = monotonic,
) -> ConstrainedSolution:
    """Assign a batch within all limits of a request.

    Raises:
        ConflictingLimits: the limits conflict; the error has a minimal conflicting set.
        InvalidRequest: unknown names.
        SolverTimeout: no assignment was found in time.
    """
    names, groups = _list_groups(request, len(batch.values))
    costs = batch.costs + batch.embedding_cost
    resources = [_list_uses(batch, name, resource) for name, resource in request.resources.items()]
    constraints = tuple(_list_constraints(batch, request, names, np.bincount(groups, minlength=len(names))))
    if len(constraints) > MAX_LIMITS:
        raise InvalidRequest.from_faults(Fault((), f"must have at most {MAX_LIMITS} limits, got {len(constraints)}"))
    objective = batch.values if request.goal == "accuracy" else -costs
    floors = [each for each in constraints if each.use == VALUE]
    gap = DEFAULT_GAP if request.gap is None else request.gap
    end = None if time_limit_s is None else clock() + time_limit_s

    def solve(
        counting: Floats, objective: Floats = objective, kept: Sequence[Constraint] = constraints
    ) -> ConstrainedChoice:
        remaining_s = None if end is None else max((end - clock()) * (TIME_SHARE if floors else 1.0), MIN_HIGHS_S)
        uses = [costs, counting, batch.costs, *resources]
        return assign_constrained(objective, kept, uses=uses, groups=groups, gap=gap, time_limit_s=remaining_s)

    def most_accurate() -> ConstrainedChoice:
        return solve(batch.values, batch.values, [each for each in constraints if each not in floors])

    floored = AccuracyFloors(batch.values, batch.means, groups, max(len(names), 1), batch.optimism)
    try:
        solution = floored.solve(_guess_costs(batch, request, names), floors, solve, most_accurate)
    except ConflictingConstraints as error:
        counts = np.bincount(groups, minlength=len(names))
        limits = [_make_conflict(each.constraint, each.violation, len(groups), counts) for each in error.conflicts]
        raise ConflictingLimits.from_limits(*limits) from None
    priced = zip(constraints, solution.used.tolist(), solution.prices.tolist(), strict=True)
    cost = float(batch.costs[np.arange(len(objective)), solution.choice].sum())
    return ConstrainedSolution(solution.choice, cost, solution.gap, tuple(_make_price(*each) for each in priced))


def exclude_classifiers(request: LimitedOptions, forbidden: Sequence[str]) -> LimitedOptions:
    """Return the request with additional limits that exclude classifiers."""
    limits = {name: request.classifiers.get(name, ClassifierLimits(at_most=0)) for name in forbidden}
    none = {name: each.model_copy(update={"at_most": 0}) for name, each in limits.items()}
    return request.model_copy(update={"classifiers": {**request.classifiers, **none}})


def remove_floors(request: LimitedOptions) -> LimitedOptions:
    """Return the request without accuracy floors.

    Conflicts that remain do not depend on estimates.
    """
    groups = request.groups
    if groups is not None:
        limits = {name: each.model_copy(update={"accuracy": None}) for name, each in groups.limits.items()}
        groups = groups.model_copy(update={"limits": limits})
    rest: dict[str, object] = {"goal": "accuracy", "accuracy": None, "min_group_accuracy": None, "groups": groups}
    return request.model_copy(update=rest)


def _guess_costs(batch: AssignmentBatch, request: LimitedOptions, names: tuple[str, ...]) -> list[float]:
    """Guess the mean cost of each group.

    It is what the group's floor needs; to maximize accuracy, it is the group's budget.
    """
    n, limits = len(batch.values), request.groups.limits if request.groups is not None else {}
    most = compute_total_budget(request, n, batch.max_cost) / n
    if request.goal == "accuracy":
        return [batch.estimate_mean_cost(None, most)] * max(len(names), 1)
    of_all = max(request.min_group_accuracy or 0.0, request.accuracy.at_least if request.accuracy else 0.0)
    own = [limits[name].accuracy if name in limits else None for name in names] or [None]
    return [batch.estimate_mean_cost(max(of_all, floor.at_least if floor else 0.0), most) for floor in own]


def check_classifier_names(classifiers: Sequence[str], request: LimitedOptions) -> None:
    """Raise InvalidRequest if limits name unknown classifiers."""
    groups = request.groups.limits if request.groups is not None else {}
    named: list[tuple[tuple[str, ...], Mapping[str, object]]] = [(("classifiers",), request.classifiers)]
    named += [(("groups", "limits", label, "classifiers"), limits.classifiers) for label, limits in groups.items()]
    named += [
        (("resources", name, "uses"), each.uses)
        for name, each in request.resources.items()
        if isinstance(each.uses, Mapping)
    ]
    for place, by_name in named:
        for name in by_name:
            if name not in classifiers:
                fault = f"classifier not found; available: {', '.join(classifiers)}"
                raise InvalidRequest.from_faults(Fault((*place, name), fault))


def make_matrix(rows: Sequence[Sequence[float]], classifiers: Sequence[str], *path: str) -> Floats:
    """Return rows as an (n, m) array.

    Raises InvalidRequest for rows that do not have m numbers.
    """
    wrong = next((i for i, row in enumerate(rows) if len(row) != len(classifiers)), None)
    if wrong is not None:
        fault = f"must have {len(classifiers)} numbers ({', '.join(classifiers)}), got {len(rows[wrong])}"
        raise InvalidRequest.from_faults(Fault((*path, wrong), fault))
    return np.array(rows, dtype=np.float64)


def _list_groups(request: LimitedOptions, n: int) -> tuple[tuple[str, ...], Int64s]:
    """Return the names of the groups, and the group of each query, (n,)."""
    if request.groups is None:
        return (), np.zeros(n, dtype=np.int64)
    names = tuple(sorted({*request.groups.labels, *request.groups.limits}))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[label] for label in request.groups.labels], dtype=np.int64)


def _list_uses(batch: AssignmentBatch, name: str, resource: Resource) -> Floats:
    """Return the use of a resource: (m,), or (n, m)."""
    place = ("resources", name)
    if resource.uses is None or isinstance(resource.uses, Mapping):
        return resolve_uses(batch.classifiers, batch.resources, resource.uses, place)
    return make_matrix(resource.uses, batch.classifiers, *place, "uses")


def resolve_uses(
    classifiers: Sequence[str], uses: Mapping[str, Floats], given: Mapping[str, float] | None, path: tuple[str, ...]
) -> Floats:
    """Return the use of a resource by each classifier, (m,) or (n, m).

    Args:
        uses: the trace's resources by name.
        given: use by each classifier; None for the trace's uses.
        path: the resource's field in the request; its last part is the resource's name.
    Raises:
        InvalidRequest: the resource or one of its classifiers is unknown.
    """
    if given is None:
        if path[-1] not in uses:
            known = ", ".join(uses) or "none"
            raise InvalidRequest.from_faults(
                Fault(path, f"resource not found in the trace; available: {known}; set its uses")
            )
        return uses[path[-1]]
    missing = next((each for each in classifiers if each not in given), None)
    if missing is not None:
        raise InvalidRequest.from_faults(Fault((*path, "uses"), f"must include classifier {missing!r}"))
    return np.array([given[each] for each in classifiers], dtype=np.float64)


def _list_constraints(
    batch: AssignmentBatch, request: LimitedOptions, names: tuple[str, ...], counts: Int64s
) -> Iterator[Constraint]:
    """Yield all limits as constraints."""
    n = len(batch.values)
    if request.has_budget:
        yield Constraint(("budget",), COST, compute_total_budget(request, n, batch.max_cost))
    if request.accuracy is not None:
        yield Constraint(("accuracy", "at_least"), VALUE, request.accuracy.at_least * n, is_upper=False)
    yield from _limit_classifiers(batch, request.classifiers, (), n, None)
    yield from _limit_resources(request.resources, request.resources, (), n, None)
    for group, name in enumerate(names):
        count = int(counts[group])
        limits = request.groups.limits.get(name) if request.groups is not None else None
        if request.min_group_accuracy is not None:
            floor = request.min_group_accuracy * count
            yield Constraint(("min_group_accuracy", name), VALUE, floor, is_upper=False, group=group)
        if limits is None:
            continue
        place = ("groups", name)
        if limits.has_budget:
            yield Constraint((*place, "budget"), COST, compute_total_budget(limits, count, batch.max_cost), group=group)
        if limits.accuracy is not None:
            floor = limits.accuracy.at_least * count
            yield Constraint((*place, "accuracy", "at_least"), VALUE, floor, is_upper=False, group=group)
        yield from _limit_classifiers(batch, limits.classifiers, place, count, group)
        yield from _limit_resources(limits.resources, request.resources, place, count, group)


def _limit_classifiers(
    batch: AssignmentBatch, by_name: Mapping[str, ClassifierLimits], place: tuple[str, ...], n: int, group: int | None
) -> Iterator[Constraint]:
    for name, limits in by_name.items():
        where, j = (*place, "classifiers", name), batch.classifiers.index(name)
        if limits.at_least is not None:
            fewest = float(math.ceil(_count_queries(limits.at_least, n) - ROUNDING))
            yield Constraint((*where, "at_least"), None, fewest, is_upper=False, group=group, classifier=j)
        if limits.at_most is not None:
            most = float(math.floor(_count_queries(limits.at_most, n) + ROUNDING))
            yield Constraint((*where, "at_most"), None, most, group=group, classifier=j)
        if limits.max_cost is not None:
            yield Constraint((*where, "max_cost"), CALLS, limits.max_cost, group=group, classifier=j)


def _limit_resources(
    limits: Mapping[str, ResourceLimit],
    every: Mapping[str, Resource],
    place: tuple[str, ...],
    n: int,
    group: int | None,
) -> Iterator[Constraint]:
    places = {name: CALLS + 1 + i for i, name in enumerate(every)}
    for name, limit in limits.items():
        bound = limit.total if limit.total is not None else (limit.per_query or 0.0) * n
        yield Constraint((*place, "resources", name), places[name], bound, group=group)


def _count_queries(queries: Queries, n: int) -> float:
    return queries.share * n if isinstance(queries, ShareOfQueries) else float(queries)


def compute_total_budget(limits: BatchBudget, n: int, highest_cost: float) -> float:
    """Return the total budget of n queries; infinite without one."""
    if limits.budget_total is not None:
        return limits.budget_total
    return np.inf if limits.budget is None else resolve_budget(limits.budget, highest_cost) * n


def _make_conflict(constraint: Constraint, violation: float | None, n: int, counts: Int64s) -> ConflictingLimit:
    """Return a limit that cannot be kept.

    Accuracy floors are converted from sums back to shares.
    """
    of = 1 if constraint.use != VALUE else n if constraint.group is None else max(int(counts[constraint.group]), 1)
    share = None if violation is None else violation / of
    return ConflictingLimit(_join_name(constraint), constraint.bound / of, constraint.is_upper, share)


def _join_name(constraint: Constraint) -> str:
    return ".".join(constraint.name)


def _make_price(constraint: Constraint, used: float, price: float) -> LimitPrice:
    most = constraint.bound if constraint.is_upper else None
    least = None if constraint.is_upper else constraint.bound
    return LimitPrice(limit=_join_name(constraint), at_least=least, at_most=most, used=used, price=price)
