"""The run of an item: its limits, remaining time, and progress."""

import time
from dataclasses import dataclass, field, replace

from app.running.executor import RunProgress
from models import InvalidRequest
from models.errors import Fault
from models.run import RunItem, RunLimits
from models.units import seconds_in
from solvers.kind import AnyKind
from solvers.running import CallResult

OPTIONAL_FIELDS = ("embedding", "text", "size", "budget_pacing", "max_item_cost", "min_coverage", "tradeoff")
"""Fields of items and limits that only some kinds take."""


@dataclass(frozen=True, slots=True)
class ItemRun:
    """An item to run, its limits, and its progress.

    Attributes:
        time_limit_s: seconds that it may take.
        ends_at: the end of that time, on the clock ``time.monotonic``.
        excluded: names that must not be called.
    """

    item: RunItem
    limits: RunLimits
    time_limit_s: float
    ends_at: float
    excluded: frozenset[str]
    progress: RunProgress = field(default_factory=RunProgress)

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the time limit."""
        return self.ends_at - time.monotonic()

    def with_new_start(self) -> "ItemRun":
        """Return a copy whose time begins now."""
        return replace(self, ends_at=time.monotonic() + self.time_limit_s)

    def with_embedding(self, embedding: tuple[float, ...], calls: list[CallResult]) -> "ItemRun":
        """Return a copy with the item's embedding. calls: those made to compute it."""
        item = self.item.model_copy(update={"embedding": embedding})
        return replace(self, item=item, progress=RunProgress(results=list(calls)))

    def refuse_unsupported(self, kind: AnyKind) -> None:
        """Raise InvalidRequest for fields that only other kinds take."""
        given = {**vars(self.item), **vars(self.limits)}
        for name in OPTIONAL_FIELDS:
            if given.get(name) is not None and name not in kind.item_fields:
                raise InvalidRequest.from_faults(Fault((name,), f"is not supported for {kind.name} artifacts"))


def time_limit_of(limits: RunLimits, unit: str) -> float:
    """Return the time limit of a run in seconds; raises InvalidRequest for a deadline in a unit that is not one of
    time."""
    if limits.deadline is None:
        return limits.timeout_s
    unit_s = seconds_in(unit)
    if unit_s is None:
        fault = f"requires a unit of time, got {limits.deadline:g} {unit}: set timeout_s, in seconds"
        raise InvalidRequest.from_faults(Fault(("deadline",), fault))
    return min(limits.timeout_s, limits.deadline * unit_s)
