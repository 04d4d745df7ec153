"""Runs: the service calls the classifiers itself. Requests, steps, and replies."""

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from models.artifact import DecisionFacts
from models.base import LARGEST, ItemId, Items, Json, Sent, Value, Vector
from models.limits import Budget
from models.portfolio import QuerySizes
from models.portfolio_streams import Pacing

MOST_ITEMS = 1000
Cost = Annotated[float, Field(ge=0, le=LARGEST)]


class RunItem(Value):
    """One item, and what may be known of it."""

    item: Json = Field(description="the item, as the endpoints' templates take it", examples=[[0.0, 1.0]])
    id: ItemId | None = Field(
        default=None, description="its id: the same one always takes the same path; budgets are shared out by it"
    )
    embedding: Vector | None = Field(
        default=None,
        description="of portfolios, and of policies that know embeddings; null: the embedder makes one of the text",
    )
    text: Annotated[str, Field(max_length=1_000_000)] | None = Field(
        default=None,
        description="the text to embed, where the artifact names an embedder; null: the item, where that is a text",
    )
    size: QuerySizes | None = Field(default=None, description="the item's size, where costs are functions of it")


class RunLimits(Value):
    """Within what an item, or each of several, is run."""

    deadline: Annotated[float, Field(gt=0, le=LARGEST)] | None = Field(
        default=None,
        description="how long it may take, in the artifact's unit, where that is one of time, or in that of a policy's "
        "times; policies plan with these, too",
        examples=[None],
    )
    timeout_s: float = Field(
        default=30.0, gt=0, le=600, description="seconds after which the best answer so far is given"
    )
    budget: Budget | None = Field(
        default=None,
        description='what an item may cost on average, in the artifact\'s unit, or "30%" of what the most expensive '
        "classifier costs",
        examples=[None],
    )
    max_item_cost: Cost | None = Field(
        default=None,
        description="policies: what an item may cost at most, in the artifact's unit; never exceeded as planned",
        examples=[None],
    )
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="the least share of right answers, from 0 to 1, instead", examples=[None]
    )
    min_coverage: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="pipelines: the least share of items that get an answer, from 0 to 1",
        examples=[None],
    )
    tradeoff: Cost | None = Field(
        default=None,
        description="policies: what a unit of cost weighs against errors, in errors per unit of cost, instead",
        examples=[None],
    )
    budget_pacing: Pacing | None = Field(
        default=None, description="portfolios: a stream's ledger, whose total then counts", examples=[None]
    )


class RunRequest(Sent, RunItem, RunLimits):
    """An item to run; or several, each within the same limits."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"item": [0.0, 1.0, 2.0], "deadline": 25.0, "id": "image-1"}]}
    )

    item: Json | None = Field(default=None, description="the item, as the endpoints' templates take it")
    items: Annotated[Items[RunItem], Field(min_length=1, max_length=MOST_ITEMS)] | None = Field(
        default=None, description="several items instead; a portfolio assigns them together"
    )

    @model_validator(mode="after")
    def _is_one_or_many(self) -> "RunRequest":
        if ("item" in self.model_fields_set) == (self.items is not None):
            raise ValueError("give item or items, one of the two")
        return self

    def list_items(self) -> tuple[RunItem, ...]:
        """List the items, one or many."""
        if self.items is not None:
            return self.items
        fields = {name: getattr(self, name) for name in RunItem.model_fields}
        return (RunItem.model_construct(**fields),)


class RunStep(Value):
    """One call."""

    classifier: str = Field(description="the classifier, sensor or embedder that was called")
    label: str | None = Field(default=None, description="its label; null: none, or numbers only")
    confidence: float | None = Field(default=None, description="how sure it was")
    accepted: bool = Field(
        description="whether the run's answer is this one's; false for all where the artifact combines answers"
    )
    cost: float = Field(description="what the call cost, in the artifact's unit")
    seconds: float = Field(description="how long it took, tries included")
    attempts: int = Field(default=1, description="how often it was tried; 0: it was not called")
    error: str | None = Field(default=None, description="why it gave no answer; null: it did")


class Spent(Value):
    """What a run took."""

    cost: float = Field(description="in the artifact's unit")
    seconds: float = Field(description="on the clock")
    unit: str = Field(description="the artifact's unit")


class Run(Value):
    """The answer to an item, and the way to it."""

    label: str | None = Field(description="the answer; null where what was left out leaves none")
    confidence: float | None = Field(
        default=None,
        description="how sure the one that was taken was; of a policy whose answers have no classes, how good its "
        "answer is expected to be, from 0 to 1",
    )
    probabilities: dict[str, float] | None = Field(
        default=None, description="for each class its probability, where the artifact combines answers"
    )
    steps: Items[RunStep] = Field(description="the calls, in the order they were made")
    spent: Spent = Field(description="what it cost and how long it took")
    degraded: str | None = Field(
        default=None, description="what had to be left out, and why; null: the item was run as decided"
    )
    id: ItemId | None = Field(default=None, description="the item's id, as it was sent")


class RunReply(Run, DecisionFacts):
    """A run, and the artifact that decided it."""


class FailedRun(Value):
    """An item of several that has no answer."""

    id: ItemId | None = Field(default=None, description="the item's id, as it was sent")
    error: str = Field(description="why")
    status: int = Field(description="the HTTP status that it would have had alone")
    steps: Items[RunStep] = Field(default=(), description="the calls that were made")


class RunsReply(Value):
    """The runs of several items, in the order they came."""

    items: Items[RunReply | FailedRun] = Field(description="a run, or why there is none")
    spent: Spent = Field(description="what all cost together, and how long the request took")
