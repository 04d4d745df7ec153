"""Shared protocols and helpers of artifact kinds: plans, build contexts, progress, seeds, and validation.

Kinds use no clock, network, or files.
"""

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import ROUND_CEILING, Context
from functools import cache, cached_property
from typing import Any, Generic, Protocol, TypeVar, cast, get_args, get_type_hints

import numpy as np

from models import DatasetFacts, Fault, InvalidRequest, Value
from models.arrays import Int64s, NumberRange
from models.savings import Savings
from solvers.item_splits import effective_rows


class Progress(Protocol):
    """Progress callback of a fit; raises Cancelled to stop the fit. It is fast enough to be called at every step."""

    def __call__(self, done: int, total: int, message: str) -> None: ...


def no_progress(done: int, total: int, message: str) -> None:
    """Ignore progress."""


def scale_progress(progress: Progress, start: int, end: int, total: int) -> Progress:
    """Return a callback that reports the progress of one part as steps ``start`` to ``end`` of ``total``.

    >>> scale_progress(lambda *reported: print(reported), 10, 20, 100)(1, 2, "half of it")
    (15, 100, 'half of it')
    """
    return lambda done, of, message: progress(start + (end - start) * done // max(of, 1), total, message)


def format_number(value: float) -> str:
    """Format a number with all its digits.

    >>> format_number(10.0), format_number(12.3)
    ('10', '12.3')
    """
    return repr(float(value)).removesuffix(".0")


def round_up(value: float) -> float:
    """Round a cost up to six significant digits: used as a budget, it still allows this cost.

    >>> round_up(109.10362300000997), round_up(36.0)
    (109.104, 36.0)
    """
    return float(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(value))


@dataclass(frozen=True, slots=True)
class BuildContext:
    """Services that a fit uses.

    Attributes:
        progress: progress callback.
        elapsed: returns the seconds since the fit began, for time limits.
        cache: persistent cache of bytes by key, so that other builds and resumed builds reuse trained models.
        learner_modules: modules that learners may come from, in addition to scikit-learn.
    """

    progress: Progress = no_progress
    elapsed: Callable[[], float] = lambda: 0.0
    cache: MutableMapping[str, bytes] = field(default_factory=dict)
    learner_modules: tuple[str, ...] = ()


class Plan(Protocol):
    """Result of a fit: arrays and plain values that decide queries.

    A plan is a frozen dataclass and is stored as an artifact.
    """

    def check(self) -> None:
        """Raise InvalidRequest for inconsistent arrays.

        Constructors call it, because a plan may come from untrusted bytes. Afterwards, no decision can crash or hang.
        """

    def decide(self, query: Any) -> Value:
        """Decide a query within microseconds.

        Raises Infeasible, with the least feasible value, if the limits cannot be kept.
        """


def run_in_process(work: Callable[..., Any], *args: Any) -> Any:
    """Call a function in this process; the default way to run models."""
    return work(*args)


@dataclass(frozen=True, slots=True)
class ModelRunner:
    """Runner of learned models, in this or in another process.

    Attributes:
        modules: modules that learners may come from, in addition to scikit-learn.
        run: calls a function with its arguments, in another process if models are untrusted.
    """

    modules: tuple[str, ...] = ()
    run: Callable[..., Any] = run_in_process


IN_PROCESS = ModelRunner()
"""Run learned models in this process; they come from scikit-learn."""


def check_excluded_names(excluded: Sequence[str], known: Sequence[str]) -> None:
    """Raise InvalidRequest for unknown names in ``excluded``."""
    unknown = [name for name in excluded if name not in known]
    if unknown:
        fault = f"{', '.join(map(repr, unknown))} not found; available: {', '.join(known)}"
        raise InvalidRequest.from_faults(Fault(("excluded",), fault))


def prepare_plan(plan: Any, lazy: Collection[str] = ()) -> None:
    """Compute a plan's cached properties, except lazy ones, and make its arrays read-only.

    The first decision is then as fast as later ones.
    """
    names = [each.name for each in fields(plan)]
    for kind in type(plan).__mro__:
        cached = [name for name, attribute in vars(kind).items() if isinstance(attribute, cached_property)]
        names += [name for name in cached if name not in lazy]
    for name in names:
        array = getattr(plan, name)
        if isinstance(array, np.ndarray):
            array.flags.writeable = False


def require_min_items(facts: DatasetFacts, minimum: int, purpose: str) -> None:
    """Raise InvalidRequest for a dataset with fewer than ``minimum`` distinct items (or rows, if none repeat)."""
    counted = "rows" if facts.items is None else f"distinct {facts.spec.item!r}"
    if facts.item_count < minimum:
        raise InvalidRequest.from_faults(
            Fault(("dataset",), f"has {facts.item_count} {counted}; {purpose} requires at least {minimum}")
        )


MIN_COMPLETE_ROWS = 30
"""Minimum number of complete rows of a partial trace, where these are needed."""


def require_min_complete_rows(facts: DatasetFacts) -> None:
    """Raise InvalidRequest for a partial trace with fewer than 30 rows in which all classifiers were called."""
    if facts.complete_rows is not None and facts.complete_rows < MIN_COMPLETE_ROWS:
        raise InvalidRequest.from_faults(
            Fault(
                ("dataset",),
                f"must have at least {MIN_COMPLETE_ROWS} rows in which all classifiers were called, got "
                f"{facts.complete_rows} of {facts.rows:,}: only portfolios can be built without such rows",
            )
        )


@cache
def _ranges_of(kind: Any) -> dict[str, NumberRange]:
    declared = get_type_hints(kind, include_extras=True)
    found = {
        name: next((one for one in get_args(each) if isinstance(one, NumberRange)), None)
        for name, each in declared.items()
    }
    return {name: one for name, one in found.items() if one is not None}


def check_array_ranges(plan: Any) -> None:
    """Raise InvalidRequest for an array with a number outside its field's declared range."""
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
class FitResult(Generic[P]):
    """A fitted plan, a summary of the fit (plain JSON values), and the plan's savings."""

    plan: P
    summary: dict[str, Any]
    savings: Savings | None = None


SOLVER_STREAM_KEY = 1_850_104_729
"""Mixed into every seed, so that splits are independent of rows shuffled by ``default_rng(0)``."""


def make_generator(seed: int) -> np.random.Generator:
    """Return a random generator of a user's seed."""
    return np.random.default_rng((SOLVER_STREAM_KEY, seed))


def read_row_count(summary: Mapping[str, Any], part: str | None = None) -> int:
    """Return the number of independent rows in a build's summary; 0 if unknown.

    Counts all rows, or the rows of one part.

    >>> read_row_count({"rows": 200}), read_row_count({"rows": {"test": 50}}, "test"), read_row_count({})
    (200, 50, 0)
    >>> read_row_count({"rows": 200, "effective_rows": 40})
    40
    """
    rows = summary.get("effective_rows", summary.get("rows"))
    count = rows.get(part) if isinstance(rows, dict) else rows
    return count if type(count) is int and count > 0 else 0


def count_split_rows(parts: Mapping[str, Int64s], items: Int64s) -> dict[str, dict[str, int]]:
    """Count the rows of each part of a split and, if items repeat, the effective rows."""
    counts = {"rows": {name: len(rows) for name, rows in parts.items()}}
    effective = {name: effective_rows(items[rows]) for name, rows in parts.items()}
    return counts if effective == counts["rows"] else {**counts, "effective_rows": effective}
