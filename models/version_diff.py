"""Differences between two versions of an artifact, for review before activation."""

from typing import Any

from pydantic import ConfigDict, Field, JsonValue

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.savings import ExpectedOutcome
from models.version_evaluation import Differences, EvaluatedRecording, RuleFigures

MAX_EXAMPLES = 10


class VersionChange(Value):
    """A value that differs between the versions."""

    what: str = Field(description="what differs, in words", examples=["threshold of small"])
    before: JsonValue = Field(description="its value in the first version; null: none")
    after: JsonValue = Field(description="its value in the second version; null: none")


class DescribedVersion(Value):
    """One of the compared versions."""

    artifact: ArtifactRef = Field(description="the version")
    dataset: str = Field(description="the dataset that it was built from")
    created_at: str = Field(description="time of publication, UTC, ISO 8601")
    active: bool = Field(description="whether it is the active version")
    limits: dict[str, JsonValue] = Field(
        description="the limits of its decision: those of the query, else its default limits"
    )
    decision: dict[str, Any] = Field(description="the decision within these limits; empty if it depends on the item")
    expected: ExpectedOutcome | None = Field(
        description="expected outcome within these limits, measured by the version's build. If a plan needs an item to "
        "decide, it is that of the nearest operating point of the curve within the limits. null: no point is within "
        "them, or unknown"
    )


class ChangedShare(Value):
    """The share of items that use a classifier or feature, before and after."""

    name: str = Field(description="the classifier or feature")
    called_before: float = Field(description="share of the items for which the first version uses it")
    called_after: float = Field(description="share of the items for which the second version uses it")
    answers_before: float | None = Field(
        description="share of the items that it answers in the first version; null: a learned model answers"
    )
    answers_after: float | None = Field(description="share of the items that it answers in the second version")


class ItemDecision(Value):
    """A version's decision for a logged item."""

    path: Items[str] = Field(description="called classifiers or acquired features, in order")
    classifier: str | None = Field(description="the answering classifier; null: a learned model answers")
    label: str | None = Field(description="the answer, if it is a label")


class ChangedItem(Value):
    """A logged item for which the two versions decide differently."""

    id: str = Field(description="the item's name, or the index of its row, counted from 0")
    before: ItemDecision = Field(description="the decision of the first version")
    after: ItemDecision = Field(description="the decision of the second version")


class LoggedDiff(Value):
    """Differences between the decisions on logged rows."""

    dataset: str | None = Field(description="the dataset; null: a recording")
    recording: EvaluatedRecording | None = Field(default=None, description="the recording; null: a dataset")
    rows: int = Field(description="number of rows; at most 20,000, drawn at random from a longer dataset")
    compared_rows: int = Field(description="rows in which the decisions of both versions are known")
    changed_rows: int = Field(description="of these, the rows that the versions decide differently")
    shares: Items[ChangedShare] = Field(
        description="use of each classifier or feature, by name; empty if no path is known"
    )
    before: RuleFigures | None = Field(description="figures of the first version; null: refused")
    after: RuleFigures | None = Field(description="figures of the second version; null: refused")
    differences: Differences | None = Field(
        description="the second version minus the first one, on the same rows; null: refused"
    )
    refusal: str | None = Field(description="why there are no figures; null: figures exist")
    examples: Items[ChangedItem] = Field(description="up to 10 rows that the versions decide differently")


class VersionDiff(Value):
    """Changes from one version of an artifact to another."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "before": {
                        "artifact": {"kind": "cascade", "name": "digits", "version": 1},
                        "dataset": "digits",
                        "created_at": "2026-11-27T09:00:00.000Z",
                        "active": True,
                        "limits": {"budget": 4.0},
                        "decision": {"cascade": ["small", "large"]},
                        "expected": {"accuracy": 0.953, "cost": 3.9},
                    },
                    "after": {
                        "artifact": {"kind": "cascade", "name": "digits", "version": 2},
                        "dataset": "digits-rebuilt",
                        "created_at": "2026-11-28T09:00:00.000Z",
                        "active": False,
                        "limits": {"budget": 3.5},
                        "decision": {"cascade": ["small", "large"]},
                        "expected": {"accuracy": 0.955, "cost": 3.4},
                    },
                    "unit": "ms",
                    "changes": [{"what": "limit budget", "before": 4.0, "after": 3.5}],
                    "other_changes": 0,
                    "logged": None,
                }
            ]
        }
    )

    before: DescribedVersion = Field(description="the first version")
    after: DescribedVersion = Field(description="the second version")
    unit: str = Field(description="unit of costs and losses")
    changes: Items[VersionChange] = Field(
        description="limits, the decision within them, parameters, and facts of the builds that differ"
    )
    other_changes: int = Field(description="number of further facts of the builds that differ")
    logged: LoggedDiff | None = Field(description="differences on logged rows; null: no dataset was named")
