"""What is asked of a run: an item, its limits, and the time that it has; and what is known of it since."""

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
    """The request of a run, and its progress. seconds: the time limit. ends_at: when that is over, on the clock
    ``time.monotonic``."""

    item: RunItem
    limits: RunLimits
    time_limit_s: float
    ends_at: float
    excluded: frozenset[str]
    progress: RunProgress = field(default_factory=RunProgress)

    @property
    def remaining_seconds(self) -> float:
        """The seconds that are left."""
        return self.ends_at - time.monotonic()

    def restarted(self) -> "ItemRun":
        """Give the same with its time beginning now."""
        return replace(self, ends_at=time.monotonic() + self.time_limit_s)

    def with_embedding(self, embedding: tuple[float, ...], calls: list[CallResult]) -> "ItemRun":
        """Give the same with the item's embedding. calls: those that were made for it."""
        item = self.item.model_copy(update={"embedding": embedding})
        return replace(self, item=item, progress=RunProgress(results=list(calls)))

    def refuse_unsupported(self, kind: AnyKind) -> None:
        """Raise InvalidRequest for fields that only other kinds take."""
        given = {**vars(self.item), **vars(self.limits)}
        for name in OPTIONAL_FIELDS:
            if given.get(name) is not None and name not in kind.item_fields:
                raise InvalidRequest.at(Fault((name,), f"is not supported for {kind.name} artifacts"))


def time_limit_of(limits: RunLimits, unit: str) -> float:
    """Give how many seconds a run may take; raises InvalidRequest for a deadline in a unit that is none of time."""
    if limits.deadline is None:
        return limits.timeout_s
    unit_s = seconds_in(unit)
    if unit_s is None:
        fault = f"is {limits.deadline:g}, in {unit}, which is no unit of time: give timeout_s, in seconds"
        raise InvalidRequest.at(Fault(("deadline",), fault))
    return min(limits.timeout_s, limits.deadline * unit_s)
