"""Requests and replies of policies: options of builds, queries, and decisions.

A sensor is a feature of a feature table, or a classifier of a trace. Costs and budgets are in the dataset's unit.
In docstrings, *acquisition DAG* refers to the paper of Wang, Trapeznikov, and Saligrama.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from models.artifact import DecisionFacts
from models.base import LARGEST, ExcludedNames, ItemId, Items, Label, RequestBody, Value, Vector
from models.chat_options import ChatOptions
from models.conversation import ConversationOptions
from models.evaluation import HasCompleteItems
from models.limits import Amount, Budget, HasBudget

GraphKind = Literal["auto", "grown", "subsets"]
Weight = Annotated[float, Field(ge=0, le=LARGEST)]
Number = Annotated[float, Field(ge=-1e30, le=1e30)]


class PolicyOptions(ChatOptions):
    """Options of a policy build (``params``)."""

    tradeoffs: Literal["auto"] | Annotated[Items[Weight], Field(min_length=1, max_length=100)] = Field(
        default="auto",
        description="weights of cost against errors (λ), in errors per unit of cost; auto: ``points`` values, from "
        "one that saves hardly any cost to one with which at most the cheapest sensor is acquired",
    )
    points: int = Field(
        default=20, ge=1, le=100, description="number of trade-offs of auto; one more if a sensor is free"
    )
    trees: int = Field(
        default=80,
        ge=4,
        le=500,
        description="maximum number of trees of a classifier, a multiple of 4; of a regression: at most 24",
    )
    depth: int = Field(default=4, ge=1, le=6, description="depth of the trees; in regressions at most 3")
    folds: int = Field(
        default=5,
        ge=2,
        le=20,
        description="number of members: each learns from all folds of the rows except one, and is validated on this "
        "one",
    )
    graph: GraphKind = Field(
        default="auto",
        description="sets of sensors that are states. subsets: all sets, as in the paper, for at most 10 sensors; "
        "grown: useful sets, found sensor by sensor with one step of look-ahead; auto: grown for more than 6 sensors. "
        "Without classes, states are sets of few classifiers, those without confidences last",
    )
    embeddings: bool = Field(
        default=False,
        description="whether decisions, including the first one, use the item's embedding, which requests send "
        "as ``embedding``; requires a trace with embeddings",
    )
    embedder: Label | None = Field(
        default=None,
        description="endpoint that computes embeddings of texts in runs, for policies with embeddings; null: "
        "requests have embeddings",
    )
    conversation: ConversationOptions | None = Field(
        default=None,
        description="how chats are embedded; null: as the dataset stores it, else by the last user message",
    )
    parallel: Annotated[Items[Annotated[Items[Label], Field(min_length=2)]], Field(max_length=200)] = Field(
        default=(),
        description="groups of sensors that are always acquired together. A group costs the sum of its sensors and "
        "takes as long as the slowest one. Other sensors are acquired one after the other",
    )
    worst_case_quantile: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="quantile of a sensor's costs that counts as its time for deadlines, if costs are times and the "
        "spec has no times; 1: the largest cost",
    )
    confidence: float = Field(
        default=0.95,
        ge=0.5,
        lt=1,
        description="confidence with which the mean cost is within the budget; 0.5: the mean cost on validation rows "
        "equals the budget",
    )

    @property
    def embeds(self) -> bool:
        """Return whether the policy uses embeddings."""
        return self.embeddings or self.embedder is not None


EMBEDDING = "the item's embedding, required at every step if the artifact was built with embeddings; else null"
_IGNORED = "sent sensors that are not used: of a group that is acquired together, some were not sent"


class Answer(Value):
    """Label and confidence that a classifier of a trace returned."""

    label: Annotated[str, Field(max_length=200)] = Field(
        description="label of the answer; a label that the trace does not have is ignored"
    )
    confidence: Number | None = Field(
        default=None, description="confidence of the answer, if the trace has confidences of this classifier"
    )


Told = Number | str | None
Acquired = Told | Answer | Annotated[Items[Told], Field(min_length=1, max_length=10_000)]
"""The value of a sensor.

For a feature: its number or category, null if it is missing, or a list of these. For a classifier: its label, its label
and confidence, or both by name; without classes, its confidence, or null if it has none.
"""


class PolicyTarget(HasBudget):
    """Objective and limits of a decision: trade-off, budget, accuracy, or deadline.

    Without a trade-off or budget, errors are minimized. The service answers queries without any limit at the default
    operating point (``savings.query``).
    """

    tradeoff: Weight | None = Field(
        default=None,
        description="weight of cost against errors (λ), in errors per unit of cost; with losses, in units of loss per "
        "unit of cost: 1 minimizes their sum",
        examples=[0.02],
    )
    budget: Budget | None = Field(
        default=None, description="upper bound on the expected cost of an item, in the artifact's unit", examples=[6.0]
    )
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="lower bound on accuracy, from 0 to 1. The cheapest point within the budget whose accuracy on "
        "unseen rows, minus one standard error, reaches it decides",
        examples=[0.9],
    )

    max_item_cost: Amount | None = Field(
        default=None,
        description="hard limit on the cost of each item, at mean prices, in the artifact's unit. With a trade-off or "
        "a budget, actions that would exceed it are excluded. Without these, it is also the budget if items have "
        "embeddings and no decisions for hard limits were learned",
        examples=[9.0],
    )
    deadline: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="hard limit on the time of each item, by worst-case times, in the unit of the sensors' times. "
        "Sensors that are acquired together take as long as the slowest one. With other limits, actions that would "
        "exceed it are excluded",
        examples=[None],
    )
    excluded: ExcludedNames = ()

    @model_validator(mode="after")
    def _is_one(self) -> "PolicyTarget":
        if self.tradeoff is not None and self.budget is not None:
            raise ValueError(f"tradeoff cannot be combined with budget, got {self.tradeoff:g} and {self.budget}")
        if self.tradeoff is not None and self.min_accuracy is not None:
            raise ValueError(
                f"tradeoff cannot be combined with min_accuracy, got {self.tradeoff:g} and {self.min_accuracy:g}"
            )
        if self.max_item_cost is not None and self.min_accuracy is not None:
            raise ValueError(
                f"max_item_cost cannot be combined with min_accuracy, got {self.max_item_cost:g} and "
                f"{self.min_accuracy:g}"
            )
        return self

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sensors that must not be acquired."""
        return self.excluded


class PolicyQuery(RequestBody, PolicyTarget):
    """An item's acquired readings, and the limits of the next decision."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"budget": 6.0, "item": "image-1", "acquired": {"neighbors": {"label": "3", "confidence": 0.9}}}
            ]
        }
    )

    embedding: Vector | None = Field(default=None, description=EMBEDDING)
    item: ItemId | None = Field(
        default=None,
        description="the item's id. Items are divided by their ids between two operating points, so that the mean cost "
        "equals the budget. The same id always gets the same decisions",
    )
    acquired: dict[Label, Acquired] = Field(
        default_factory=dict,
        description="acquired values by sensor. For a feature: its number or category, null if it is missing, or a "
        "list of these. For a classifier: its label, [label, confidence], or {label, confidence}; without classes, "
        "its confidence, or null if the dataset has none",
    )

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sensors that must not be acquired; already acquired ones remain usable."""
        return tuple(name for name in self.excluded if name not in self.acquired)


class PolicyEvaluateRequest(RequestBody, PolicyTarget, HasCompleteItems):
    """Complete items to evaluate with a policy."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "budget": 6.0,
                    "items": [
                        {
                            "id": "image-1",
                            "values": {
                                "logistic": ["3", 0.8],
                                "neighbors": ["3", 0.97],
                                "small-jury": ["3", 0.96],
                                "large-jury": ["3", 0.97],
                            },
                        }
                    ],
                }
            ]
        }
    )


class AcquireDecision(Value):
    """The next sensor to acquire."""

    action: Literal["acquire"] = Field(default="acquire", description="acquire a further sensor")
    sensor: str = Field(description="the sensor to acquire")
    cost: float = Field(description="its mean cost, in the artifact's unit")
    expected_loss: float = Field(
        description="expected error rate after further acquisitions, from 0 to 1 (with losses: expected loss in the "
        "artifact's unit), plus the expected further cost times the trade-off"
    )
    then: Items[str] = Field(description="sensors to acquire after it, in this order, independently of its result")
    together: Items[str] = Field(default=(), description="sensors in ``then`` that are acquired at the same time")
    time: float | None = Field(
        default=None,
        description="maximum time of this sensor and those acquired with it, in the unit of the sensors' times; null: "
        "times are unknown",
    )
    tradeoff: float | None = Field(description="the trade-off that decided, in errors per unit of cost")
    ignored: Items[str] = Field(description=_IGNORED)


class ClassifyDecision(Value):
    """The predicted class of the item."""

    action: Literal["classify"] = Field(default="classify", description="stop and classify")
    label: str = Field(description="the class")
    probabilities: dict[str, float] = Field(description="probability of each class, from 0 to 1")
    expected_loss: float = Field(
        description="expected error rate, from 0 to 1; with losses, the expected loss in the artifact's unit"
    )
    tradeoff: float | None = Field(
        description="the trade-off that decided, in errors per unit of cost; null: this point acquires nothing"
    )
    ignored: Items[str] = Field(description=_IGNORED)


class AnswerDecision(Value):
    """The classifier whose answer is accepted; for datasets without classes."""

    action: Literal["answer"] = Field(default="answer", description="stop and accept an acquired answer")
    answer: str = Field(description="the classifier whose answer is accepted", examples=["gpt-4"])
    quality: float = Field(
        description="expected quality of this answer, from 0 to 1: the probability that it is correct, or its grade"
    )
    qualities: dict[str, float] = Field(
        description="expected quality of the answer of each acquired classifier, from 0 to 1"
    )
    expected_loss: float = Field(description="1 minus the expected quality; with losses, in the artifact's unit")
    tradeoff: float | None = Field(
        description="the trade-off that decided, in errors per unit of cost; null: this classifier always answers, or, "
        "if items may be rejected, nothing is acquired"
    )
    ignored: Items[str] = Field(description=_IGNORED)


class RejectDecision(Value):
    """The item is sent to a person.

    This costs less than the expected loss of any answer.
    """

    action: Literal["reject"] = Field(default="reject", description="stop and send the item to a person")
    probabilities: dict[str, float] = Field(
        description="probability of each class, from 0 to 1; empty if answers have no classes"
    )
    expected_loss: float = Field(description="the cost of the rejection, in the artifact's unit")
    tradeoff: float | None = Field(description="the trade-off that decided; null: this point acquires nothing")
    ignored: Items[str] = Field(description=_IGNORED)


StopDecision = ClassifyDecision | AnswerDecision | RejectDecision
PolicyDecision = Annotated[
    AcquireDecision | ClassifyDecision | AnswerDecision | RejectDecision, Field(discriminator="action")
]


class AcquireReply(AcquireDecision, DecisionFacts):
    """The next sensor to acquire, and the artifact that decided."""


class ClassifyReply(ClassifyDecision, DecisionFacts):
    """The predicted class of the item, and the artifact that decided."""


class AnswerReply(AnswerDecision, DecisionFacts):
    """The classifier whose answer is accepted, and the artifact that decided."""


class RejectReply(RejectDecision, DecisionFacts):
    """The item is sent to a person, and the artifact that decided."""


PolicyReply = Annotated[AcquireReply | ClassifyReply | AnswerReply | RejectReply, Field(discriminator="action")]
