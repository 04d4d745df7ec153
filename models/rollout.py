"""Rollouts: compare a candidate version with the active one; promote or withdraw it."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from models.base import LARGEST, Items, Name, RequestBody, Value
from models.savings import Interval

Mode = Literal["shadow", "canary"]
Status = Literal["running", "promoted", "aborted", "stopped"]
CostSource = Literal["runs", "feedback"]


class Promotion(RequestBody):
    """Rules for promoting the candidate to the active version."""

    max_accuracy_loss: float = Field(
        default=0.01,
        ge=0,
        lt=1,
        description="largest accepted loss of accuracy (or mean quality), from 0 to 1, for example 0.01 for one "
        "percentage point; outcomes must prove that the loss is smaller",
    )
    min_saving: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="smallest saving, as a share of the active version's mean cost; outcomes must prove that more is "
        "saved; null: cost does not matter",
    )


class Abort(RequestBody):
    """Rules for withdrawing the candidate."""

    max_accuracy_loss: float = Field(
        default=0.01, ge=0, lt=1, description="abort if outcomes prove a larger loss of accuracy"
    )
    max_extra_cost: Annotated[float, Field(ge=0, le=100)] | None = Field(
        default=None,
        description="abort if outcomes prove that the candidate's mean cost is higher by more than this share "
        "of the active version's mean cost; null: cost does not matter",
    )


class RolloutRules(RequestBody):
    """Traffic share of a candidate, and rules for its promotion or withdrawal."""

    mode: Mode = Field(
        default="canary",
        description="shadow: both versions decide, and the candidate's decisions are only compared; canary: the "
        "candidate decides for a share of the items",
    )
    share: float = Field(
        default=0.1,
        gt=0,
        le=0.9,
        description="share of the items for which the candidate decides, by a hash of the item's id; items without an "
        "id are drawn at random",
    )
    promote: Promotion | None = Field(
        default=None,
        description="rules by which the candidate becomes the active version; a shadow becomes a canary first; "
        "null: a person decides",
    )
    abort: Abort = Field(default_factory=Abort, description="rules by which the candidate is withdrawn")
    max_item_cost: Annotated[float, Field(gt=0, le=LARGEST)] | None = Field(
        default=None,
        description="upper bound on the cost of an item, in the artifact's unit, required for tests of costs; null: 10 "
        "times the cost of calling every classifier once",
        examples=[None],
    )


class RolloutRequest(RolloutRules):
    """A candidate version and its rules."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "version": 2,
                    "mode": "canary",
                    "share": 0.1,
                    "promote": {"max_accuracy_loss": 0.01, "min_saving": 0.05},
                    "abort": {"max_accuracy_loss": 0.02},
                }
            ]
        }
    )

    version: int = Field(ge=1, description="the candidate", examples=[2])


class VersionOutcomeSummary(Value):
    """Outcomes of a version during the rollout."""

    outcomes: int = Field(description="number of outcomes")
    mean: float | None = Field(description="mean of the outcomes; null: none")


class RolloutPoint(Value):
    """Means and confidence intervals after a number of outcomes."""

    outcomes: int = Field(description="number of outcomes of both versions")
    active: float = Field(description="mean of the active version")
    candidate: float = Field(description="mean of the candidate")
    interval: Interval = Field(description="95 % confidence sequence of the difference")


class RolloutComparison(Value):
    """Outcomes of both versions, and the evidence for promotion and abort."""

    active: VersionOutcomeSummary = Field(description="outcomes of the active version")
    candidate: VersionOutcomeSummary = Field(description="outcomes of the candidate")
    difference: float | None = Field(
        description="mean of the candidate minus that of the active version; null: unknown"
    )
    difference_interval: Interval | None = Field(
        description="95 % confidence sequence of the difference: it is valid at all times simultaneously; null: "
        "no pairs yet"
    )
    promote_evidence: float | None = Field(
        description="e-value for promotion; 20 is needed; null: no rule for this quantity"
    )
    abort_evidence: float | None = Field(
        description="e-value for the abort; 40 is needed, or 60 if costs may abort, too; null: no rule"
    )
    history: Items[RolloutPoint] = Field(description="means and intervals by number of outcomes")


class ShadowSummary(Value):
    """Decisions of both versions for the same items."""

    decisions: int = Field(description="number of items that both versions decided")
    errors: int = Field(description="number of items that only the active version could decide")
    differing: int = Field(description="number of items with different decisions")
    active_cost: float | None = Field(description="mean expected cost of the active version's decisions; null: unknown")
    candidate_cost: float | None = Field(description="mean expected cost of the candidate's decisions; null: unknown")


class RolloutEvent(Value):
    """A change of a rollout."""

    at: str = Field(description="time, UTC, ISO 8601")
    event: str = Field(description="started, canary, promoted, aborted, or stopped")
    by: str = Field(description="id of the API key; anonymous: a request without a key; test: the sequential test")
    reason: str = Field(description="reason of the change")


class VersionRollout(Value):
    """A rollout: its rules, its state, and the evidence so far."""

    kind: str = Field(description="the artifact kind", examples=["cascade"])
    name: str = Field(description="the artifact's name", examples=["digits"])
    active_version: int = Field(description="the version that was active when the rollout began")
    rules: RolloutRequest = Field(description="share and rules of the rollout, as requested")
    mode: Mode = Field(description="shadow or canary; a shadow may have become a canary")
    status: Status = Field(
        description="running; promoted: the candidate became the active version; aborted: an abort rule "
        "withdrew the candidate; stopped: by a person, or because another version was activated"
    )
    unit: str = Field(description="the artifact's unit")
    accuracy: RolloutComparison = Field(description="accuracy of both versions, from feedback")
    answered: RolloutComparison = Field(
        description="share of the service's own runs of both versions that had an answer; a loss above the abort's "
        "max_accuracy_loss aborts"
    )
    cost: RolloutComparison = Field(description="cost of items of both versions")
    cost_source: CostSource | None = Field(
        description="source of the costs: the service's own runs, or feedback; null: no costs yet"
    )
    costs_above_bound: int = Field(
        description="number of items that cost more than max_item_cost; their costs are capped at it. If there are "
        "any, a person must decide on a promotion with min_saving. If the active version has any, max_extra_cost does "
        "not abort"
    )
    shadow: ShadowSummary = Field(description="decisions of both versions for the same items, in mode shadow")
    events: Items[RolloutEvent] = Field(description="changes, oldest first")


class AutomationSpec(RequestBody):
    """Automatic steps after drift: rebuild, rollout, and promotion by its rules."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "rebuild_on_drift": True,
                    "rollout": {
                        "mode": "shadow",
                        "promote": {"max_accuracy_loss": 0.01},
                        "abort": {"max_extra_cost": 0.5},
                    },
                }
            ]
        }
    )

    rebuild_on_drift: bool = Field(
        default=False,
        description="after a drift alarm of the active version, build the next version from the feedback rows since "
        "the change point, or from a recording, once there are at least 200",
    )
    recording: Name | None = Field(
        default=None,
        description="build from the rows of this recording since the change instead of from feedback rows",
    )
    rollout: RolloutRules | None = Field(
        default=None,
        description="rules of the rollout of such a version; null: the version waits until a person activates it",
    )


class AutomationEvent(Value):
    """An automatic step after drift, or the reason why it failed."""

    at: str = Field(description="time, UTC, ISO 8601")
    event: Literal["waiting", "rebuild", "rollout", "failed"] = Field(
        description="waiting: the recording has too few rows since the change; rebuild: a build was queued; rollout: "
        "its version is rolled out; failed: a step failed, or the rollout was aborted or stopped. A failed step is "
        "repeated after the next alarm, or when the automation is set again"
    )
    reason: str = Field(description="what was started; of waiting and failed: the reason, and what to do")


class Automation(Value):
    """The automatic steps of an artifact after drift, and the steps taken so far."""

    kind: str = Field(description="the artifact kind", examples=["cascade"])
    name: str = Field(description="the artifact's name", examples=["digits"])
    spec: AutomationSpec = Field(description="the configuration")
    drifted_version: int | None = Field(description="the last version whose drift led to a rebuild; null: none")
    build: str | None = Field(description="id of this rebuild; null: none")
    rollout_version: int | None = Field(description="the version that was rolled out; null: none")
    problem: str | None = Field(description="why the last rebuild or rollout failed; null: no failure")
    events: Items[AutomationEvent] = Field(description="the latest steps and failures, oldest first")
