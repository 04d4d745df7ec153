"""The trade-off curve: accuracy and cost of each operating point, and of the baselines."""

from typing import Any

from pydantic import Field, JsonValue

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.savings import LOSS, ExpectedOutcome, Interval


class CurvePoint(Value):
    """One operating point."""

    limits: dict[str, JsonValue] = Field(description="limits that select this operating point")
    expected: ExpectedOutcome = Field(
        description="expected outcome of items at this operating point, with 95 % intervals"
    )
    decision: dict[str, Any] = Field(
        description="the decision at this point, as in the reply of the decision route; empty if it depends on the item"
    )


class BaselinePoint(Value):
    """Accuracy and cost of a baseline."""

    accuracy: float = Field(description="the share of items answered correctly, from 0 to 1")
    accuracy_interval: Interval | None = Field(description="95 % confidence interval of the accuracy; null: unknown")
    loss: float | None = Field(default=None, description=LOSS)
    cost: float = Field(description="mean cost of an item, in the artifact's unit")


class Baseline(Value):
    """A simple alternative to the artifact, at one or more budgets."""

    name: str = Field(
        description="name of the baseline: a classifier that always answers, a fixed set of features, a router"
    )
    points: Items[BaselinePoint] = Field(
        description="one point or, for baselines with a budget, several by rising cost"
    )
    rows: int = Field(description="number of rows that the points are measured on; 0: unknown")


class CurveReply(Value):
    """The trade-off curve: accuracy and cost of operating points and baselines."""

    points: Items[CurvePoint] = Field(description="the operating points, by rising cost")
    baselines: Items[Baseline] = Field(description="simple alternatives to the artifact")
    default: dict[str, JsonValue] = Field(
        description="limits of the default operating point, which answers queries without limits"
    )
    rows: int = Field(description="number of rows that the points are measured on; 0: unknown")
    unit: str = Field(description="the unit of costs")
    artifact: ArtifactRef = Field(description="the artifact that answered")
