"""Batches: files of items that are run in the background, and their state."""

from typing import Annotated

from pydantic import ConfigDict, Field

from models.artifact import ArtifactRef, BuildStatus
from models.base import Items, Name, RequestBody, Value
from models.run import RunLimits, Spent


class BatchSpec(RequestBody, RunLimits):
    """The artifact that runs a batch, and the limits of its items."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "cascade", "name": "digits", "deadline": 1000.0, "max_concurrency": 8},
                {"kind": "portfolio", "name": "digits", "budget": "60%"},
            ]
        }
    )

    kind: str = Field(description="the artifact kind", examples=["cascade"])
    name: Name = Field(description="the artifact's name", examples=["digits"])
    version: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="version that decides; null: the version that is active when the batch is queued; during a canary "
        "rollout, the candidate decides for its share of the items",
        examples=[None],
    )
    max_concurrency: int = Field(default=8, ge=1, le=64, description="maximum number of concurrent items")

    @property
    def limits(self) -> RunLimits:
        """The limits of each item."""
        return RunLimits(**{name: getattr(self, name) for name in RunLimits.model_fields})


class BatchFacts(Value):
    """Facts of a batch that are known when it is queued and do not change."""

    id: str = Field(description="the batch's id", examples=["batch-7d0c3b9a5e4f4d6c8a1b2c3d4e5f6a7b"])
    artifact: ArtifactRef = Field(description="the artifact version that decides")
    limits: RunLimits = Field(description="limits of each item")
    max_concurrency: int = Field(description="maximum number of concurrent items")
    total: int = Field(description="number of items in the file")
    divided: bool = Field(
        default=False,
        description="whether a canary rollout chooses the version of items with an id, because the batch's spec has "
        "no version",
    )
    unit: str = Field(description="the artifact's unit")
    key: str | None = Field(default=None, description="id of the API key that pays for the items; null: none")
    team: str | None = Field(default=None, description="team that pays for the items; null: none")
    created_at: str = Field(description="time when the batch was queued, UTC, ISO 8601")


class Batch(BatchFacts):
    """A batch: facts, status, progress, and costs."""

    status: BuildStatus = Field(
        description="queued (also while it waits for another worker after its worker died), running, succeeded (every "
        "item was run, with or without an answer), failed, or cancelled"
    )
    done: int = Field(description="number of items with a stored answer")
    failed: int = Field(description="number of items that were run without an answer")
    spent: Spent = Field(description="total cost and total run time of these items")
    started_at: str | None = Field(
        default=None, description="time when a worker first started the batch, UTC, ISO 8601"
    )
    finished_at: str | None = Field(default=None, description="time when the batch ended, UTC, ISO 8601")
    error: str | None = Field(default=None, description="reason of the failure")
    open_circuits: Items[str] = Field(
        default=(),
        description="endpoints whose circuit breaker is open in the batch's worker; each worker and server has "
        "its own circuit breakers",
    )
    confidence_problems: Items[str] = Field(
        default=(),
        description="endpoints whose last 200 confidences in this batch differ from those in the build's dataset, "
        "with the difference",
    )

    @property
    def ended(self) -> bool:
        """Whether the batch has a final status."""
        return self.status in ("succeeded", "failed", "cancelled")
