"""Decisions by loaded artifacts: decide, encode as JSON, and count."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import orjson
from pydantic import TypeAdapter

from app.serving.catalog import LoadedArtifact
from models import Value
from models.base import LIMITS
from models.errors import Infeasible, ParsimonyError
from models.feedback import Expectations, decision_id
from models.losses import LossPrices
from solvers.base import IN_PROCESS, ModelRunner, Plan
from solvers.statistics import normal_interval, wilson_interval

if TYPE_CHECKING:
    from app.observability.metrics import Metrics  # not for commands, which count nothing

Q = TypeVar("Q", bound=Value)
FIXING = (*LIMITS, "budget_total", "solution")
"""Fields of queries that fix what may be decided: with one of them, default limits do not apply."""


def decision_facts(loaded: LoadedArtifact[Plan], query: Value, decision: Value) -> dict[str, Any]:
    """Return the id and the expected outcome of a decision (``DecisionFacts``).

    The id contains the expected outcome, so that feedback can be compared with it.
    """
    estimates = _estimates(loaded, query, decision)
    return {
        "decision": decision_id(loaded.ref, loaded.record.sha256, estimates, is_drawn=loaded.is_drawn),
        "expected": with_intervals(estimates, _rows(loaded, decision), loaded.record.losses),
    }


def _estimates(loaded: LoadedArtifact[Plan], query: Value, decision: Value) -> Expectations:
    return loaded.kind.estimate_outcome(loaded.plan, loaded.record.summary, query, decision)


def _rows(loaded: LoadedArtifact[Plan], decision: Value) -> int:
    """Return the number of rows that a decision's figures are means of; 0 for a single item."""
    return loaded.kind.judged_on(loaded.record.summary) if loaded.kind.is_mean(decision) else 0


def with_intervals(estimates: Expectations, rows: int, losses: LossPrices | None = None) -> dict[str, Any]:
    """Return estimates with 95 % intervals for means over a number of rows.

    Estimates that do not apply are omitted. With losses, the loss replaces the accuracy, which is 1 minus the loss as a
    share of the largest loss.
    """
    expected: dict[str, Any] = {**estimates.known_values()}
    judged_on = rows if estimates.rows is None else min(rows, estimates.rows)
    answered = judged_on * expected.get("coverage", 1.0)
    for name, counted_on in (("accuracy", answered), ("coverage", rows)):
        if name in expected and counted_on >= 1:
            expected[f"{name}_interval"] = wilson_interval(expected[name], counted_on)
    for name, error in (("cost", estimates.cost_error), ("time", estimates.time_error)):
        if name in expected and error is not None and rows:
            expected[f"{name}_interval"] = normal_interval(expected[name], error)
    return expected if losses is None or "accuracy" not in expected else _with_loss(expected, losses.largest)


def _with_loss(expected: dict[str, Any], largest: float) -> dict[str, Any]:
    low, high = expected.pop("accuracy_interval", (None, None))
    interval = {} if low is None else {"loss_interval": (largest * (1 - high), largest * (1 - low))}
    return {"loss": largest * (1 - expected.pop("accuracy")), **interval, **expected}


def encode(decision: Value, loaded: LoadedArtifact[Plan], /, **more: Any) -> bytes:
    """Return a decision, further fields, and its artifact as JSON."""
    return orjson.dumps({**vars(decision), **more, "artifact": vars(loaded.ref)}, default=vars)


def callable_names(loaded: LoadedArtifact[Plan]) -> tuple[str, ...]:
    """Return the names of classifiers, sensors, or features that an artifact may call."""
    return loaded.kind.called_names(loaded.plan)


def unavailable_names(loaded: LoadedArtifact[Plan], open_circuits: frozenset[str]) -> tuple[str, ...]:
    """Return an artifact's names whose circuit breaker is open."""
    return tuple(sorted(open_circuits.intersection(callable_names(loaded)))) if open_circuits else ()


def with_default_limits(loaded: LoadedArtifact[Plan], query: Q, failing: Collection[str] = ()) -> Q:
    """Return a query with the default operating point if it has no limits.

    The default operating point assumes that all classifiers are available. If the query excludes some, or some are
    ``failing``, the limit is raised to the cost of the cheapest remaining alternative. Raises Infeasible if none
    remains.
    """
    savings = loaded.record.savings
    if savings is None or not savings.query or any(getattr(query, name, None) is not None for name in FIXING):
        return loaded.kind.with_number(loaded.plan, query)
    left_out = {*getattr(query, "excluded", ()), *failing}
    limits = {name: _limit(type(query), name, orjson.dumps(value)) for name, value in savings.query.items()}
    if left_out:
        limits = loaded.kind.keepable_limits(loaded.plan, limits, left_out)
    return query.model_copy(update=limits)


@lru_cache(maxsize=1024)
def _limit(kind: type[Value], name: str, value: bytes) -> Any:
    """Read a limit as a query of a kind has it."""
    return TypeAdapter(cast(Any, kind.model_fields[name].annotation)).validate_json(value)


def decide_to_json(
    loaded: LoadedArtifact[Plan],
    query: Value,
    open_circuits: frozenset[str] = frozenset(),
    models: ModelRunner = IN_PROCESS,
) -> bytes:
    """Decide a query and return the reply as JSON; raises the errors of ``decide``.

    Unavailable classifiers are excluded, unless the limits cannot be kept without them.
    """
    unavailable = unavailable_names(loaded, open_circuits)
    query = with_default_limits(loaded, query, () if loaded.kind.skips_unavailable else unavailable)
    query, decision = loaded.kind.decide(loaded.plan, query, unavailable, models)
    return encode(decision, loaded, **decision_facts(loaded, query, decision), open_circuits=unavailable)


def decide_at_once(loaded: LoadedArtifact[Plan], query: Value) -> bytes | None:
    """Return the reply as JSON if the plan is expected to decide within 1 ms; else None."""
    return decide_to_json(loaded, query) if loaded.kind.decides_quickly(loaded.plan, query) else None


AtOnce = Callable[[LoadedArtifact[Plan], Any], bytes | None]
"""Answers a query of a plan, or returns None where that may take long."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A GET or POST route that is answered from memory.

    Its path is ``{prefix}{name}{suffix}``. The query is the query string or the JSON body.

    Attributes:
        answer: returns the reply's body for a plan and a query. None passes the request to the regular route. An open
            circuit breaker does the same.
        most_bytes: maximum size of the query's JSON, which is parsed on the event loop.
    """

    kind: str
    prefix: str
    suffix: str
    query: type[Value]
    method: Literal["GET", "POST"] = "GET"
    answer: AtOnce = decide_at_once
    most_bytes: int = 2**20

    @property
    def path(self) -> str:
        """The route's path template."""
        return f"{self.prefix}{{name}}{self.suffix}"


@contextmanager
def count_decision(loaded: LoadedArtifact[Plan], metrics: "Metrics") -> Iterator[None]:
    """Count and time a decision by its outcome."""
    started = perf_counter()
    with count_refusals(loaded, metrics):
        yield
    metrics.decisions.labels(loaded.ref.kind, loaded.ref.name, "answered").inc()
    metrics.decision_seconds.labels(loaded.ref.kind).observe(perf_counter() - started)


@contextmanager
def count_refusals(loaded: LoadedArtifact[Plan], metrics: "Metrics") -> Iterator[None]:
    """Count refused decisions."""
    try:
        yield
    except ParsimonyError as error:
        outcome = "infeasible" if isinstance(error, Infeasible) else "refused"
        metrics.decisions.labels(loaded.ref.kind, loaded.ref.name, outcome).inc()
        raise
