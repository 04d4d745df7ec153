"""What portfolios reach over budgets on held-out items, beside other methods."""

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.portfolio import EstimatorName


class CurvePoint(Value):
    """What one method reaches at one budget on held-out items."""

    budget: float = Field(description="what a query may cost on average, in the artifact's unit")
    estimated_accuracy: float | None = Field(
        description="the mean of the method's estimates, uncorrected, from 0 to 1; null if it has none"
    )
    accuracy: float = Field(description="the share of items, from 0 to 1, that were answered rightly")
    cost: float = Field(
        description="what a query really cost on average, in the artifact's unit; above the budget where held-out "
        "items were dearer than those that the build learned the costs from"
    )
    usage: dict[str, int] = Field(description="for each classifier the number of queries that it got")


class Curve(Value):
    """What a method reaches over budgets."""

    method: str = Field(
        description="batch: whole batches; route: single queries by shadow price; single_best, random, frugal_mct, "
        "oracle: baselines"
    )
    points: Items[CurvePoint] = Field(description="by rising budget")


class ShadowPrice(Value):
    """The price of cost at one budget."""

    budget: float = Field(description="what a query may cost on average, in the artifact's unit")
    price: float = Field(description="the accuracy that a further unit of cost brings there")


class CurveReply(Value):
    """Accuracy against budget, the methods side by side."""

    curves: Items[Curve] = Field(description="each method, on the items that the build has not seen")
    prices: Items[ShadowPrice] = Field(description="the shadow prices that single queries are routed by")
    estimator: EstimatorName = Field(description="what estimates how likely each classifier is right")
    items: int = Field(description="the number of held-out items")
    unit: str = Field(description="the unit of costs and budgets")
    artifact: ArtifactRef = Field(description="the artifact that answered")
