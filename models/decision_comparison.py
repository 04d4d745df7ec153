"""Comparison of the decisions of all artifacts with the same name and limits."""

from typing import Any

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.savings import Savings


class ComparedDecision(Value):
    """The decision of one artifact, or the error."""

    artifact: ArtifactRef = Field(description="the artifact")
    unit: str = Field(description="unit of costs, durations, budgets, and deadlines")
    decision: dict[str, Any] | None = Field(
        description="the decision, as in the reply of the artifact's decision route; null: refused"
    )
    savings: Savings | None = Field(description="savings compared with simple baselines; null: not measured")
    ignored: Items[str] = Field(description="limits of the request that this kind does not support")
    refusal: str | None = Field(description="why the decision was refused; null: it was not")


class DecisionsReply(Value):
    """The decisions of all active artifacts with the same name."""

    items: Items[ComparedDecision] = Field(description="one entry for each kind with an artifact of this name")
