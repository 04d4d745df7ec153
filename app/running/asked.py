"""What is asked of a run: an item, its limits, and the time that it has; and what is known of it since."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from app.running.executor import RunProgress
from models import InvalidRequest, Value
from models.errors import Fault
from models.portfolio import RouteBudget
from models.run import RunItem, RunLimits
from models.units import seconds_in
from solvers.running import Heard

OF_SOME = {
    "embedding": ("portfolio", "policy"),
    "text": ("portfolio", "policy"),
    "budget_pacing": ("portfolio",),
    "hard_budget": ("policy",),
}
"""What only some subjects take."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The request of a run, and its progress. seconds: the time limit. ends_at: when that is over, on the clock
    ``time.monotonic``."""

    item: RunItem
    limits: RunLimits
    seconds: float
    ends_at: float
    without: frozenset[str]
    progress: RunProgress = field(default_factory=RunProgress)

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return self.ends_at - time.monotonic()

    def restarted(self) -> "Asked":
        """Give the same with its time beginning now."""
        return replace(self, ends_at=time.monotonic() + self.seconds)

    def knowing(self, embedding: tuple[float, ...], calls: list[Heard]) -> "Asked":
        """Give the same with the item's embedding. calls: those that were made for it."""
        item = self.item.model_copy(update={"embedding": embedding})
        return replace(self, item=item, progress=RunProgress(heard=list(calls)))

    def refuse_others(self, solver: str) -> None:
        """Raise InvalidRequest for what only other subjects take."""
        given = {**vars(self.item), **vars(self.limits)}
        for name, owners in OF_SOME.items():
            if solver not in owners and given.get(name) is not None:
                listed = " or a ".join(owners)
                raise InvalidRequest.at(Fault((name,), f"means nothing here: it is of runs of a {listed}"))

    def amount(self) -> float | None:
        """Give the budget as a number; raises InvalidRequest for one that only portfolios take."""
        if isinstance(self.limits.budget, RouteBudget):
            raise InvalidRequest.at(Fault(("budget",), "must be a number: per_query and fraction are of portfolios"))
        return self.limits.budget


def seconds_allowed(limits: RunLimits, unit: str) -> float:
    """Give how many seconds a run may take; raises InvalidRequest for a deadline in a unit that is none of time."""
    if limits.deadline is None:
        return limits.timeout_s
    unit_s = seconds_in(unit)
    if unit_s is None:
        fault = f"is {limits.deadline:g}, in {unit}, which is no unit of time: give timeout_s, in seconds"
        raise InvalidRequest.at(Fault(("deadline",), fault))
    return min(limits.timeout_s, limits.deadline * unit_s)


def query_of(kind: type[Value], **fields: Any) -> Any:
    """Make a query; raises InvalidRequest with what pydantic found."""
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise InvalidRequest.of(error) from error


def route_budget(limits: RunLimits) -> RouteBudget | None:
    """Give what an item may cost on average; a number is per query."""
    budget = limits.budget
    return budget if budget is None or isinstance(budget, RouteBudget) else query_of(RouteBudget, per_query=budget)
