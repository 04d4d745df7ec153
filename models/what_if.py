"""Decisions side by side: what each kind's active artifact of a name says to the same question."""

from typing import Any

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.savings import Savings


class SideBySide(Value):
    """What one artifact says, or why it says nothing."""

    artifact: ArtifactRef = Field(description="the artifact that was asked")
    unit: str = Field(description="the unit of its costs, durations, budgets and deadlines")
    decision: dict[str, Any] | None = Field(description="its decision, as its own route gives it; null if it has none")
    savings: Savings | None = Field(
        description="what the artifact is worth beside simple alternatives; null: not measured"
    )
    ignored: Items[str] = Field(description="limits that were given and mean nothing to this kind")
    refusal: str | None = Field(description="why it has none; null if it has one")


class DecisionsReply(Value):
    """What every active artifact of a name says."""

    items: Items[SideBySide] = Field(description="one for each kind that has an artifact of the name")
