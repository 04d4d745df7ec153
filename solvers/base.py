"""What every solver is: a plan that can decide, and a way to fit one. Solvers know no clock, network or files."""

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import ROUND_CEILING, Context
from functools import cache, cached_property
from typing import Any, Generic, Protocol, TypeVar, cast, get_args, get_type_hints

import numpy as np

from models import DatasetFacts, Fault, InvalidRequest, Value
from models.arrays import Int64s, Range
from models.savings import Savings
from solvers.item_splits import effective_rows


class Progress(Protocol):
    """Told how far a fit has come; it raises Cancelled if the fit is to stop. Cheap enough for every step."""

    def __call__(self, done: int, total: int, message: str) -> None: ...


def no_progress(done: int, total: int, message: str) -> None:
    """Report progress to nobody."""


def scale_progress(progress: Progress, start: int, end: int, total: int) -> Progress:
    """Report the progress of a part of the work, which takes the steps from start to end of so many.

    >>> scale_progress(lambda *told: print(told), 10, 20, 100)(1, 2, "half of it")
    (15, 100, 'half of it')
    """
    return lambda done, of, message: progress(start + (end - start) * done // max(of, 1), total, message)


def format_number(value: float) -> str:
    """Write a number for people, with all its digits.

    >>> format_number(10.0), format_number(12.3)
    ('10', '12.3')
    """
    return repr(float(value)).removesuffix(".0")


def round_up(value: float) -> float:
    """Round a limit up to six digits, so that it still allows what costs so much.

    >>> round_up(109.10362300000997), round_up(36.0)
    (109.104, 36.0)
    """
    return float(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(value))


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What a fit may use of the world: whom to tell its progress, the time it has taken, and a memory.

    elapsed: seconds since the fit began, for budgets of time. cache: bytes by key that outlive the fit, so that what
    one build has trained another, or the same one resumed, need not train again. learner_modules: where learners that a
    build names may come from, beside scikit-learn.
    """

    progress: Progress = no_progress
    elapsed: Callable[[], float] = lambda: 0.0
    cache: MutableMapping[str, bytes] = field(default_factory=dict)
    learner_modules: tuple[str, ...] = ()


class Plan(Protocol):
    """What a fit found: a frozen dataclass of arrays and plain values, kept as an artifact, that answers queries."""

    def check(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other: a plan may come from anybody's bytes. Called when
        one is made: after it no decision can crash or hang."""

    def decide(self, query: Any) -> Value:
        """Answer in microseconds; raises Infeasible, with the numbers, if nothing can satisfy the query."""


def run_in_process(work: Callable[..., Any], *args: Any) -> Any:
    """Do work in this process, where a plan's caller names no other."""
    return work(*args)


@dataclass(frozen=True, slots=True)
class ModelRunner:
    """How learned models are run.

    Attributes:
        modules: modules that learners may come from, in addition to scikit-learn.
        run: calls a function with its arguments, in another process if it may end that.
    """

    modules: tuple[str, ...] = ()
    run: Callable[..., Any] = run_in_process


IN_PROCESS = ModelRunner()
"""Learned models are run in this process, and come from scikit-learn."""


def refuse_unknown_names(excluded: Sequence[str], known: Sequence[str]) -> None:
    """Raise InvalidRequest for names to leave out that are not known."""
    unknown = [name for name in excluded if name not in known]
    if unknown:
        fault = f"names {', '.join(map(repr, unknown))}; there are {', '.join(known)}"
        raise InvalidRequest.from_faults(Fault(("excluded",), fault))


def prepare_plan(plan: Any, lazy: Collection[str] = ()) -> None:
    """Compute a plan's cached properties, except for the lazy ones, and make all its arrays read-only.

    So the first decision is as fast as the later ones.
    """
    names = [each.name for each in fields(plan)]
    for kind in type(plan).__mro__:
        cached = [name for name, attribute in vars(kind).items() if isinstance(attribute, cached_property)]
        names += [name for name in cached if name not in lazy]
    for name in names:
        array = getattr(plan, name)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False


def refuse_few_items(facts: DatasetFacts, least: int, what: str) -> None:
    """Raise InvalidRequest for a dataset with fewer than ``least`` rows or, where items repeat, different items."""
    counted = "rows" if facts.items is None else f"different {facts.spec.item!r}"
    if facts.item_count < least:
        raise InvalidRequest.from_faults(
            Fault(("dataset",), f"has {facts.item_count} {counted}, {what} needs at least {least}")
        )


@cache
def _ranges_of(kind: Any) -> dict[str, Range]:
    """Give the range of each field that declares one."""
    declared = get_type_hints(kind, include_extras=True)
    found = {
        name: next((one for one in get_args(each) if isinstance(one, Range)), None) for name, each in declared.items()
    }
    return {name: one for name, one in found.items() if one is not None}


def refuse_out_of_range(plan: Any) -> None:
    """Raise InvalidRequest where an array holds a number outside the range that its field declares."""
    for name, allowed in _ranges_of(cast(Any, type(plan))).items():
        array = getattr(plan, name)
        inside = (array >= allowed.least) & (array <= allowed.most)
        if allowed.has_gaps:
            inside |= np.isnan(array)
        if not inside.all():
            raise InvalidRequest(
                f"{name} must be from {allowed.least:g} to {allowed.most:g}, got {array[~inside][0]:g}"
            )


P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, slots=True)
class Fitted(Generic[P]):
    """A plan, what the fit found out on the way (plain JSON values for people to read), and what the plan is worth."""

    plan: P
    summary: dict[str, Any]
    savings: Savings | None = None


OWN_STREAM = 1_850_104_729
"""Mixed into every seed: whoever has shuffled the rows by ``default_rng(0)`` would else have them cut in that order."""


def make_generator(seed: int) -> np.random.Generator:
    """Make the random numbers of a seed that somebody chose."""
    return np.random.default_rng((OWN_STREAM, seed))


def read_row_count(summary: Mapping[str, Any], part: str | None = None) -> int:
    """Read from a summary how many independent rows a build had, or a part of it; 0 if it does not say.

    >>> read_row_count({"rows": 200}), read_row_count({"rows": {"test": 50}}, "test"), read_row_count({})
    (200, 50, 0)
    >>> read_row_count({"rows": 200, "effective_rows": 40})
    40
    """
    rows = summary.get("effective_rows", summary.get("rows"))
    count = rows.get(part) if isinstance(rows, dict) else rows
    return count if type(count) is int and count > 0 else 0


def row_counts(parts: Mapping[str, Int64s], items: Int64s) -> dict[str, dict[str, int]]:
    """Count the rows of each part of a split for a summary; where items repeat, the independent ones, too."""
    counts = {"rows": {name: len(rows) for name, rows in parts.items()}}
    effective = {name: effective_rows(items[rows]) for name, rows in parts.items()}
    return counts if effective == counts["rows"] else {**counts, "effective_rows": effective}
