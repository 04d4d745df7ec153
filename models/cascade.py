"""IDK classifier cascades: classifiers, queries, and decisions.

An *IDK classifier* answers a class or "I don't know"; a *deterministic* one (success probability 1) always answers.
A *cascade* calls classifiers in turn until one answers. Times are in the unit that the caller or the dataset declares.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, model_validator

from models.artifact import ArtifactRef, DecisionFacts
from models.base import LARGEST, ItemId, Items, Label, Sent, Value, Without
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
    execution_time: float = Field(
        ge=0, le=LARGEST, description="mean execution time, which the expected duration counts"
    )
    success_probability: float = Field(
        gt=0, le=1, description="probability of a real class instead of IDK; 1 makes it deterministic"
    )
    group: Label | None = Field(
        default=None, description="classifiers of one group are fully dependent, of different groups independent"
    )
    worst_case_time: float | None = Field(
        default=None,
        ge=0,
        le=LARGEST,
        description="worst-case execution time, which deadlines count; else the execution time",
    )

    @model_validator(mode="after")
    def _worst_is_not_below_mean(self) -> "Classifier":
        if self.worst_case < self.execution_time:
            raise ValueError(f"worst_case_time {self.worst_case} is below execution_time {self.execution_time}")
        return self

    @property
    def worst_case(self) -> float:
        """The time that a deadline counts."""
        return self.execution_time if self.worst_case_time is None else self.worst_case_time

    @property
    def deterministic(self) -> bool:
        """Whether it always answers."""
        return self.success_probability == 1.0


class SolveRequest(Sent):
    """Classifiers to order, with no artifact needed."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SOLVE_EXAMPLE]})

    classifiers: Items[Classifier] = Field(min_length=1, max_length=200, description="the classifiers to choose from")
    dependence: SolveDependence | None = Field(
        default=None,
        description="how the classifiers depend on each other; else grouped if any has a group, or independent",
    )
    deadline: float | None = Field(
        default=None, gt=0, description="the maximum duration that must hold, in the unit of the execution times"
    )
    algorithm: Algorithm | None = Field(default=None, description="the algorithm to use; else the best that applies")


class Discarded(Value):
    """A classifier that was set aside before solving, and why."""

    name: str = Field(description="the classifier's name")
    reason: str = Field(description="why it cannot be in the cascade")


class CascadeDecision(Value):
    """The cascade to run: call its classifiers in order until one answers."""

    cascade: Items[str] = Field(description="the classifiers in the order to call them, the deterministic one last")
    expected_duration: float = Field(description="expected duration, in the unit of the execution times")
    maximum_duration: float = Field(description="sum of the worst-case times, in the unit of the execution times")
    deadline: float | None = Field(description="the requested deadline, null if none")
    algorithm: PlanAlgorithm = Field(
        description="the algorithm that found it; frontier: chosen by budget or min_accuracy"
    )
    optimal: bool = Field(description="whether no cascade has a smaller expected duration")
    lower_bound: float = Field(description="proved: no cascade has a smaller expected duration than this")
    discarded: Items[Discarded] = Field(default=(), description="classifiers set aside before solving, and why")


class CascadeStep(Value):
    """One call of a cascade: accept the answer if its confidence reaches the threshold, else go on."""

    classifier: str = Field(description="the classifier to call")
    confidence_threshold: float | None = Field(
        description="accept its answer at this confidence or above; null: accept whatever it answers"
    )
    execution_time: float = Field(description="its mean execution time, in the artifact's unit")
    worst_case_time: float = Field(description="its worst-case execution time, in the artifact's unit")
    probability_of_reaching: float = Field(description="share of items that get as far as this step")


class CascadeLimits(HasBudget):
    """Within what a cascade artifact decides."""

    deadline: float | None = Field(
        default=None,
        gt=0,
        description="the largest sum of worst-case times, in the artifact's unit; where no cascade that ends with the "
        "deterministic classifier keeps it, the most accurate one that does answers",
        examples=[25.0],
    )
    min_accuracy: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="the least share of right answers, from 0 to 1, as counted on held-out rows, with a standard error "
        "to spare; the cheapest such cascade of the frontier is the answer",
        examples=[0.9],
    )
    budget: Budget | None = Field(
        default=None,
        description="what an item may cost, or take, on average, in the artifact's unit, with a standard error to "
        "spare; the most accurate such cascade of the frontier is the answer",
        examples=[14.0],
    )
    excluded: Without = ()


class CascadeQuery(CascadeLimits):
    """A query to a cascade."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"deadline": 25.0}]})

    item: ItemId | None = Field(
        default=None,
        description="the item's id: two cascades then share the items so that budget is spent in full, or "
        "min_accuracy just reached; the same id always gets the same one. Without it one cascade serves all",
        examples=["image-1"],
    )


class CascadeEvaluateRequest(Sent, CascadeLimits, HasCompleteItems):
    """Complete items to send through a cascade."""

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
                                    ("profiles-lda", 0.8),
                                    ("pixels-logistic", 0.99),
                                    ("pixels-neighbours", 0.97),
                                    ("gradients-kernel", 0.96),
                                    ("pixels-forest", 0.9),
                                    ("jury", 0.97),
                                )
                            },
                        }
                    ],
                }
            ]
        }
    )


class CascadeShare(Value):
    """One of two cascades between which items are shared out."""

    cascade: Items[str] = Field(description="the classifiers in the order to call them")
    share: float = Field(description="the share of items that it serves, from 0 to 1")


class CascadeRunDecision(CascadeDecision):
    """A cascade with everything that a caller needs to run it alone."""

    steps: Items[CascadeStep] = Field(description="the calls in order, with their thresholds")
    shares: Items[CascadeShare] = Field(
        default=(), description="where an item was named: the two cascades that share the items, if two do"
    )
    skipped: Items[str] = Field(
        default=(),
        description="classifiers of the decided cascade that are skipped, for their endpoint's circuit is open: how "
        "likely the steps behind them are reached, and what all take on average, is at most so much",
    )


class CascadeReply(CascadeRunDecision, DecisionFacts):
    """A decision together with the artifact it came from."""


class CascadeCurveQuery(Value):
    """The part of a cascade's trade-off curve to return."""

    deadline: float | None = Field(
        default=None,
        gt=0,
        description="cascades that always keep this deadline, in the artifact's unit; null: all",
        examples=[25.0],
    )


class DeadlineRange(Value):
    """The deadlines for which one cascade is the best."""

    deadline_from: float = Field(description="smallest deadline of the range, in the artifact's unit")
    deadline_to: float | None = Field(description="the range ends below this deadline; null: it does not end")
    cascade: Items[str] = Field(description="the classifiers in the order to call them")
    expected_duration: float = Field(description="expected duration, in the artifact's unit")
    maximum_duration: float = Field(description="sum of the worst-case times, in the artifact's unit")
    accuracy: float | None = Field(
        default=None, description="share of holdout rows that it answers correctly; null: not measured"
    )


class DeadlinesReply(Value):
    """The whole step function from deadline to cascade."""

    items: Items[DeadlineRange] = Field(description="the ranges, from the tightest deadline on")
    unit: str = Field(description="the unit of deadlines and durations")
    artifact: ArtifactRef = Field(description="the artifact that answered")


class CascadeOptions(Value):
    """How to build cascades from a trace (``params`` of a build)."""

    target_precision: float = Field(
        default=0.95,
        gt=0,
        lt=1,
        description="each IDK classifier's threshold is the smallest confidence whose precision on the build half is "
        "at least this, by its Wilson lower bound",
    )
    wilson_confidence: float = Field(
        default=0.95, gt=0.5, lt=1, description="one-sided confidence level of the Wilson lower bound"
    )
    deterministic: Label | None = Field(
        default=None, description="the classifier that ends every cascade; else the most accurate on the build half"
    )
    dependence: Dependence = Field(
        default="joint", description="how the classifiers depend on each other; joint counts it in the trace"
    )
    deadlines: Items[Annotated[float, Field(gt=0)]] = Field(
        default=(), description="deadlines that the summary reports on, in the dataset's unit"
    )
    worst_case_quantile: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="the quantile of the build half's times that deadlines count; 1: the largest",
    )
    in_time_order: bool = Field(
        default=False,
        description="whether the trace's rows are in the order of time: then the later half is held out, so that "
        "figures and deadlines are checked on what came after",
    )
