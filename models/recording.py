"""Recordings: the runs of an artifact to log, the logged rows, and later truths."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from models.base import LARGEST, ItemId, Items, Json, Label, Name, RequestBody, Value, Vector
from models.feedback import Outcome
from models.stored_dataset import DatasetInfo, ReplacedDataset

MAX_ROWS, MAX_TRUTHS = 5_000, 10_000
"""Upper bounds on the rows and truths of a request."""
MAX_CALLS, MAX_DROPS = 200, 100
MAX_ANSWER, MAX_ERROR = 10_000, 1_000
LAST_SECOND = 253_370_764_799.0
"""The last second of the year 9998."""
_MEBIBYTE = 2**20
Share = Annotated[float, Field(ge=0, le=1)]


def _refuse_other_times(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"must have an offset from UTC, as 2026-11-01T00:00:00Z, got {text!r}")
    if not 0 <= timestamp_to_seconds(text) <= LAST_SECOND:
        raise ValueError(f"must be from 1970 to 9998, got {text!r}")
    return text


Timestamp = Annotated[str, Field(min_length=1, max_length=40), AfterValidator(_refuse_other_times)]
"""A time in ISO 8601 with its offset from UTC."""


def timestamp_to_seconds(timestamp: str) -> float:
    """Return the seconds since 1970 of a timestamp.

    >>> timestamp_to_seconds("1970-01-01T01:00:00.500+01:00")
    0.5
    """
    return datetime.fromisoformat(timestamp).timestamp()


class RecordedArtifact(Value):
    """The artifact whose runs are recorded; all versions are included."""

    kind: str = Field(description="the artifact kind", examples=["cascade"])
    name: Name = Field(description="the artifact's name", examples=["digits"])


class RecordingSpec(RequestBody):
    """The shares of runs to record and to explore, and the fields to record."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "artifact": {"kind": "cascade", "name": "digits"},
                    "sample": 1.0,
                    "explore": 0.05,
                    "explore_budget": 20.0,
                }
            ]
        }
    )

    artifact: RecordedArtifact | None = Field(
        default=None,
        description="the artifact, which must have classifiers that answer; null: only rows that you post, for example "
        "before there is an artifact",
    )
    unit: Label | None = Field(
        default=None, description="unit of costs, required without an artifact; null: the artifact's"
    )
    sample: Share = Field(default=1.0, description="share of the runs that are recorded, from 0 to 1, chosen at random")
    explore: Share = Field(
        default=0.0,
        description="share of the recorded runs, chosen at random, for which the remaining classifiers are called in "
        "the background. Builds raise propensities below 0.02 to 0.02, so use 0 or at least 0.02",
    )
    explore_budget: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="upper bound on the cost of such calls in a day (UTC), in the artifact's unit; required if "
        "explore is above 0",
    )
    keeps_items: bool = Field(
        default=False, description="whether items and the texts of answers are kept; false: neither is written"
    )
    drops: Annotated[Items[Label], Field(max_length=MAX_DROPS)] = Field(
        default=(), description="names of fields that are removed from kept items, at any depth"
    )
    max_bytes: int = Field(
        default=1024 * _MEBIBYTE,
        ge=_MEBIBYTE,
        le=2**40,
        description="upper bound on the bytes on a server's disk; the oldest segments are deleted first",
    )
    max_age_days: float = Field(default=90.0, gt=0, le=3650, description="age in days after which segments are deleted")
    reference: Label | None = Field(
        default=None, description="classifier whose answer is the truth of an item without a posted truth"
    )
    classifiers: Annotated[Items[Label], Field(max_length=MAX_CALLS)] = Field(
        default=(),
        description="without an artifact, the classifiers that rows and truths may name; empty: any. With an artifact, "
        "they are those of its versions",
    )

    @model_validator(mode="after")
    def _names_what_is_recorded(self) -> "RecordingSpec":
        if (self.artifact is None) == (self.unit is None):
            raise ValueError("exactly one of artifact and unit is required")
        if self.artifact is None and (self.explore or self.sample < 1):
            raise ValueError("sample and explore apply to runs of an artifact: set artifact, or explore yourself")
        if self.artifact is not None and self.classifiers:
            raise ValueError("classifiers must be empty with an artifact, whose versions have their own")
        if self.classifiers and self.reference is not None and self.reference not in self.classifiers:
            raise ValueError(f"reference must be one of classifiers, got {self.reference!r}")
        return self

    @model_validator(mode="after")
    def _bounds_exploration(self) -> "RecordingSpec":
        if self.explore > 0 and self.explore_budget is None:
            raise ValueError("explore_budget is required if explore is above 0")
        return self


class RecordedCall(Value):
    """One call of a classifier for an item."""

    classifier: Label = Field(description="the called classifier", examples=["mlp"])
    label: Annotated[str, Field(max_length=MAX_ANSWER)] | None = Field(
        default=None, description="its answer; null: none, or a text that is not kept"
    )
    confidence: Share | None = Field(default=None, description="its confidence, from 0 to 1")
    cost: float = Field(ge=0, le=LARGEST, description="cost of the call, in the artifact's unit")
    seconds: float = Field(default=0.0, ge=0, le=LARGEST, description="duration in seconds")
    propensity: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="probability, given the item, that this call was made: 1 if the artifact always makes it for this "
        "item; null: unknown",
    )
    is_explored: bool = Field(default=False, description="whether the call was made by exploration only")
    error: Annotated[str, Field(max_length=MAX_ERROR)] | None = Field(
        default=None, description="why the call failed; null: it succeeded"
    )


class RecordedRow(Value):
    """One run of an item: the version that decided, and every call."""

    id: ItemId = Field(description="the item's id, which truths name", examples=["image-1"])
    key: ItemId | None = Field(
        default=None,
        description="unique key of the row. Rows with the same key count once in datasets, so a request whose reply "
        "was lost can be repeated. null: none",
    )
    time: Timestamp | None = Field(default=None, description="when it ran, ISO 8601 with offset; null: now")
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="the artifact's version that decided"
    )
    embedding: Vector | None = Field(default=None, description="the item's embedding")
    size: Annotated[Items[Annotated[float, Field(ge=0, le=LARGEST)]], Field(max_length=16)] = Field(
        default=(), description="the item's sizes, if costs depend on size"
    )
    item: Json | None = Field(default=None, description="the item, which is kept only if the recording keeps items")
    explore: Share | None = Field(
        default=None,
        description="probability, decided before the item was seen, that all other classifiers were called, too; 0: "
        "only the artifact's own calls; null: unknown, treated as if every classifier might have been called",
    )
    candidates: Annotated[Items[Label], Field(max_length=MAX_CALLS)] = Field(
        default=(), description="the classifiers that might have been called; empty: unknown"
    )
    calls: Annotated[Items[RecordedCall], Field(min_length=1, max_length=MAX_CALLS)] = Field(
        description="the calls, at most one of each classifier"
    )

    @model_validator(mode="after")
    def _calls_once(self) -> "RecordedRow":
        names = [call.classifier for call in self.calls]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"calls must have each classifier once, got {repeated!r} {names.count(repeated)} times")
        return self


class RowsRequest(RequestBody):
    """Rows of runs that the caller made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {
                            "id": "image-1",
                            "explore": 0.1,
                            "calls": [
                                {"classifier": "mlp", "label": "7", "confidence": 0.8, "cost": 1.2, "propensity": 1.0}
                            ],
                        }
                    ]
                }
            ]
        }
    )

    items: Annotated[Items[RecordedRow], Field(min_length=1, max_length=MAX_ROWS)] = Field(
        description="the rows; either all are written or none"
    )


class AcceptedRows(Value):
    """The number of rows or truths that are on disk."""

    accepted: int = Field(description="number of rows or truths that were written and synced")


class Truth(Value):
    """The truth of an item: its class, or the quality of each classifier's answer."""

    id: ItemId = Field(description="the item's id, as in the row", examples=["image-1"])
    truth: Label | None = Field(default=None, description="the true class")
    correct: Annotated[dict[Label, bool], Field(min_length=1, max_length=MAX_CALLS)] | None = Field(
        default=None, description="instead of truth: by classifier, whether its answer was correct"
    )
    quality: Annotated[dict[Label, Share], Field(min_length=1, max_length=MAX_CALLS)] | None = Field(
        default=None, description="instead of truth: by classifier, the quality of its answer, from 0 to 1"
    )

    @model_validator(mode="after")
    def _states_one(self) -> "Truth":
        given = [name for name in ("truth", "correct", "quality") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of truth, correct, and quality is required, got {' and '.join(given) or 0}")
        return self


def truth_from_outcome(outcome: Outcome) -> Truth | None:
    """Return the truth that an outcome adds to recordings; None without an item."""
    if outcome.item is None:
        return None
    if outcome.truth is not None:
        return Truth(id=outcome.item, truth=outcome.truth)
    assert outcome.classifier is not None
    assert outcome.right is not None
    return Truth(id=outcome.item, quality={outcome.classifier: outcome.right})


class TruthsRequest(RequestBody):
    """Truths of several items; the latest truth of an item counts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"items": [{"id": "image-1", "truth": "7"}, {"id": "image-2", "correct": {"mlp": True}}]}]
        }
    )

    items: Annotated[Items[Truth], Field(min_length=1, max_length=MAX_TRUTHS)] = Field(
        description="the truths; either all are written or none"
    )


class TimeRange(RequestBody):
    """A range of time."""

    since: Timestamp | None = Field(default=None, description="start, ISO 8601 with offset; null: the oldest row")
    until: Timestamp | None = Field(default=None, description="end, exclusive; null: now")


class FreezeRequest(TimeRange):
    """The time range of rows to store as a dataset."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dataset": "november", "since": "2026-11-01T00:00:00Z", "until": None}]}
    )

    dataset: Name = Field(description="name of the dataset, which replaces one of the same name", examples=["november"])


class UsedRows(Value):
    """Numbers of used and unused recorded rows."""

    recorded_rows: int = Field(description="number of rows in the range of time")
    unused: dict[str, int] = Field(description="number of rows or calls that were not used, by reason")


class FrozenDataset(DatasetInfo, UsedRows):
    """A dataset made from recorded rows, and the numbers of unused rows."""

    replaced: ReplacedDataset | None = Field(description="the replaced dataset; null: the name is new")


class ShownRecording(Value):
    """A recording, and its size on this server's disk."""

    name: Name = Field(description="the recording's name", examples=["digits"])
    recording: RecordingSpec = Field(description="the recording")
    unit: str = Field(description="the artifact's unit of cost")
    created_at: str = Field(description="time of creation, UTC, ISO 8601")
    bytes: int = Field(description="size on disk, in bytes")
    explored_cost: float = Field(description="cost of exploration today (UTC), on all servers, in the artifact's unit")


Grouping = Literal["label", "length", "hour"]
"""How rows are grouped: by true class, by length of the prompt, or by hour of the day."""


class CoverageGroup(Value):
    """A group of rows, and the share of its rows that each classifier answered."""

    group: str | None = Field(
        description="label; range of lengths in characters, such as 12-80; or hour of the day (UTC), 00 to 23; null: "
        "rows without a label, or without a kept prompt"
    )
    rows: int = Field(description="number of rows")
    answered: dict[str, float] = Field(
        description="by classifier, the share of these rows that it answered, from 0 to 1; failed calls do not count"
    )


class CallCoverage(Value):
    """Shares of rows that each classifier answered, by group."""

    by: Grouping = Field(description="label, length (quarters by length of the prompt), or hour")
    rows: int = Field(description="number of rows that are counted; of a recording, at most the newest 50,000")
    classifiers: Items[str] = Field(description="the classifiers with an answer")
    groups: Items[CoverageGroup] = Field(description="the groups; of labels, the 20 with the most rows")


class RecordingReport(ShownRecording):
    """A recording, and counts of its rows."""

    rows: int = Field(description="number of rows")
    oldest: str | None = Field(description="time of the oldest row, UTC, ISO 8601; null: no rows")
    newest: str | None = Field(description="time of the newest row, UTC, ISO 8601; null: no rows")
    explored_share: float = Field(description="share of the rows with calls that were made by exploration")
    rows_with_truth: int = Field(
        description="number of rows whose id has a posted truth, or an answer of the reference"
    )
    coverage: CallCoverage | None = Field(
        default=None, description="shares of rows that each classifier answered, by group; null: not requested"
    )
