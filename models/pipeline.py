"""Requests and replies of pipelines: stages with early exits and a reject option.

A configuration acquires features in stages. After each stage, a classifier of all known features answers if it is
confident enough. After the last stage, the item is rejected or answered anyway. Costs are in the dataset's unit.
In docstrings, *EMSCO* refers to the paper of Hamilton and Fulp.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from models.artifact import DecisionFacts
from models.base import LARGEST, ExcludedNames, Items, Json, Label, RequestBody, Value
from models.evaluation import Cell, HasCompleteItems
from models.index import ImportPath
from models.limits import Budget, HasBudget

Search = Literal["auto", "exact", "emsco"]
AtTheEnd = Literal["reject", "answer"]
Share = Annotated[float, Field(ge=0, le=1)]
Cost = Annotated[float, Field(ge=0, le=LARGEST)]
Cells = Cell | Annotated[Items[Cell], Field(max_length=10_000)]
Known = dict[Label, Cells]


class Evolution(Value):
    """Parameters of EMSCO; defaults are the paper's for Pima (Table 4, Section 4.4.1)."""

    population: int = Field(default=300, ge=2, le=10_000, description="number of configurations in a generation")
    mutation: Share = Field(default=0.075, description="the probability that a configuration is mutated")
    recombination: Share = Field(default=0.8, description="the probability that two configurations are recombined")
    elite: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.2,
        description="share of configurations that the next generation keeps, among those with different objectives",
    )
    beta: Annotated[float, Field(gt=0, le=100)] = Field(
        default=2.0,
        description="parameter of the beta-binomial distribution of mutated stages; larger values favor fewer stages",
    )
    epsilon: Annotated[float, Field(gt=0, le=100)] = Field(
        default=0.01, description="parameter of the fitness: how much more a rank counts than any objective"
    )
    generations: int = Field(default=150, ge=0, le=100_000, description="maximum number of generations")
    patience: int = Field(
        default=20,
        ge=1,
        le=100_000,
        description="number of generations with the same fittest configuration after which the search ends",
    )


class PipelineOptions(Value):
    """Options of a pipeline build (``params``)."""

    learner: ImportPath = Field(
        default="sklearn.linear_model.LogisticRegression",
        description="import path of the classifier of each stage, which must have probabilities",
    )
    learner_params: dict[str, Json] = Field(
        default_factory=dict, description="the classifier's parameters; omitted ones have their defaults"
    )
    calibrate: bool = Field(
        default=False, description="whether each classifier's confidence is calibrated by cross-validation"
    )
    confidence_threshold: Share | Annotated[dict[Label, Share], Field(min_length=1)] | None = Field(
        default=None,
        description="accept threshold: the least confidence of an accepted answer, from 0 to 1; one number, or "
        "one per predicted class; null: 0.75, and with losses, each configuration gets the threshold that suits it",
    )
    after_last_stage: AtTheEnd | None = Field(
        default=None,
        description="what happens to an item if no stage is confident: reject it, or answer with the last stage's "
        "label. With answer, every item is covered, and configurations trade accuracy only for cost. null: reject; "
        "with losses, answer, or reject if the dataset's reject_cost is less than the expected loss",
    )
    max_stages: int = Field(default=4, ge=1, le=63, description="maximum number of stages")
    search: Search = Field(
        default="auto",
        description="exact: all configurations that acquire all features; emsco: evolutionary search; auto: exact if "
        "that takes only seconds, else emsco. auto also searches configurations without some features, mainly with "
        "those that forward selection ranks first. If every item is answered, all non-dominated ones are added; else "
        "those that dominate a configuration with all features",
    )
    positive_class: Label | None = Field(
        default=None,
        description="class whose false-positive rate is a fourth objective, for emsco; null: three objectives",
    )
    evolution: Evolution = Field(default=Evolution(), description="parameters of EMSCO")


class PipelineLimits(HasBudget):
    """The limits that select a configuration."""

    budget: Budget | None = Field(
        default=None,
        description="upper bound on the mean cost per item, in the artifact's unit, kept with a margin of one "
        "standard error",
        examples=[12.5],
    )
    min_accuracy: Share | None = Field(
        default=None, description="lower bound on the accuracy of accepted answers, from 0 to 1", examples=[0.9]
    )
    min_coverage: Share | None = Field(default=None, description="lower bound on coverage, from 0 to 1", examples=[0.8])
    solution: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="number of a configuration on the curve, instead of limits"
    )
    excluded: ExcludedNames = ()

    @model_validator(mode="after")
    def _is_one(self) -> "PipelineLimits":
        limits = (self.budget, self.min_accuracy, self.min_coverage)
        if self.solution is not None and any(limit is not None for limit in limits):
            raise ValueError("solution cannot be combined with limits")
        if self.solution is not None and self.excluded:
            raise ValueError("solution cannot be combined with excluded")
        return self


class PipelineQuery(RequestBody, PipelineLimits):
    """The limits of a configuration, and the item's acquired features."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"budget": 12.5, "min_coverage": 0.8, "acquired": {"perimeter": [77.9, 2.2, 86.2]}}]
        }
    )

    acquired: Known = Field(
        default_factory=dict,
        description="value of each known feature, or the values of its columns; null for missing cells",
    )


class PipelineEvaluateRequest(RequestBody, PipelineLimits, HasCompleteItems):
    """Complete items to evaluate with a pipeline."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "budget": 12.5,
                    "items": [
                        {
                            "values": {
                                "perimeter": [77.9, 2.2, 86.2],
                                "area": [441.3, 17.8, 561],
                                "texture": [14.4, 1, 19.3],
                            },
                            "truth": "benign",
                        }
                    ],
                }
            ]
        }
    )


class PipelineStage(Value):
    """The features that a stage acquires."""

    features: Items[str] = Field(description="the features that the stage acquires, in the dataset's order")
    cost: float = Field(description="cost of these features, in the artifact's unit")


class MeasuredFigures(Value):
    """Measured figures of a configuration on some rows."""

    conclusive_accuracy: float = Field(
        description="share of accepted answers that are correct; 0 without accepted answers. With losses, 1 minus "
        "the mean loss of all items, including rejected ones, as a share of the largest loss"
    )
    coverage: float = Field(description="the share of items that get an accepted answer, from 0 to 1")
    cost: float = Field(description="mean cost per item, including rejected items, in the artifact's unit")
    false_positive_rate: float | None = Field(
        description="share of items of other classes that are accepted as the positive class; null without a "
        "positive class"
    )


class Configuration(MeasuredFigures):
    """A Pareto-optimal configuration, measured on rows that the search did not use."""

    solution: int = Field(ge=0, description="number of the configuration, for ``solution`` of a query")
    stages: Items[PipelineStage] = Field(description="stages of the configuration, in order")
    validation: MeasuredFigures = Field(description="results on the rows that the configuration was chosen on")


class PipelineDecision(Configuration):
    """The configuration that the limits select."""

    confidence_threshold: float | dict[str, float] = Field(
        description="accept threshold: the least confidence of an accepted answer, for all classes or by "
        "predicted class. With losses, an answer is accepted if 1 minus its expected loss, as a share of the largest "
        "loss, is at least this threshold"
    )
    after_last_stage: AtTheEnd = Field(
        default="reject",
        description="what happens to an item if no stage is confident; with losses, answer: the answer of least "
        "expected loss, which may be a reject",
    )
    reason: str = Field(description="why this configuration was selected, and how ties were broken")


class Acquire(Value):
    """Acquire the missing features and request the next decision."""

    action: Literal["acquire"] = Field(default="acquire", description="acquire")
    features: Items[str] = Field(description="the features to acquire next")
    cost: float = Field(description="cost of these features, in the artifact's unit")
    stage: int = Field(ge=0, description="the stage that needs these features, counted from 0")


class Classify(Value):
    """Return this label; the stage's classifier is confident enough."""

    action: Literal["classify"] = Field(default="classify", description="classify")
    label: str = Field(description="the class")
    confidence: float = Field(description="the classifier's probability of this class, from 0 to 1")
    stage: int = Field(ge=0, description="the stage that answered, counted from 0")


class Reject(Value):
    """A person must decide: no stage was confident enough, or a reject costs less than the answer's expected loss."""

    action: Literal["reject"] = Field(default="reject", description="reject")
    confidence: float = Field(description="the last stage's probability of its most likely class, from 0 to 1")
    stage: int = Field(ge=0, description="the last stage, counted from 0")


Step = Acquire | Classify | Reject


class PipelineItemDecision(PipelineDecision):
    """The configuration that the limits select, and the item's next step."""

    step: Step = Field(description="the next action: acquire features, classify, or reject")


class PipelineReply(PipelineItemDecision, DecisionFacts):
    """A decision, and the artifact that decided."""
