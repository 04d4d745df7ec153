"""Runs: the service calls the classifiers itself. Requests, steps, and replies."""

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from models.artifact import DecisionFacts
from models.base import LARGEST, ItemId, Items, Json, RequestBody, Value, Vector
from models.limits import Budget
from models.portfolio import QuerySizes
from models.portfolio_streams import Pacing

MAX_ITEMS = 1000
Cost = Annotated[float, Field(ge=0, le=LARGEST)]


class RunItem(Value):
    """An item to run, and its known properties."""

    item: Json = Field(description="the item, as the endpoints' templates need it", examples=[[0.0, 1.0]])
    id: ItemId | None = Field(
        default=None,
        description="the item's id: the same id always gets the same decisions; ids divide mean budgets among items",
    )
    embedding: Vector | None = Field(
        default=None,
        description="the item's embedding, for portfolios and for policies with embeddings; null: the embedder "
        "computes it from the text",
    )
    text: Annotated[str, Field(max_length=1_000_000)] | None = Field(
        default=None,
        description="the text to embed, if the artifact has an embedder; null: the item, if it is a text",
    )
    size: QuerySizes | None = Field(default=None, description="the item's size, if costs depend on size")


class RunLimits(Value):
    """Limits of a run, for each item."""

    deadline: Annotated[float, Field(gt=0, le=LARGEST)] | None = Field(
        default=None,
        description="deadline, in the artifact's unit if it is a unit of time, or in the unit of a policy's "
        "times; policies also plan with these times",
        examples=[None],
    )
    timeout_s: float = Field(
        default=30.0, gt=0, le=600, description="time limit in seconds, after which the best answer so far is returned"
    )
    budget: Budget | None = Field(
        default=None,
        description='upper bound on the mean cost per item, in the artifact\'s unit, or as a share, such as "30%", '
        "of the cost of the most expensive classifier",
        examples=[None],
    )
    max_item_cost: Cost | None = Field(
        default=None,
        description="policies: upper bound on the cost of each item, in the artifact's unit; planned costs never "
        "exceed it",
        examples=[None],
    )
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="lower bound on accuracy, from 0 to 1", examples=[None]
    )
    min_coverage: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="pipelines: lower bound on coverage, from 0 to 1",
        examples=[None],
    )
    tradeoff: Cost | None = Field(
        default=None,
        description="policies: weight of cost against errors, in errors per unit of cost, instead of a budget",
        examples=[None],
    )
    budget_pacing: Pacing | None = Field(
        default=None, description="portfolios: ledger of a stream, whose total replaces the budget", examples=[None]
    )


class RunRequest(RequestBody, RunItem, RunLimits):
    """One or several items to run within the same limits."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"item": [0.0, 1.0, 2.0], "deadline": 25.0, "id": "image-1"}]}
    )

    item: Json | None = Field(default=None, description="the item, as the endpoints' templates need it")
    items: Annotated[Items[RunItem], Field(min_length=1, max_length=MAX_ITEMS)] | None = Field(
        default=None, description="several items, instead of ``item``; a portfolio assigns them together"
    )

    @model_validator(mode="after")
    def _is_one_or_many(self) -> "RunRequest":
        if ("item" in self.model_fields_set) == (self.items is not None):
            raise ValueError("exactly one of item and items is required")
        return self

    def list_items(self) -> tuple[RunItem, ...]:
        """Return the items of the request, one or several."""
        if self.items is not None:
            return self.items
        fields = {name: getattr(self, name) for name in RunItem.model_fields}
        return (RunItem.model_construct(**fields),)


class RunStep(Value):
    """One call of a run."""

    classifier: str = Field(description="the called classifier, sensor, or embedder")
    label: str | None = Field(default=None, description="the label in the reply; null: none, or only numbers")
    confidence: float | None = Field(default=None, description="confidence of the answer")
    accepted: bool = Field(
        description="whether this answer is the run's answer; false for all calls if the artifact combines answers"
    )
    cost: float = Field(description="cost of the call, in the artifact's unit")
    seconds: float = Field(description="duration in seconds, including retries")
    attempts: int = Field(default=1, description="number of attempts; 0: not called")
    tokens: tuple[int, int] = Field(
        default=(0, 0), description="numbers of input and output tokens, if the endpoint reports them"
    )
    error: str | None = Field(default=None, description="why the call failed; null: it succeeded")


class Spent(Value):
    """Cost and duration of a run."""

    cost: float = Field(description="cost in the artifact's unit")
    seconds: float = Field(description="elapsed time in seconds")
    unit: str = Field(description="the artifact's unit")


class Run(Value):
    """The answer to an item, and the calls that were made for it."""

    label: str | None = Field(description="the answer; null: no answer")
    confidence: float | None = Field(
        default=None,
        description="confidence of the accepted answer; for policies whose answers have no classes its expected "
        "quality, from 0 to 1",
    )
    probabilities: dict[str, float] | None = Field(
        default=None, description="probability of each class, if the artifact combines answers"
    )
    steps: Items[RunStep] = Field(description="the calls, in the order in which they were made")
    spent: Spent = Field(description="cost and duration of the run")
    degraded: str | None = Field(
        default=None,
        description="classifiers or features that failed or were unavailable, with reasons; null: the item was "
        "run as decided",
    )
    id: ItemId | None = Field(default=None, description="the item's id in the request")


class RunReply(Run, DecisionFacts):
    """A run, and the artifact that decided."""


class FailedRun(Value):
    """An item without an answer, and the error."""

    id: ItemId | None = Field(default=None, description="the item's id in the request")
    error: str = Field(description="why the item has no answer")
    status: int = Field(description="the HTTP status of a request with only this item")
    steps: Items[RunStep] = Field(default=(), description="the calls that were made")


class RunsReply(Value):
    """The runs of several items, in the order of the request."""

    items: Items[RunReply | FailedRun] = Field(description="the run of each item, or the reason why it failed")
    spent: Spent = Field(description="total cost, and the duration of the request")
