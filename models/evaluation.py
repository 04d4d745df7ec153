"""Requests and replies of evaluation: complete items and their measured outcomes."""

from typing import Annotated

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import ItemId, Items, Value, Vector
from models.savings import Interval
from models.weights import Weight

Cell = Annotated[float, Field(ge=-1e30, le=1e30)] | Annotated[str, Field(max_length=200)] | bool | None
"""A cell of a row: a number, a category or label, or null where it is missing."""
Cells = Cell | Annotated[Items[Cell], Field(max_length=10_000)] | Annotated[dict[str, Cell], Field(max_length=100)]
"""The cells of a feature or a classifier: one, all of them in order, or by name."""
Sizes = (
    Annotated[float, Field(ge=1, le=1e12)]
    | Annotated[Items[Annotated[float, Field(ge=1, le=1e12)]], Field(min_length=1, max_length=8)]
)


class CompleteItem(Value):
    """An item with all values and answers that the artifact may acquire."""

    id: ItemId | None = Field(default=None, description="the item's id; null: its index, counted from 0")
    values: dict[Annotated[str, Field(max_length=400)], Cells] = Field(
        default_factory=dict,
        description="by feature, its value or the values of its columns; by classifier, its label, [label, "
        "confidence], or {label, confidence, cost, correct, loss} with the quality ``correct`` from 0 to 1; for "
        "policies without classes, its confidence. Columns by name, such as `knn.confidence`, are accepted, too",
    )
    embedding: Vector | None = Field(default=None, description="the item's embedding, if the artifact uses embeddings")
    size: Sizes | None = Field(default=None, description="the item's size, if costs depend on size")
    truth: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="the true label, if known; accuracy is reported only with true labels"
    )
    weight: Weight | None = Field(
        default=None,
        description="number of items of the real traffic that this item represents, for the means of the "
        "summary; null: 1",
    )


class HasCompleteItems(Value):
    """Base class of requests that contain complete items."""

    items: Annotated[Items[CompleteItem], Field(min_length=1)] = Field(description="the items")


class EvaluatedItem(Value):
    """Answer, cost, and correctness of one evaluated item."""

    id: str = Field(description="the item's id")
    label: str | None = Field(
        description="the answer; null: no answer, or the request lacks the label of the answering classifier"
    )
    confidence: float | None = Field(description="confidence of the answer, from 0 to 1; null: unknown")
    probabilities: dict[str, float] | None = Field(
        description="probability of each class, if the artifact has probabilities"
    )
    classifier: str | None = Field(description="the answering classifier; null: a learned model answers")
    accepted: bool = Field(description="whether the item got an answer; false: it was rejected")
    cost: float = Field(description="cost of its calls or features, in the artifact's unit")
    path: Items[str] = Field(description="called classifiers or acquired features, in order")
    correct: float | None = Field(description="quality of the answer, from 0 to 1; null: unknown, or rejected")
    loss: float | None = Field(
        default=None, description="loss of the answer or the reject, in the artifact's unit; null: unknown"
    )
    weight: float = Field(default=1.0, description="number of items of the real traffic that this item represents")


class ReliabilityBin(Value):
    """Items of similar confidence: mean confidence, and share of correct answers."""

    items: int = Field(description="the number of items")
    confidence: float = Field(description="mean confidence of these items")
    accuracy: float = Field(
        description="accuracy of these items; it is close to the mean confidence if confidences are calibrated"
    )
    accuracy_interval: Interval = Field(description="its 95 % confidence interval")


class EvaluationSummary(Value):
    """Accuracy, cost, and coverage of all evaluated items, with 95 % intervals."""

    items: int = Field(description="the number of items")
    coverage: float = Field(description="the share of items that got an answer, from 0 to 1")
    coverage_interval: Interval = Field(description="95 % confidence interval")
    cost: float = Field(description="the mean cost of an item, in the artifact's unit")
    cost_interval: Interval | None = Field(description="95 % confidence interval; null: only one item")
    accuracy: float | None = Field(
        description="share of correct answers among answered items with a true label; null: no true labels"
    )
    accuracy_interval: Interval | None = Field(description="its 95 % confidence interval")
    loss: float | None = Field(
        default=None,
        description="the mean loss of the items with a true label, or with measured qualities or losses, in the "
        "artifact's unit; null: there are none, or all errors are equal",
    )
    loss_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    reliability: Items[ReliabilityBin] = Field(
        default=(),
        description="accuracy by confidence, in up to 10 bins of equally many items; empty: confidences or true "
        "labels are unknown",
    )
    ignored: Items[str] = Field(description="columns of the request that the artifact does not use")


class EvaluationReply(Value):
    """Outcome of each evaluated item, and their summary."""

    items: Items[EvaluatedItem] = Field(description="outcomes of the items, in the order of the request")
    summary: EvaluationSummary = Field(description="summary of all items")
    unit: str = Field(description="the unit of costs")
    artifact: ArtifactRef = Field(description="the artifact that was evaluated")
