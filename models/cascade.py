"""IDK classifier cascades: classifiers, queries, and decisions.

An *IDK classifier* answers with a class or "I don't know". A *deterministic* classifier (success probability 1) always
answers. A *cascade* calls classifiers in turn until one answers. Times are in the unit declared by the caller or the
dataset.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, model_validator

from models.artifact import ArtifactRef, DecisionFacts
from models.base import LARGEST, ExcludedNames, ItemId, Items, Label, RequestBody, Value
from models.chat_options import ChatOptions
from models.conversation import ConversationOptions
from models.evaluation import HasCompleteItems
from models.limits import Budget, HasBudget

SolveDependence = Literal["independent", "dependent", "grouped"]
Dependence = Literal["independent", "dependent", "grouped", "joint"]
Algorithm = Literal[
    "ratio-order", "ratio-frontier", "power-order", "power-frontier", "group-states", "group-beam", "set-states"
]
PlanAlgorithm = Literal[Algorithm, "frontier"]


_SOLVE_EXAMPLE: dict[str, JsonValue] = {
    "classifiers": [
        {"name": "K1", "execution_time": 5, "success_probability": 0.5, "group": "vision"},
        {"name": "K2", "execution_time": 9, "success_probability": 0.8, "group": "vision"},
        {"name": "K3", "execution_time": 10, "success_probability": 0.75, "group": "radar"},
        {"name": "K4", "execution_time": 20, "success_probability": 1},
    ],
    "deadline": 36,
}


class Classifier(Value):
    """An IDK classifier K = (C, P) of the cascade paper, Section 3.

    >>> Classifier(name="K1", execution_time=5, success_probability=0.6).worst_case
    5.0
    """

    name: Label = Field(description="the classifier's name, unique in its set")
    execution_time: float = Field(ge=0, le=LARGEST, description="mean execution time, for the expected duration")
    success_probability: float = Field(
        gt=0, le=1, description="probability that the classifier answers a class instead of IDK; 1: deterministic"
    )
    group: Label | None = Field(
        default=None,
        description="classifiers of the same group are fully dependent, those of different groups independent",
    )
    worst_case_time: float | None = Field(
        default=None,
        ge=0,
        le=LARGEST,
        description="worst-case execution time, for deadlines; default: the mean execution time",
    )

    @model_validator(mode="after")
    def _worst_is_not_below_mean(self) -> "Classifier":
        if self.worst_case < self.execution_time:
            raise ValueError(f"worst_case_time must be at least {self.execution_time}, got {self.worst_case}")
        return self

    @property
    def worst_case(self) -> float:
        """The worst-case execution time, which deadlines use."""
        return self.execution_time if self.worst_case_time is None else self.worst_case_time

    @property
    def deterministic(self) -> bool:
        """Whether the classifier always answers."""
        return self.success_probability == 1.0


class SolveRequest(RequestBody):
    """Classifiers to order into a cascade, without an artifact."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SOLVE_EXAMPLE]})

    classifiers: Items[Classifier] = Field(min_length=1, max_length=200, description="the classifiers to choose from")
    dependence: SolveDependence | None = Field(
        default=None,
        description="how the classifiers depend on each other; default: grouped if any classifier has a group, "
        "else independent",
    )
    deadline: float | None = Field(
        default=None, gt=0, description="upper bound on the sum of worst-case times, in the unit of the execution times"
    )
    algorithm: Algorithm | None = Field(
        default=None, description="the algorithm to use; default: the best one that applies"
    )


class Discarded(Value):
    """A classifier that was excluded before solving, and the reason."""

    name: str = Field(description="the classifier's name")
    reason: str = Field(description="why the classifier cannot be in an optimal cascade")


class CascadeDecision(Value):
    """The cascade to run: call its classifiers in order until one answers."""

    cascade: Items[str] = Field(description="the classifiers in the order to call them, the deterministic one last")
    expected_duration: float = Field(description="expected duration, in the unit of the execution times")
    maximum_duration: float = Field(description="sum of the worst-case times, in the unit of the execution times")
    deadline: float | None = Field(description="the requested deadline; null: none")
    algorithm: PlanAlgorithm = Field(
        description="the algorithm that found the cascade; frontier: selected by budget or min_accuracy"
    )
    optimal: bool = Field(description="whether the cascade is proved to have the least expected duration")
    lower_bound: float = Field(description="proved lower bound of the expected duration of any cascade")
    discarded: Items[Discarded] = Field(
        default=(), description="classifiers that were excluded before solving, with reasons"
    )


class CascadeStep(Value):
    """One call of a cascade: accept a confident answer, else escalate."""

    classifier: str = Field(description="the classifier to call")
    confidence_threshold: float | None = Field(
        description="accept threshold: the least confidence to accept the answer; null: accept every answer"
    )
    label_thresholds: dict[str, float] = Field(
        default={}, description="accept thresholds by predicted label, for labels whose threshold differs"
    )
    execution_time: float = Field(description="mean execution time, in the artifact's unit")
    worst_case_time: float = Field(description="worst-case execution time, in the artifact's unit")
    probability_of_reaching: float = Field(description="share of items that reach this step")

    def get_threshold(self, label: str | None) -> float | None:
        """Return the accept threshold of a predicted label; None: every answer is accepted."""
        common = self.confidence_threshold
        return common if label is None else self.label_thresholds.get(label, common)


class CascadeLimits(HasBudget):
    """Limits of a cascade's decisions."""

    deadline: float | None = Field(
        default=None,
        gt=0,
        description="upper bound on the sum of worst-case times, in the artifact's unit. If no cascade that ends with "
        "the deterministic classifier keeps it, the most accurate cascade that keeps it is used",
        examples=[25.0],
    )
    min_accuracy: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="lower bound on accuracy, from 0 to 1. The cheapest cascade of the frontier that reaches it on "
        "holdout rows, with a margin of one standard error, is selected",
        examples=[0.9],
    )
    budget: Budget | None = Field(
        default=None,
        description="upper bound on the mean cost or time per item, in the artifact's unit. The most accurate cascade "
        "of the frontier that keeps it, with a margin of one standard error, is selected",
        examples=[14.0],
    )
    excluded: ExcludedNames = ()


class CascadeQuery(CascadeLimits):
    """A query to a cascade."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deadline": 25.0}]})

    item: ItemId | None = Field(
        default=None,
        description="the item's id. With ids, items can be divided between two cascades, so that the budget is spent "
        "in full, or min_accuracy is just reached. The same id always gets the same cascade. Without ids, one cascade "
        "is used for all items",
        examples=["image-1"],
    )


class CascadeEvaluateRequest(RequestBody, CascadeLimits, HasCompleteItems):
    """Complete items to evaluate with a cascade."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "budget": 14.0,
                    "items": [
                        {
                            "truth": "3",
                            "values": {
                                name: {"label": "3", "confidence": confidence}
                                for name, confidence in (
                                    ("logistic", 0.8),
                                    ("neighbors", 0.97),
                                    ("small-jury", 0.96),
                                    ("large-jury", 0.97),
                                )
                            },
                        }
                    ],
                }
            ]
        }
    )


class CascadeShare(Value):
    """One of two cascades, and the random share of items that it decides."""

    cascade: Items[str] = Field(description="the classifiers in the order to call them")
    share: float = Field(description="share of items that this cascade decides, from 0 to 1")
    steps: Items[CascadeStep] = Field(description="its calls in order, with their thresholds")


class CascadeRunDecision(CascadeDecision):
    """The calls of a cascade in order, with their accept thresholds."""

    steps: Items[CascadeStep] = Field(description="the calls in order, with their thresholds")
    shares: Items[CascadeShare] = Field(
        default=(),
        description="the two cascades between which items are divided; empty if the query has no "
        "item id, or if one cascade decides for all items",
    )
    skipped: Items[str] = Field(
        default=(),
        description="classifiers of the decided cascade that are skipped because the circuit breaker of their endpoint "
        "is open; the expected duration and the probabilities of reaching later steps are then upper bounds",
    )


class CascadeReply(CascadeRunDecision, DecisionFacts):
    """A decision, and the artifact that decided."""


class CascadeCurveQuery(Value):
    """The part of a cascade's trade-off curve to return."""

    deadline: float | None = Field(
        default=None,
        gt=0,
        description="only cascades whose worst-case times keep this deadline, in the artifact's unit; null: all",
        examples=[25.0],
    )


class DeadlineRange(Value):
    """A range of deadlines, and its best cascade."""

    deadline_from: float = Field(description="smallest deadline of the range, in the artifact's unit")
    deadline_to: float | None = Field(
        description="exclusive upper end of the range, in the artifact's unit; null: unbounded"
    )
    cascade: Items[str] = Field(description="the classifiers in the order to call them")
    expected_duration: float = Field(description="expected duration, in the artifact's unit")
    maximum_duration: float = Field(description="sum of the worst-case times, in the artifact's unit")
    accuracy: float | None = Field(
        default=None, description="accuracy of the cascade on holdout rows; null: not measured"
    )


class DeadlinesReply(Value):
    """The best cascade for each range of deadlines."""

    items: Items[DeadlineRange] = Field(description="the ranges, by rising deadline")
    unit: str = Field(description="the unit of deadlines and durations")
    artifact: ArtifactRef = Field(description="the artifact that answered")


class CascadeOptions(ChatOptions):
    """Options of a cascade build (``params``)."""

    target_precision: float = Field(
        default=0.95,
        gt=0,
        lt=1,
        description="accept thresholds: the smallest confidence for which the Wilson lower bound of the precision "
        "on the build half reaches this value",
    )
    wilson_confidence: float = Field(
        default=0.95, gt=0.5, lt=1, description="one-sided confidence level of the Wilson lower bound"
    )
    deterministic: Label | None = Field(
        default=None,
        description="the classifier that ends every cascade; default: the most accurate one on the build half",
    )
    dependence: Dependence = Field(
        default="joint", description="how the classifiers depend on each other; joint: as counted in the trace"
    )
    conversation: ConversationOptions | None = Field(
        default=None,
        description="how earlier turns of a chat are used: cascades use only ``latch``; null: "
        "each turn is decided by itself",
    )
    deadlines: Items[Annotated[float, Field(gt=0)]] = Field(
        default=(), description="deadlines for which the summary has results, in the dataset's unit"
    )
    worst_case_quantile: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="the quantile of the build half's times that is used as worst-case time; 1: the maximum",
    )
    label_thresholds: bool = Field(
        default=True,
        description="whether accept thresholds of the trade-off curve may depend on the predicted label, where "
        "cross-validation supports it; false for systems that compare only the confidence, such as KServe",
    )
    in_time_order: bool = Field(
        default=False,
        description="whether the rows are in chronological order. The later half is then the holdout half, so that "
        "accuracy and deadlines are measured on later rows",
    )
