"""State of the run of one item: limits, remaining time, and progress."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from app.running.executor import RunProgress
from models import InvalidRequest
from models.errors import Fault
from models.run import RunItem, RunLimits
from parsimony.runs.steps import CallResult
from solvers.kind import AnyKind

OPTIONAL_FIELDS = ("embedding", "text", "size", "budget_pacing", "max_item_cost", "min_coverage", "tradeoff")
"""Fields of items and limits that only some kinds take."""


@dataclass(frozen=True, slots=True)
class ItemRun:
    """An item to run, its limits, and its progress.

    Attributes:
        time_limit_s: time limit in seconds.
        ends_at: end of the time limit on the clock ``time.monotonic``.
        excluded: names that must not be called.
        classifier: the only classifier to call, instead of a decision; None to decide.
        degraded: the reason, for the reply, why only this classifier is called; None without a reason.
        latched: weaker classifiers that are excluded after an escalation in the conversation.
        call_costs: expected cost of each classifier's call; None for the artifact's expected costs.
        item_budget: mean cost per item that paced budgets leave, for artifacts whose items share a budget; inf for no
            limit.
    """

    item: RunItem
    limits: RunLimits
    time_limit_s: float
    ends_at: float
    excluded: frozenset[str]
    progress: RunProgress = field(default_factory=RunProgress)
    classifier: str | None = None
    degraded: str | None = None
    latched: frozenset[str] = frozenset()
    call_costs: Mapping[str, float] | None = None
    item_budget: float = inf

    @property
    def remaining_seconds(self) -> float:
        """Return the seconds until the time limit."""
        return self.ends_at - time.monotonic()

    def with_new_start(self) -> "ItemRun":
        """Return a copy whose time limit starts now."""
        return replace(self, ends_at=time.monotonic() + self.time_limit_s)

    def with_embedding(
        self, embedding: tuple[float, ...], calls: list[CallResult], *, is_charged: bool = False
    ) -> "ItemRun":
        """Return a copy with the item's embedding and the calls that computed it.

        Args:
            is_charged: whether these calls are already charged to budgets.
        """
        item = self.item.model_copy(update={"embedding": embedding})
        progress = RunProgress(results=list(calls), charged=len(calls) if is_charged else 0)
        return replace(self, item=item, progress=progress)

    def check_supported_fields(self, kind: AnyKind) -> None:
        """Raise InvalidRequest for fields that the artifact's kind does not support."""
        given = {**vars(self.item), **vars(self.limits)}
        for name in OPTIONAL_FIELDS:
            if given.get(name) is not None and name not in kind.item_fields:
                raise InvalidRequest.from_faults(Fault((name,), f"is not supported for {kind.name} artifacts"))
