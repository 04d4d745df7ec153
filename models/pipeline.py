"""The pipeline: stages of features with early exits and a reject option.

A configuration acquires features in stages; after each, a classifier of all features known so far answers if it is
confident enough, and after the last the item is rejected, or answered all the same. Costs are in the dataset's unit.
*EMSCO* in docstrings is the paper of Hamilton and Fulp.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from models.artifact import DecisionFacts
from models.base import LARGEST, Items, Json, Label, Sent, Value, Without
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
    """How EMSCO searches; the defaults are the paper's for Pima (Table 4) and of Section 4.4.1."""

    population: int = Field(default=300, ge=2, le=10_000, description="configurations of a generation")
    mutation: Share = Field(default=0.075, description="the probability that a configuration is mutated")
    recombination: Share = Field(default=0.8, description="the probability that two are recombined")
    elite: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.2, description="the share of unique configurations that are kept"
    )
    beta: Annotated[float, Field(gt=0, le=100)] = Field(
        default=2.0, description="of the beta-binomial distribution of mutated stages: larger for fewer stages"
    )
    epsilon: Annotated[float, Field(gt=0, le=100)] = Field(
        default=0.01, description="of the fitness: by how much a rank counts for more than any objective"
    )
    generations: int = Field(default=150, ge=0, le=100_000, description="generations bred at most")
    patience: int = Field(
        default=20, ge=1, le=100_000, description="generations with the same fittest one after which the search ends"
    )
    distinct: bool = Field(
        default=False, description="whether to keep one configuration, not all, of those with equal objectives"
    )


class PipelineOptions(Value):
    """How to build a pipeline from a table of features (``params`` of a build)."""

    learner: ImportPath = Field(
        default="sklearn.linear_model.LogisticRegression",
        description="the import path of the classifier of each stage; it must give probabilities",
    )
    learner_params: dict[str, Json] = Field(
        default_factory=dict, description="the classifier's parameters; what is left out takes its default"
    )
    calibrate: bool = Field(
        default=False, description="whether each classifier's confidence is calibrated by cross-validation"
    )
    confidence_threshold: Share | Annotated[dict[Label, Share], Field(min_length=1)] = Field(
        default=0.75,
        description="the confidence from which on an answer is accepted, from 0 to 1: one for all classes, or one for "
        "each predicted class",
    )
    after_last_stage: AtTheEnd = Field(
        default="reject",
        description="what becomes of an item that no stage is confident about: reject it, or answer, as the last stage "
        "would; with answer every item is covered, and configurations trade accuracy for cost only",
    )
    max_stages: int = Field(default=4, ge=1, le=63, description="the most stages of a configuration")
    search: Search = Field(
        default="auto",
        description="exact: look at every configuration, each of which acquires all features in the end; emsco: "
        "evolve; auto: exact where it takes seconds, else "
        "emsco, and then what leaves features out, chiefly all but those that forward selection puts first: where "
        "every item is answered, all that is not dominated, else what dominates one that acquires all",
    )
    positive_class: Label | None = Field(
        default=None,
        description="the class whose false alarms are a fourth objective, for emsco; null: there are three",
    )
    evolution: Evolution = Field(default=Evolution(), description="how EMSCO searches")


class PipelineLimits(HasBudget):
    """The limits that select a configuration."""

    budget: Budget | None = Field(
        default=None,
        description="the most that an item may cost on average, in the artifact's unit; a standard error is spared",
        examples=[12.5],
    )
    min_accuracy: Share | None = Field(
        default=None, description="the least conclusive accuracy, from 0 to 1", examples=[0.9]
    )
    min_coverage: Share | None = Field(default=None, description="the least coverage, from 0 to 1", examples=[0.8])
    solution: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="the configuration to follow, instead of limits: its number on the curve"
    )
    excluded: Without = ()

    @model_validator(mode="after")
    def _is_one(self) -> "PipelineLimits":
        limits = (self.budget, self.min_accuracy, self.min_coverage)
        if self.solution is not None and any(limit is not None for limit in limits):
            raise ValueError("give solution or limits, not both")
        if self.solution is not None and self.excluded:
            raise ValueError("give solution or without, not both")
        return self


class PipelineQuery(Sent, PipelineLimits):
    """The limits of a configuration, and what was acquired of the item."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"budget": 12.5, "min_coverage": 0.8, "acquired": {"perimeter": [77.9, 2.2, 86.2]}}]
        }
    )

    acquired: Known = Field(
        default_factory=dict,
        description="each known feature's value, or the values of its columns; null where a cell is missing",
    )


class PipelineEvaluateRequest(Sent, PipelineLimits, HasCompleteItems):
    """Complete items to send through a pipeline."""

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
    """A stage: what it acquires."""

    features: Items[str] = Field(description="the features that it acquires, in the dataset's order")
    cost: float = Field(description="what they cost, in the artifact's unit")


class Achieved(Value):
    """What a configuration achieves on a part of the rows."""

    conclusive_accuracy: float = Field(description="the share of accepted answers that are right; 0 if none is")
    coverage: float = Field(description="the share of items that get an accepted answer, from 0 to 1")
    cost: float = Field(description="the mean cost of an item, rejected ones included, in the artifact's unit")
    false_positive_rate: float | None = Field(
        description="the share of items of other classes that are accepted as the positive class; null if none is named"
    )


class Configuration(Achieved):
    """One non-dominated configuration, with what it achieves on items that the search has not seen."""

    solution: int = Field(ge=0, description="its number, as ``solution`` of a query")
    stages: Items[PipelineStage] = Field(description="its stages, in order")
    validation: Achieved = Field(description="what it achieved on the items that it was chosen by")


class PipelineDecision(Configuration):
    """The configuration that fits the limits."""

    confidence_threshold: float | dict[str, float] = Field(
        description="the confidence from which on an answer is accepted: for all classes, or by predicted class"
    )
    after_last_stage: AtTheEnd = Field(
        default="reject", description="what becomes of an item that no stage is confident about"
    )
    reason: str = Field(description="why this one, and how ties were broken")


class Acquire(Value):
    """Features are missing: acquire them, and ask again."""

    action: Literal["acquire"] = Field(default="acquire", description="acquire")
    features: Items[str] = Field(description="the features to acquire next")
    cost: float = Field(description="what they cost, in the artifact's unit")
    stage: int = Field(ge=0, description="the stage that needs them, counted from 0")


class Classify(Value):
    """A stage's classifier is confident enough: this is the answer."""

    action: Literal["classify"] = Field(default="classify", description="classify")
    label: str = Field(description="the class")
    confidence: float = Field(description="the probability that the classifier gives its answer, from 0 to 1")
    stage: int = Field(ge=0, description="the stage that answered, counted from 0")


class Reject(Value):
    """No stage was confident enough: somebody else has to decide."""

    action: Literal["reject"] = Field(default="reject", description="reject")
    confidence: float = Field(description="the probability that the last stage gave its answer, from 0 to 1")
    stage: int = Field(ge=0, description="the last stage, counted from 0")


Step = Acquire | Classify | Reject


class PipelineItemDecision(PipelineDecision):
    """The configuration that fits the limits, and what to do next with the item."""

    step: Step = Field(description="what to do next: acquire features, take a class, or reject the item")


class PipelineReply(PipelineItemDecision, DecisionFacts):
    """A decision and where it came from."""
