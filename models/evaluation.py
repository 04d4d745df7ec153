"""Evaluation: complete items through an artifact, and what became of each."""

from typing import Annotated

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import ItemId, Items, Value, Vector
from models.savings import Interval

Cell = Annotated[float, Field(ge=-1e30, le=1e30)] | Annotated[str, Field(max_length=200)] | bool | None
"""A cell of a row: a number, a category or label, or null where it is missing."""
Cells = Cell | Annotated[Items[Cell], Field(max_length=10_000)] | Annotated[dict[str, Cell], Field(max_length=100)]
"""The cells of a feature or a classifier: one, all of them in order, or by name."""
Sizes = (
    Annotated[float, Field(ge=1, le=1e12)]
    | Annotated[Items[Annotated[float, Field(ge=1, le=1e12)]], Field(min_length=1, max_length=8)]
)


class CompleteItem(Value):
    """An item of which everything is known that the artifact may acquire."""

    id: ItemId | None = Field(default=None, description="the item's id; null: its place, counted from 0")
    values: dict[Annotated[str, Field(max_length=400)], Cells] = Field(
        default_factory=dict,
        description="by feature its value, or the values of its columns; by classifier its label, "
        "[label, confidence] (of policies whose answers have no classes its confidence), or "
        "{label, confidence, cost, correct}, of which correct is how good the answer is, from 0 to 1; a column by "
        "its own name, such as `knn.confidence`, is the same",
    )
    embedding: Vector | None = Field(default=None, description="its embedding, where the artifact has embeddings")
    size: Sizes | None = Field(default=None, description="its size, where costs depend on it")
    truth: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="the right label, if it is known: then the accuracy is reported, too"
    )


class HasCompleteItems(Value):
    """What has complete items."""

    items: Annotated[Items[CompleteItem], Field(min_length=1)] = Field(description="the items")


class EvaluatedItem(Value):
    """What became of one item."""

    id: str = Field(description="the item's id")
    label: str | None = Field(description="the answer; null: none, or its label was not sent")
    confidence: float | None = Field(description="how sure the answer is, from 0 to 1; null: not known")
    probabilities: dict[str, float] | None = Field(
        description="for each class its probability, where the artifact has probabilities"
    )
    classifier: str | None = Field(description="the classifier whose answer it is; null: a learned model answers")
    accepted: bool = Field(description="whether the item got an answer; false: it was rejected")
    cost: float = Field(description="what was acquired costs, in the artifact's unit")
    path: Items[str] = Field(description="what was called or acquired, in order")
    correct: float | None = Field(description="how good the answer is, from 0 to 1; null: not known, or rejected")


class EvaluationSummary(Value):
    """What became of all items."""

    items: int = Field(description="the number of items")
    coverage: float = Field(description="the share of items that got an answer, from 0 to 1")
    coverage_interval: Interval = Field(description="where it lies, with 95 % confidence")
    cost: float = Field(description="the mean cost of an item, in the artifact's unit")
    cost_interval: Interval | None = Field(description="where it lies, with 95 % confidence; null: one item")
    accuracy: float | None = Field(
        description="the share of answers that are right, of the items whose truth is known; null: none is"
    )
    accuracy_interval: Interval | None = Field(description="where it lies, with 95 % confidence")
    ignored: Items[str] = Field(description="columns that were sent and that the artifact does not know")


class EvaluationReply(Value):
    """What became of each item, and of all."""

    items: Items[EvaluatedItem] = Field(description="in the order in which they came")
    summary: EvaluationSummary = Field(description="the same of all items")
    unit: str = Field(description="the unit of costs")
    artifact: ArtifactRef = Field(description="the artifact that was evaluated")
