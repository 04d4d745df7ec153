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
from models.feedback import Expectations, encode_decision_id
from models.losses import LossPrices
from solvers.base import IN_PROCESS, ModelRunner, Plan
from solvers.statistics import normal_interval, wilson_interval

if TYPE_CHECKING:
    from app.observability.metrics import Metrics  # not for commands, which count nothing

Q = TypeVar("Q", bound=Value)
SELECTING_FIELDS = (*LIMITS, "budget_total", "solution")
"""Fields of queries that fix what may be decided: with one of them, default limits do not apply."""


def decision_facts(loaded: LoadedArtifact[Plan], query: Value, decision: Value) -> dict[str, Any]:
    """Return the id and the expected outcome of a decision (``DecisionFacts``).

    The id contains the expected outcome, so that feedback can be compared with it.
    """
    estimates = _estimates(loaded, query, decision)
    return {
        "decision": encode_decision_id(loaded.ref, loaded.record.sha256, estimates, is_randomized=loaded.is_randomized),
        "expected": with_intervals(estimates, _rows(loaded, decision), loaded.record.losses),
    }


def _estimates(loaded: LoadedArtifact[Plan], query: Value, decision: Value) -> Expectations:
    return loaded.kind.estimate_outcome(loaded.plan, loaded.record.summary, query, decision)


def _rows(loaded: LoadedArtifact[Plan], decision: Value) -> int:
    """Return the number of rows behind a decision's mean figures; 0 for a single item."""
    return loaded.kind.count_evidence_rows(loaded.record.summary) if loaded.kind.is_mean(decision) else 0


def with_intervals(estimates: Expectations, rows: int, losses: LossPrices | None = None) -> dict[str, Any]:
    """Return estimates with 95 % intervals for means over a number of rows.

    Estimates that do not apply are omitted. With losses, the loss replaces the accuracy; the accuracy is then 1 minus
    loss / largest loss, of all rows, including rejected ones.
    """
    expected: dict[str, Any] = {**estimates.known_values()}
    evidence_rows = rows if estimates.rows is None else min(rows, estimates.rows)
    answered = evidence_rows if losses is not None else evidence_rows * expected.get("coverage", 1.0)
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


def encode_decision_reply(decision: Value, loaded: LoadedArtifact[Plan], /, **more: Any) -> bytes:
    """Return a decision, additional fields, and its artifact as JSON."""
    return orjson.dumps({**vars(decision), **more, "artifact": vars(loaded.ref)}, default=vars)


def list_callable_names(loaded: LoadedArtifact[Plan]) -> tuple[str, ...]:
    """Return the names of classifiers, sensors, or features that an artifact may call."""
    return loaded.kind.list_called_names(loaded.plan)


def list_unavailable_names(loaded: LoadedArtifact[Plan], open_circuits: frozenset[str]) -> tuple[str, ...]:
    """Return the names that an artifact calls and whose circuit breaker is open."""
    return tuple(sorted(open_circuits.intersection(list_callable_names(loaded)))) if open_circuits else ()


def with_default_limits(loaded: LoadedArtifact[Plan], query: Q, failing: Collection[str] = ()) -> Q:
    """Return the query, with the limits of the default operating point if it has none.

    The default operating point assumes that all classifiers are available. If the query excludes some, or some are
    ``failing``, the default limit is raised to the cost of the cheapest remaining alternative. Raises Infeasible if
    none remains.
    """
    savings = loaded.record.savings
    if savings is None or not savings.query or any(getattr(query, name, None) is not None for name in SELECTING_FIELDS):
        return loaded.kind.resolve_percent_budget(loaded.plan, query)
    left_out = {*getattr(query, "excluded", ()), *failing}
    limits = {name: _limit(type(query), name, orjson.dumps(value)) for name, value in savings.query.items()}
    if left_out:
        limits = loaded.kind.raise_limits_to_feasible(loaded.plan, limits, left_out)
    return query.model_copy(update=limits)


@lru_cache(maxsize=1024)
def _limit(kind: type[Value], name: str, value: bytes) -> Any:
    """Convert a limit to the form of the kind's queries."""
    return TypeAdapter(cast(Any, kind.model_fields[name].annotation)).validate_json(value)


def decide_to_json(
    loaded: LoadedArtifact[Plan],
    query: Value,
    open_circuits: frozenset[str] = frozenset(),
    models: ModelRunner = IN_PROCESS,
) -> bytes:
    """Decide a query and return the reply as JSON; raises the errors of ``decide``.

    Unavailable classifiers are excluded if the limits can be kept without them.
    """
    unavailable = list_unavailable_names(loaded, open_circuits)
    query = with_default_limits(loaded, query, () if loaded.kind.skips_unavailable else unavailable)
    query, decision = loaded.kind.decide(loaded.plan, query, unavailable, models)
    return encode_decision_reply(decision, loaded, **decision_facts(loaded, query, decision), open_circuits=unavailable)


def decide_if_fast(loaded: LoadedArtifact[Plan], query: Value) -> bytes | None:
    """Return the reply as JSON if the plan is expected to decide within 1 ms; else None."""
    return decide_to_json(loaded, query) if loaded.kind.is_fast_decision(loaded.plan, query) else None


ImmediateReply = Callable[[LoadedArtifact[Plan], Any], bytes | None]
"""Answers a query of a plan, or returns None where that may take long."""


@dataclass(frozen=True, slots=True)
class FastDecisionRoute:
    """A GET or POST route that is answered from memory.

    Its path is ``{prefix}{name}{suffix}``. The query is the query string or the JSON body.

    Attributes:
        handler: returns the reply's body for a plan and a query, or None to pass the request to the regular route. With
            an open circuit breaker, the request is passed, too.
        body_limit_bytes: maximum size of the query's JSON, which is parsed on the event loop.
    """

    kind: str
    prefix: str
    suffix: str
    query_type: type[Value]
    method: Literal["GET", "POST"] = "GET"
    handler: ImmediateReply = decide_if_fast
    body_limit_bytes: int = 2**20

    @property
    def path(self) -> str:
        """The route's path template."""
        return f"{self.prefix}{{name}}{self.suffix}"


@contextmanager
def measure_decision(loaded: LoadedArtifact[Plan], metrics: "Metrics") -> Iterator[None]:
    """Count and time a decision by its outcome."""
    started = perf_counter()
    with count_refusals(loaded, metrics):
        yield
    metrics.decisions.labels(loaded.ref.kind, loaded.ref.name, "answered").inc()
    metrics.decision_seconds.labels(loaded.ref.kind).observe(perf_counter() - started)


@contextmanager
def count_refusals(loaded: LoadedArtifact[Plan], metrics: "Metrics") -> Iterator[None]:
    """Count rejected decisions."""
    try:
        yield
    except ParsimonyError as error:
        outcome = "infeasible" if isinstance(error, Infeasible) else "refused"
        metrics.decisions.labels(loaded.ref.kind, loaded.ref.name, outcome).inc()
        raise
