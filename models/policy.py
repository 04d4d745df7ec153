"""The policy: given what was acquired of an item, which sensor next, or which class, or whose answer.

A sensor is a feature of a table of features, or a classifier of a trace whose answers are bought one by one. Costs and
budgets are in the dataset's unit. *Acquisition DAG* in docstrings is the paper of Wang, Trapeznikov and Saligrama.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from models.artifact import DecisionFacts
from models.base import LARGEST, ItemId, Items, Label, Sent, Value, Vector, Without
from models.evaluation import HasCompleteItems
from models.limits import Amount, Budget, HasBudget

GraphKind = Literal["auto", "grown", "subsets"]
Weight = Annotated[float, Field(ge=0, le=LARGEST)]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]


class PolicyOptions(Value):
    """How to build a policy from a table of features or a trace (``params`` of a build)."""

    tradeoffs: Literal["auto"] | Annotated[Items[Weight], Field(min_length=1, max_length=100)] = Field(
        default="auto",
        description="what a unit of cost weighs against errors, λ, in errors per unit of cost; auto: ``points`` values "
        "from where hardly any cost is spared to where at most the cheapest sensor is acquired",
    )
    points: int = Field(
        default=20, ge=1, le=100, description="how many trade-offs auto builds, and one more where a sensor is free"
    )
    trees: int = Field(
        default=80,
        ge=4,
        le=500,
        description="the most trees of a classifier, or, up to 24, of a regression; they are counted in fours",
    )
    depth: int = Field(default=4, ge=1, le=6, description="the depth of the trees, in regressions 3 at most")
    folds: int = Field(
        default=5,
        ge=2,
        le=20,
        description="the members of the policy: each learns from all parts of the rows but one, and is validated on "
        "that one",
    )
    graph: GraphKind = Field(
        default="auto",
        description="which sets of sensors are states: subsets: all of them, as in the paper, for at most 10 sensors; "
        "grown: useful sets, found sensor by sensor with one step of look-ahead; auto: grown for "
        "more than 6 sensors; where answers have no classes, sets of few classifiers, those without confidences last",
    )
    embeddings: bool = Field(
        default=False,
        description="whether an item's embedding is known before anything is acquired, so that items may go to the "
        "sensor that suits them, or nowhere, at once: of traces with embeddings; callers send it as ``embedding``",
    )
    embedder: Label | None = Field(
        default=None,
        description="the endpoint that makes an item's embedding of its text, for runs; embeddings are known then; "
        "null: callers send them",
    )
    parallel: Annotated[Items[Annotated[Items[Label], Field(min_length=2)]], Field(max_length=200)] = Field(
        default=(),
        description="sensors that are fetched together, in lists: none of a list is acquired without the others, they "
        "cost their sum and take as long as the longest; sensors in no list are fetched one after the other",
    )
    worst_case_quantile: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="the quantile of a sensor's costs that deadlines count as its time, where costs are times and the "
        "spec has no times; 1: the largest",
    )
    confidence: float = Field(
        default=0.95,
        ge=0.5,
        lt=1,
        description="the confidence with which the expected cost of an item must be within the budget; 0.5: the "
        "cost measured on validation equals the budget",
    )

    @property
    def embeds(self) -> bool:
        """Whether embeddings are known."""
        return self.embeddings or self.embedder is not None


EMBEDDING = "the item's embedding, where the artifact was built with embeddings, at every step; else nothing"
_IGNORED = "sensors that were sent and ignored: of sensors that are acquired together, a part alone is ignored"


class Answer(Value):
    """What a classifier of a trace answered."""

    label: Annotated[str, Field(max_length=200)] = Field(
        description="its label; one that the trace does not have is ignored"
    )
    confidence: Number | None = Field(default=None, description="its confidence, where the trace has any of it")


Told = Number | str | None
Acquired = Told | Answer | Annotated[Items[Told], Field(min_length=1, max_length=10_000)]
"""The value of a sensor: of a feature its number or category, null where that is missing, or several; of a
classifier its label, label and confidence, or both by name; of one whose answers have no classes its confidence,
null if it has none.
"""


class PolicyTarget(HasBudget):
    """What is to be achieved: a trade-off, a budget, or, with neither, the fewest errors; the service
    answers a query without any limit by those of the artifact's headline (``savings.query``)."""

    tradeoff: Weight | None = Field(
        default=None,
        description="what a unit of cost weighs against errors, λ, in errors per unit of cost",
        examples=[0.02],
    )
    budget: Budget | None = Field(
        default=None, description="what an item may cost in expectation, in the artifact's unit", examples=[6.0]
    )
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="the least share of right answers, from 0 to 1, as counted on rows that chose nothing, "
        "with a standard error to spare: the cheapest trade-off of the curve that reaches it decides, if it is within "
        "the budget",
        examples=[0.9],
    )

    max_item_cost: Amount | None = Field(
        default=None,
        description="hard limit on the cost of each item, at average prices, in the artifact's unit; alone, it "
        "is spent as "
        "far as it helps, or, where none was learned and embeddings are known, as if it were the budget, too; with a "
        "trade-off or a budget it excludes what would exceed it",
        examples=[9.0],
    )
    deadline: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="how long acquiring may take an item at most, in the unit of the sensors' times, whose worst cases "
        "count: one after the other, but sensors fetched together take as long as the longest; with other limits "
        "it excludes what would exceed it",
        examples=[None],
    )
    excluded: Without = ()

    @model_validator(mode="after")
    def _is_one(self) -> "PolicyTarget":
        if self.tradeoff is not None and self.budget is not None:
            raise ValueError(f"give tradeoff or budget, not both; they are {self.tradeoff:g} and {self.budget}")
        if self.tradeoff is not None and self.min_accuracy is not None:
            raise ValueError(
                f"give tradeoff or min_accuracy, not both; they are {self.tradeoff:g} and {self.min_accuracy:g}"
            )
        if self.max_item_cost is not None and self.min_accuracy is not None:
            raise ValueError(
                f"give max_item_cost or min_accuracy, not both; they are {self.max_item_cost:g} and "
                f"{self.min_accuracy:g}"
            )
        return self

    @property
    def left_out(self) -> tuple[str, ...]:
        """What must not be acquired."""
        return self.excluded


class PolicyQuery(Sent, PolicyTarget):
    """What is known of an item."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"budget": 6.0, "item": "image-1", "acquired": {"profiles-lda": {"label": "3", "confidence": 0.9}}}
            ]
        }
    )

    embedding: Vector | None = Field(default=None, description=EMBEDDING)
    item: ItemId | None = Field(
        default=None,
        description="the item's id: the same one always takes the same path; a budget is spent in full only by items "
        "with ids, each of which draws its own share of luck",
    )
    acquired: dict[Label, Acquired] = Field(
        default_factory=dict,
        description="what was acquired, by sensor; of a feature its number or category, null where that is missing, or "
        "a list of these; of a classifier its label, [label, confidence] or {label, confidence}; where answers have no "
        "classes its confidence, or null if the dataset has none of it",
    )

    @property
    def left_out(self) -> tuple[str, ...]:
        """What must not be acquired: what was before it failed is known, and as good as ever."""
        return tuple(name for name in self.excluded if name not in self.acquired)


class PolicyEvaluateRequest(Sent, PolicyTarget, HasCompleteItems):
    """Complete items to send through a policy."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "budget": 6.0,
                    "items": [
                        {
                            "id": "image-1",
                            "values": {
                                "profiles-lda": ["3", 0.8],
                                "pixels-logistic": ["3", 0.99],
                                "pixels-neighbours": ["3", 0.97],
                                "gradients-kernel": ["3", 0.96],
                                "pixels-forest": ["3", 0.9],
                                "jury": ["3", 0.97],
                            },
                        }
                    ],
                }
            ]
        }
    )


class AcquireDecision(Value):
    """A sensor to acquire."""

    action: Literal["acquire"] = Field(default="acquire", description="acquire a further sensor")
    sensor: str = Field(description="the sensor to acquire")
    cost: float = Field(description="what it costs, on average, in the artifact's unit")
    expected_loss: float = Field(
        description="the errors to expect of going on, from 0 to 1, plus what is still to be spent, weighed by the "
        "trade-off"
    )
    then: Items[str] = Field(description="sensors that follow whatever this one returns, in this order")
    together: Items[str] = Field(
        default=(), description="those of them that are fetched at the same time as this one, as deadlines count"
    )
    time: float | None = Field(
        default=None,
        description="how long this one and those fetched with it take at most, in the unit of the sensors' times; "
        "null: times are not known",
    )
    tradeoff: float | None = Field(description="the trade-off that decided, in errors per unit of cost")
    ignored: Items[str] = Field(description=_IGNORED)


class ClassifyDecision(Value):
    """The class of the item."""

    action: Literal["classify"] = Field(default="classify", description="stop and classify")
    label: str = Field(description="the class")
    probabilities: dict[str, float] = Field(description="for each class its probability, from 0 to 1")
    expected_loss: float = Field(description="the errors to expect, from 0 to 1")
    tradeoff: float | None = Field(
        description="the trade-off that decided, in errors per unit of cost; null: nothing is ever acquired"
    )
    ignored: Items[str] = Field(description=_IGNORED)


class AnswerDecision(Value):
    """The classifier whose answer is to be taken, where answers have no classes."""

    action: Literal["answer"] = Field(default="answer", description="stop and take an answer that was acquired")
    answer: str = Field(description="the classifier whose answer to take", examples=["gpt-4"])
    quality: float = Field(
        description="how good that answer is expected to be, from 0 to 1: the chance that it is right, or its grade"
    )
    qualities: dict[str, float] = Field(
        description="for each classifier that was acquired how good its answer is expected to be, from 0 to 1"
    )
    expected_loss: float = Field(description="what is expected to be lost, 1 less the quality")
    tradeoff: float | None = Field(
        description="the trade-off that decided, in errors per unit of cost; null: this classifier always answers"
    )
    ignored: Items[str] = Field(description=_IGNORED)


PolicyDecision = Annotated[AcquireDecision | ClassifyDecision | AnswerDecision, Field(discriminator="action")]


class AcquireReply(AcquireDecision, DecisionFacts):
    """A sensor to acquire, and the artifact that decided."""


class ClassifyReply(ClassifyDecision, DecisionFacts):
    """The class of the item, and the artifact that decided."""


class AnswerReply(AnswerDecision, DecisionFacts):
    """The classifier whose answer is accepted, and the artifact that decided."""


PolicyReply = Annotated[AcquireReply | ClassifyReply | AnswerReply, Field(discriminator="action")]
