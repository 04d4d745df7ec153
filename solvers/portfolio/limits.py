"""The limits of a request as constraints on a programme, and what was assigned within them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Floats, Int64s
from models.errors import ConflictingLimit, ConflictingLimits
from models.portfolio import Budget
from models.portfolio_constraints import (
    ClassifierLimits,
    ConstrainedRequest,
    LimitPrice,
    Queries,
    Resource,
    ResourceLimit,
    ShareOfQueries,
)
from solvers.portfolio.constrained import ConflictingConstraints, Constraint, assign_within

GAP = 1e-4
"""How far from the best an assignment may be where nothing else is asked."""
ROUNDING = 1e-9
"""Shares of queries that are whole but for so little are whole."""
MOST_LIMITS = 1000
"""Limits of a request."""
COST, VALUE, CALLS = 0, 1, 2
"""Places of the matrices that constraints count: costs with embeddings, values, costs without; then resources."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What is known of n queries and m classifiers. values, costs: (n, m), the costs without embeddings, of which each
    query's costs ``embedding``. dearest: what a budget's fraction is of. resources: by name what queries use of those
    that the trace told of, (m,) or (n, m)."""

    classifiers: tuple[str, ...]
    values: Floats
    costs: Floats
    embedding: float
    dearest: float
    resources: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """choice: (n,); what it costs without embeddings, the gap that is proved, and each limit with its use and price."""

    choice: Int64s
    cost: float
    gap: float
    prices: tuple[LimitPrice, ...]


def assign_limited(batch: Batch, request: ConstrainedRequest, time_limit_s: float | None) -> Within:
    """Assign a batch within all limits of a request. Raises ConflictingLimits with a smallest set of them that cannot
    be kept together, InvalidRequest for names that are not known, and SolverTimeout."""
    names, groups = _groups(request)
    costs = batch.costs + batch.embedding
    uses = [costs, batch.values, batch.costs]
    uses += [_uses(batch, name, resource) for name, resource in request.resources.items()]
    constraints = tuple(_constraints(batch, request, names, np.bincount(groups, minlength=len(names))))
    if len(constraints) > MOST_LIMITS:
        raise InvalidRequest.at(Fault((), f"there are {len(constraints)} limits, at most {MOST_LIMITS} are taken"))
    worths = batch.values if request.goal == "accuracy" else -costs
    gap = GAP if request.gap is None else request.gap
    try:
        solution = assign_within(worths, constraints, uses=uses, groups=groups, gap=gap, time_limit_s=time_limit_s)
    except ConflictingConstraints as error:
        limits = [(conflict.constraint, conflict.give) for conflict in error.conflicts]
        raise ConflictingLimits.of(
            *(ConflictingLimit(_name(each), each.bound, each.most, give) for each, give in limits)
        ) from None
    priced = zip(constraints, solution.used.tolist(), solution.prices.tolist(), strict=True)
    cost = float(batch.costs[np.arange(len(worths)), solution.choice].sum())
    return Within(solution.choice, cost, solution.gap, tuple(_price(*each) for each in priced))


def refuse_strangers(classifiers: Sequence[str], request: ConstrainedRequest) -> None:
    """Refuse limits of classifiers that there are not; raises InvalidRequest."""
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
                said = f"is no classifier of this portfolio; there are {', '.join(classifiers)}"
                raise InvalidRequest.at(Fault((*place, name), said))


def matrix_of(rows: Sequence[Sequence[float]], classifiers: Sequence[str], *place: str) -> Floats:
    """Make an array of (n, m) from rows of m numbers; raises InvalidRequest for rows of another length."""
    wrong = next((i for i, row in enumerate(rows) if len(row) != len(classifiers)), None)
    if wrong is not None:
        said = f"has {len(rows[wrong])} numbers, there are {len(classifiers)} classifiers: {', '.join(classifiers)}"
        raise InvalidRequest.at(Fault((*place, wrong), said))
    return np.array(rows, dtype=np.float64)


def _groups(request: ConstrainedRequest) -> tuple[tuple[str, ...], Int64s]:
    """Name the groups, and give each query's, (n,)."""
    if request.groups is None:
        return (), np.zeros(len(request.queries), dtype=np.int64)
    names = tuple(sorted({*request.groups.labels, *request.groups.limits}))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[label] for label in request.groups.labels], dtype=np.int64)


def _uses(batch: Batch, name: str, resource: Resource) -> Floats:
    """Give what queries use of a resource: (m,), or (n, m)."""
    if resource.uses is None:
        if name not in batch.resources:
            known = f"the trace told of {', '.join(batch.resources) or 'none'}"
            raise InvalidRequest.at(Fault(("resources", name), f"is told nowhere: {known}; give its uses"))
        return batch.resources[name]
    if not isinstance(resource.uses, Mapping):
        return matrix_of(resource.uses, batch.classifiers, "resources", name, "uses")
    missing = next((each for each in batch.classifiers if each not in resource.uses), None)
    if missing is not None:
        raise InvalidRequest.at(Fault(("resources", name, "uses"), f"tells nothing of the classifier {missing!r}"))
    return np.array([resource.uses[each] for each in batch.classifiers], dtype=np.float64)


def _constraints(
    batch: Batch, request: ConstrainedRequest, names: tuple[str, ...], counts: Int64s
) -> Iterator[Constraint]:
    """List all limits as constraints."""
    n = len(batch.values)
    if request.budget is not None:
        yield Constraint(("budget",), COST, total_of(request.budget, n, batch.dearest))
    if request.accuracy is not None:
        yield Constraint(("accuracy", "at_least"), VALUE, request.accuracy.at_least * n, most=False)
    yield from _of_classifiers(batch, request.classifiers, (), n, None)
    yield from _of_resources(request.resources, request.resources, (), n, None)
    for group, name in enumerate(names):
        count = int(counts[group])
        limits = request.groups.limits.get(name) if request.groups is not None else None
        if request.min_group_accuracy is not None:
            floor = request.min_group_accuracy * count
            yield Constraint(("min_group_accuracy", name), VALUE, floor, most=False, group=group)
        if limits is None:
            continue
        place = ("groups", name)
        if limits.budget is not None:
            yield Constraint((*place, "budget"), COST, total_of(limits.budget, count, batch.dearest), group=group)
        if limits.accuracy is not None:
            floor = limits.accuracy.at_least * count
            yield Constraint((*place, "accuracy", "at_least"), VALUE, floor, most=False, group=group)
        yield from _of_classifiers(batch, limits.classifiers, place, count, group)
        yield from _of_resources(limits.resources, request.resources, place, count, group)


def _of_classifiers(
    batch: Batch, by_name: Mapping[str, ClassifierLimits], place: tuple[str, ...], n: int, group: int | None
) -> Iterator[Constraint]:
    for name, limits in by_name.items():
        where, j = (*place, "classifiers", name), batch.classifiers.index(name)
        if limits.at_least is not None:
            fewest = float(math.ceil(_count(limits.at_least, n) - ROUNDING))
            yield Constraint((*where, "at_least"), None, fewest, most=False, group=group, classifier=j)
        if limits.at_most is not None:
            most = float(math.floor(_count(limits.at_most, n) + ROUNDING))
            yield Constraint((*where, "at_most"), None, most, group=group, classifier=j)
        if limits.max_cost is not None:
            yield Constraint((*where, "max_cost"), CALLS, limits.max_cost, group=group, classifier=j)


def _of_resources(
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


def _count(queries: Queries, n: int) -> float:
    return queries.share * n if isinstance(queries, ShareOfQueries) else float(queries)


def total_of(budget: Budget, n: int, dearest: float) -> float:
    """Say what n queries may cost."""
    if budget.total is not None:
        return budget.total
    return (budget.per_query if budget.per_query is not None else (budget.fraction or 0.0) * dearest) * n


def _name(constraint: Constraint) -> str:
    return ".".join(constraint.name)


def _price(constraint: Constraint, used: float, price: float) -> LimitPrice:
    most = constraint.bound if constraint.most else None
    least = None if constraint.most else constraint.bound
    return LimitPrice(limit=_name(constraint), at_least=least, at_most=most, used=used, price=price)
