"""Decisions side by side: the decision of each kind's active artifact of a name for the same limits."""

from typing import Any

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.savings import Savings


class SideBySide(Value):
    """The decision of one artifact, or why it has none."""

    artifact: ArtifactRef = Field(description="the artifact")
    unit: str = Field(description="the unit of its costs, durations, budgets and deadlines")
    decision: dict[str, Any] | None = Field(description="its decision, as its own route gives it; null if it has none")
    savings: Savings | None = Field(description="savings compared with simple baselines; null: not measured")
    ignored: Items[str] = Field(description="limits that were given and mean nothing to this kind")
    refusal: str | None = Field(description="why it has none; null if it has one")


class DecisionsReply(Value):
    """The decisions of all active artifacts of a name."""

    items: Items[SideBySide] = Field(description="one for each kind that has an artifact of the name")
