"""Batches: files of items that are run in the background, and their state."""

from typing import Annotated

from pydantic import ConfigDict, Field

from models.artifact import ArtifactRef, BuildStatus
from models.base import Items, Name, Sent, Value
from models.run import RunLimits, Spent


class BatchSpec(Sent, RunLimits):
    """Which artifact is to run the items of a file, and within what each of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"kind": "cascade", "name": "digits", "deadline": 1000.0, "max_concurrency": 8},
                {"kind": "portfolio", "name": "digits-moved", "budget": "60%"},
            ]
        }
    )

    kind: str = Field(description="the artifact kind", examples=["cascade"])
    name: Name = Field(description="the artifact's name", examples=["digits"])
    version: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="the version to ask; null: the one that is active now", examples=[None]
    )
    max_concurrency: int = Field(default=8, ge=1, le=64, description="how many items are run at the same time, at most")

    @property
    def limits(self) -> RunLimits:
        """Within what each item is run."""
        return RunLimits(**{name: getattr(self, name) for name in RunLimits.model_fields})


class BatchFacts(Value):
    """What is known of a batch when it is queued, and never changes."""

    id: str = Field(description="the batch's id", examples=["batch-7d0c3b9a5e4f4d6c8a1b2c3d4e5f6a7b"])
    artifact: ArtifactRef = Field(description="the artifact that decides, in the version that was active then")
    limits: RunLimits = Field(description="within what each item is run")
    max_concurrency: int = Field(description="how many items are run at the same time, at most")
    total: int = Field(description="how many items the file has")
    unit: str = Field(description="the artifact's unit")
    created_at: str = Field(description="when it was queued, UTC, ISO 8601")


class Batch(BatchFacts):
    """A file of items, and how far it has come."""

    status: BuildStatus = Field(
        description="queued (also when it waits to go on after its worker died), running, succeeded (every item was "
        "run, with or without an answer), failed or cancelled"
    )
    done: int = Field(description="items that have an answer, which is stored")
    failed: int = Field(description="items that were run and have none")
    spent: Spent = Field(description="what these cost together, and how long their runs took, added up")
    started_at: str | None = Field(default=None, description="when a worker first took it, UTC, ISO 8601")
    finished_at: str | None = Field(default=None, description="when it ended, UTC, ISO 8601")
    error: str | None = Field(default=None, description="why it failed")
    open_circuits: Items[str] = Field(
        default=(),
        description="endpoints that failed again and again while it ran, and are left out now: its worker counts for "
        "itself, as each server does",
    )
    confidence_problems: Items[str] = Field(
        default=(),
        description="endpoints whose last 200 confidences in this batch differ from those that the artifact was built "
        "from, and how",
    )

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in ("succeeded", "failed", "cancelled")
