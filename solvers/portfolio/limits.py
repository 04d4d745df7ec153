"""The limits of a request as constraints on a programme, and what was assigned within them."""

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
from solvers.portfolio.constrained import Assigned, ConflictingConstraints, Constraint, assign_within
from solvers.portfolio.floors import Floored, TooHigh

GAP = 1e-4
"""How far from the best an assignment may be where nothing else is asked."""
ROUNDING = 1e-9
"""Shares of queries that are whole but for so little are whole."""
MOST_LIMITS = 1000
"""Limits of a request."""
LEAST_S, OF_THE_TIME = 0.01, 0.5
"""Seconds that an assignment gets, at least; and, of the time that is left, where floors may ask for another one."""
COST, VALUE, CALLS = 0, 1, 2
"""Places of the matrices that constraints count: costs with embeddings, what floors count, costs without; resources."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What is known of n queries and m classifiers. values, costs: (n, m), the costs without embeddings, of which each
    query's costs ``embedding``. dearest: what a budget's fraction is of. resources: by name what queries use of those
    that the trace told of, (m,) or (n, m). means: (m,) what queries cost on average, embeddings
    included. too_high: what is taken off values before they count for floors, given what the choice costs on average by
    these means. likely: guesses that, given the accuracy that is to be reached at the least cost (None: the highest),
    and the most that a query may cost."""

    classifiers: tuple[str, ...]
    values: Floats
    costs: Floats
    embedding: float
    dearest: float
    resources: Mapping[str, Floats]
    means: Floats
    too_high: TooHigh
    likely: Callable[[float | None, float], float]


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """choice: (n,); what it costs without embeddings, the gap that is proved, and each limit with its use and price."""

    choice: Int64s
    cost: float
    gap: float
    prices: tuple[LimitPrice, ...]


def assign_limited(
    batch: Batch,
    request: LimitedOptions,
    time_limit_s: float | None,
    clock: Callable[[], float] = monotonic,
) -> Within:
    """Assign a batch within all limits of a request. Raises ConflictingLimits with a smallest set of them that cannot
    be kept together, InvalidRequest for names that are not known, and SolverTimeout."""
    names, groups = _groups(request, len(batch.values))
    costs = batch.costs + batch.embedding
    resources = [_uses(batch, name, resource) for name, resource in request.resources.items()]
    constraints = tuple(_constraints(batch, request, names, np.bincount(groups, minlength=len(names))))
    if len(constraints) > MOST_LIMITS:
        raise InvalidRequest.at(Fault((), f"there are {len(constraints)} limits, at most {MOST_LIMITS} are taken"))
    worths = batch.values if request.goal == "accuracy" else -costs
    floors = [each for each in constraints if each.use == VALUE]
    gap, end = GAP if request.gap is None else request.gap, None if time_limit_s is None else clock() + time_limit_s

    def solve(counting: Floats, worths: Floats = worths, kept: Sequence[Constraint] = constraints) -> Assigned:
        left = None if end is None else max((end - clock()) * (OF_THE_TIME if floors else 1.0), LEAST_S)
        uses = [costs, counting, batch.costs, *resources]
        return assign_within(worths, kept, uses=uses, groups=groups, gap=gap, time_limit_s=left)

    def most_accurate() -> Assigned:
        return solve(batch.values, batch.values, [each for each in constraints if each not in floors])

    floored = Floored(batch.values, batch.means, groups, max(len(names), 1), batch.too_high)
    try:
        solution = floored.settle(_guesses(batch, request, names), floors, solve, most_accurate)
    except ConflictingConstraints as error:
        counts = np.bincount(groups, minlength=len(names))
        limits = [_conflicting(each.constraint, each.give, len(groups), counts) for each in error.conflicts]
        raise ConflictingLimits.of(*limits) from None
    priced = zip(constraints, solution.used.tolist(), solution.prices.tolist(), strict=True)
    cost = float(batch.costs[np.arange(len(worths)), solution.choice].sum())
    return Within(solution.choice, cost, solution.gap, tuple(_price(*each) for each in priced))


def barring(request: LimitedOptions, barred: Sequence[str]) -> LimitedOptions:
    """Let classifiers answer nothing, whatever else limits them."""
    limits = {name: request.classifiers.get(name, ClassifierLimits(at_most=0)) for name in barred}
    none = {name: each.model_copy(update={"at_most": 0}) for name, each in limits.items()}
    return request.model_copy(update={"classifiers": {**request.classifiers, **none}})


def without_floors(request: LimitedOptions) -> LimitedOptions:
    """Leave out what depends on estimates: what then cannot be kept cannot be kept whatever these are."""
    groups = request.groups
    if groups is not None:
        limits = {name: each.model_copy(update={"accuracy": None}) for name, each in groups.limits.items()}
        groups = groups.model_copy(update={"limits": limits})
    rest: dict[str, object] = {"goal": "accuracy", "accuracy": None, "min_group_accuracy": None, "groups": groups}
    return request.model_copy(update=rest)


def _guesses(batch: Batch, request: LimitedOptions, names: tuple[str, ...]) -> list[float]:
    """Guess what a query of each group costs: what its floor needs or, for the highest accuracy, all that it may."""
    n, limits = len(batch.values), request.groups.limits if request.groups is not None else {}
    most = total_of(request, n, batch.dearest) / n
    if request.goal == "accuracy":
        return [batch.likely(None, most)] * max(len(names), 1)
    of_all = max(request.min_group_accuracy or 0.0, request.accuracy.at_least if request.accuracy else 0.0)
    own = [limits[name].accuracy if name in limits else None for name in names] or [None]
    return [batch.likely(max(of_all, floor.at_least if floor else 0.0), most) for floor in own]


def refuse_strangers(classifiers: Sequence[str], request: LimitedOptions) -> None:
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


def _groups(request: LimitedOptions, n: int) -> tuple[tuple[str, ...], Int64s]:
    """Name the groups, and give each query's, (n,)."""
    if request.groups is None:
        return (), np.zeros(n, dtype=np.int64)
    names = tuple(sorted({*request.groups.labels, *request.groups.limits}))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[label] for label in request.groups.labels], dtype=np.int64)


def _uses(batch: Batch, name: str, resource: Resource) -> Floats:
    """Give what queries use of a resource: (m,), or (n, m)."""
    place = ("resources", name)
    if resource.uses is None or isinstance(resource.uses, Mapping):
        return uses_of(batch.classifiers, batch.resources, resource.uses, place)
    return matrix_of(resource.uses, batch.classifiers, *place, "uses")


def uses_of(
    classifiers: Sequence[str], uses: Mapping[str, Floats], given: Mapping[str, float] | None, place: tuple[str, ...]
) -> Floats:
    """Give what queries use of a resource with each classifier, (m,), as given, or as the trace had it, (m,) or (n, m),
    by the resource's name, the last of its place; raises InvalidRequest."""
    if given is None:
        if place[-1] not in uses:
            known = f"the trace told of {', '.join(uses) or 'none'}"
            raise InvalidRequest.at(Fault(place, f"is told nowhere: {known}; give its uses"))
        return uses[place[-1]]
    missing = next((each for each in classifiers if each not in given), None)
    if missing is not None:
        raise InvalidRequest.at(Fault((*place, "uses"), f"tells nothing of the classifier {missing!r}"))
    return np.array([given[each] for each in classifiers], dtype=np.float64)


def _constraints(batch: Batch, request: LimitedOptions, names: tuple[str, ...], counts: Int64s) -> Iterator[Constraint]:
    """List all limits as constraints."""
    n = len(batch.values)
    if request.has_budget:
        yield Constraint(("budget",), COST, total_of(request, n, batch.dearest))
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
        if limits.has_budget:
            yield Constraint((*place, "budget"), COST, total_of(limits, count, batch.dearest), group=group)
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


def total_of(limits: BatchBudget, n: int, dearest: float) -> float:
    """Return what n queries may cost; infinite where there is no budget."""
    if limits.budget_total is not None:
        return limits.budget_total
    return np.inf if limits.budget is None else resolve_budget(limits.budget, dearest) * n


def _conflicting(constraint: Constraint, give: float | None, n: int, counts: Int64s) -> ConflictingLimit:
    """Tell a limit that cannot be kept; floors, which the programme adds up, as shares, as they were asked."""
    of = 1 if constraint.use != VALUE else n if constraint.group is None else max(int(counts[constraint.group]), 1)
    give_as_asked = None if give is None else give / of
    return ConflictingLimit(_name(constraint), constraint.bound / of, constraint.most, give_as_asked)


def _name(constraint: Constraint) -> str:
    return ".".join(constraint.name)


def _price(constraint: Constraint, used: float, price: float) -> LimitPrice:
    most = constraint.bound if constraint.most else None
    least = None if constraint.most else constraint.bound
    return LimitPrice(limit=_name(constraint), at_least=least, at_most=most, used=used, price=price)
