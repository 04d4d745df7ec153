"""The spec of a trace: the meaning of its columns."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, SerializerFunctionWrapHandler, Tag, model_serializer, model_validator

from models.base import LARGEST, Items, Label, Value
from models.columns import (
    require_unique_names,
)
from models.confidence_scale import ConfidenceScale
from models.conversation import ConversationWindow
from models.cost import Amount, Cost, CostFunction, Polynomial, Terms, choose_by_field, cost_function, size_columns_of
from models.losses import HasLosses
from models.setup_spec import ClassifierSetup, check_setup, omit_empty_setup
from models.units import check_time_unit
from models.weights import HasWeights
from parsimony.runs.steps import REJECT

TOLD = ("prediction", "correct", "quality", "loss")
"""Fields for the outcome of a classifier, exactly one of which is set."""
MAX_RESOURCES, MAX_USES = 32, 200
"""Resources that a trace may name, and uses of them by all its classifiers: they take as much room as costs may."""


class CostColumn(Value):
    """A cost that was measured per item."""

    column: Label = Field(description="the column of the measured costs")


TraceCost = Annotated[
    Annotated[Amount, Tag("amount")]
    | Annotated[CostColumn, Tag("column")]
    | Annotated[Polynomial, Tag("polynomial")]
    | Annotated[Terms, Tag("terms")],
    choose_by_field({"column": CostColumn, "polynomial": Polynomial, "terms": Terms}),
]


class TraceClassifier(Value):
    """A classifier of a trace: its columns of answers, confidences, and costs."""

    name: Label = Field(description="the classifier's name")
    cost: TraceCost = Field(
        description="cost or execution time of the classifier for one item: a number, the column of measured values, "
        "or a function of the item's size, for example of its tokens"
    )
    prediction: Label | None = Field(
        default=None, description="the column of its answers; an answer is correct if it equals the label"
    )
    correct: Label | None = Field(
        default=None,
        description="instead of prediction: the column that states whether it was correct: 0 or 1, false or true",
    )
    quality: Label | None = Field(
        default=None,
        description="instead of prediction: the column of the quality of its answers, from 0 to "
        "1, by a judge or a test",
    )
    loss: Label | None = Field(
        default=None,
        description="instead of prediction: the column of the loss of the classifier's answers, at least 0, in the "
        "spec's loss_unit; required for all classifiers or for none",
    )
    confidence: Label | None = Field(default=None, description="the column of its confidences, if it has any")
    confidence_scale: ConfidenceScale | None = Field(
        default=None,
        description="the scale of the classifier's confidences: probability (0 to 1), logprob (a log-probability, at "
        "most 0), percent (0 to 100), or logit (any number). They are converted to probabilities, which endpoints must "
        "return, too. null: probability, or logprob if no value is above 0",
    )
    scores: dict[Label, Label] | None = Field(
        default=None,
        min_length=1,
        description="by class, the column of the classifier's score: a logit or the logarithm of a probability",
    )
    resources: dict[Label, TraceCost] = Field(
        default={},
        max_length=MAX_RESOURCES,
        description="by name, other resources that it uses for an item (latency, tokens, carbon), each declared like "
        "the cost and in its own unit; portfolios assign batches within budgets of resources",
    )
    time: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="maximum time, in time_unit, for deadlines of policies; null: the cost, if the dataset's unit is "
        "a unit of time",
    )
    propensity: Label | None = Field(
        default=None,
        description="in a partial trace: the column of the probability, above 0, with which the classifier was called "
        "for the item. Cells may be empty if it was not called. null: the probability is estimated from embeddings",
    )
    group: Label | None = Field(
        default=None, description="classifiers of one group are fully dependent, of different groups independent"
    )

    @property
    def measured_columns(self) -> tuple[str, ...]:
        """The columns of the classifier's measured cost and resources."""
        return tuple(each.column for each in (self.cost, *self.resources.values()) if isinstance(each, CostColumn))

    @property
    def outcome_columns(self) -> tuple[str, ...]:
        """Columns that are empty if the classifier was not called.

        These are answer, confidence, scores, and measured costs.
        """
        own = (*(getattr(self, name) for name in (*TOLD, "confidence")), *(self.scores or {}).values())
        return tuple(name for name in (*own, *self.measured_columns) if name is not None)

    @model_validator(mode="after")
    def _told_once(self) -> "TraceClassifier":
        if self.confidence_scale is not None and self.confidence is None:
            raise ValueError(f"confidence_scale of {self.name!r} requires confidence")
        stated = [name for name in TOLD if getattr(self, name) is not None]
        if len(stated) != 1:
            given = f"{' and '.join(stated)} are" if stated else "none is"
            raise ValueError(f"{self.name!r} requires one of prediction, correct, quality, and loss; {given} given")
        return self


class TraceSpec(HasLosses, HasWeights):
    """Spec of a trace: items with the outcomes of several classifiers."""

    kind: Literal["trace"] = Field(description="a table of classifiers' answers")
    label: Label | None = Field(
        default=None, description="the column of the true class; null if all classifiers have correct, quality, or loss"
    )
    unit: Label = Field(description="the unit of all costs, for example USD or ms")
    size: Label | Items[Label] | None = Field(
        default=None, description="the column, or columns, that give an item's size; null if no cost depends on it"
    )
    item: Label | None = Field(
        default=None,
        description="the column that identifies the item of each row, if items repeat. Rows of one item stay together "
        "when rows are split, and intervals resample items. null: every row is a different item",
    )
    classifiers: Annotated[Items[TraceClassifier], Field(min_length=1, max_length=200)] = Field(
        description="the classifiers"
    )
    setup: Items[ClassifierSetup] = Field(
        default=(),
        description="set-up work that classifiers share. An item pays for a group once, with the first call that needs "
        "it; the costs of classifiers exclude it",
    )
    text: Label | None = Field(
        default=None,
        description="the column of the items' texts, for example prompts. If no embeddings are sent, the built-in "
        "embedder `words` embeds them. Texts are not stored",
    )
    embedder: Label | None = Field(
        default=None,
        description="the registered embedder that made the sent embeddings; builds name it, so that it also embeds "
        "requests; null: unknown, or the built-in embedder",
    )
    conversation: ConversationWindow | None = Field(
        default=None,
        description="how texts that are chats, as JSON lists of messages, are embedded; builds use the same for "
        "requests; null: texts are embedded as they are",
    )
    time_unit: Label | None = Field(
        default=None, description="the unit of the classifiers' times, for example ms; null: the unit of costs"
    )
    joint_propensity: Literal["product", "smallest"] = Field(
        default="product",
        description="the probability that several calls of a row were made, given their propensities: product: "
        "each call was drawn independently; smallest: one draw decided on all calls, so a call was made "
        "whenever a call of smaller propensity was made",
    )
    label_source: Label | None = Field(
        default=None,
        description="the classifier whose answers count as the truth in some rows, so that accuracies measure "
        "the agreement with it; null: the truth was observed",
    )

    @model_serializer(mode="wrap")
    def _omit_empty_setup(self, serialize: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """Omit ``setup`` without groups, so that specs are stored as before; a return type would replace the schema."""
        return omit_empty_setup(serialize(self))

    @model_validator(mode="after")
    def _fits_together(self) -> "TraceSpec":
        require_unique_names("classifier name", (classifier.name for classifier in self.classifiers))
        self._refuse_other_resources()
        rejects = [REJECT] if self.reject_cost is not None else []
        check_setup(self.setup, [*(classifier.name for classifier in self.classifiers), *rejects], "classifier")
        check_time_unit({each.name: each.time for each in self.cost_specs}, self.unit, self.time_unit)
        for name in ("item", "weights"):
            column = getattr(self, name)
            if isinstance(column, str) and column in self.model_copy(update={name: None}).used_columns:
                raise ValueError(f"{name} must be a column without another use, got {column!r}")
        if isinstance(self.weights, dict) and self.label is None:
            raise ValueError("weights by class require label")
        self._refuse_mixed_losses()
        for group in self.setup:
            self._refuse_other_sizes(group.name, {"cost": group.cost})
        for classifier in self.classifiers:
            self._refuse_other_sizes(classifier.name, {"cost": classifier.cost, **classifier.resources})
            stated = next(name for name in TOLD if getattr(classifier, name) is not None)
            if getattr(classifier, stated) == self.label:
                raise ValueError(f"{stated} of {classifier.name!r} must not be the label column {self.label!r}")
            if self.label is None and (classifier.prediction is not None or classifier.scores is not None):
                needing = "prediction" if classifier.prediction is not None else "scores"
                raise ValueError(
                    f"{classifier.name!r} has {needing}, which require the label column: set label, or use correct"
                )
        return self

    def _refuse_mixed_losses(self) -> None:
        measured = [each.loss is not None for each in self.classifiers]
        if any(measured) and not all(measured):
            missing = self.classifiers[measured.index(False)].name
            raise ValueError(f"loss must be set for all classifiers or none; {missing!r} has none")
        if self.reject_cost is not None and any(each.name == REJECT for each in self.classifiers):
            raise ValueError(
                f"no classifier may be named {REJECT!r} with reject_cost: it means to send items to a person"
            )
        if isinstance(self.reject_cost, dict) and self.label is None:
            raise ValueError("reject_cost must be a number: without label, it cannot depend on the true class")
        if all(measured) and self.losses is not None:
            raise ValueError("losses cannot be combined with the classifiers' loss columns")
        by_class = self.losses is not None or isinstance(self.reject_cost, dict)
        if by_class and not self.has_classes:
            other = next(each.name for each in self.classifiers if each.prediction is None)
            raise ValueError(f"losses by class require label, and prediction of every classifier; {other!r} has none")

    def _refuse_other_resources(self) -> None:
        for each in self.classifiers:
            if set(each.resources) != set(self.resources):
                known, given = (", ".join(sorted(names)) or "none" for names in (self.resources, each.resources))
                first = self.classifiers[0].name
                raise ValueError(
                    f"all classifiers must have the same resources: {first!r} has {known}, {each.name!r} has {given}"
                )
        uses = len(self.resources) * len(self.classifiers)
        if uses > MAX_USES:
            raise ValueError(f"classifiers must have at most {MAX_USES} uses of resources, got {uses}")

    def _refuse_other_sizes(self, name: str, costs: Mapping[str, TraceCost | Cost]) -> None:
        for what, cost in costs.items():
            dimensions = get_cost_function(cost).dimensions
            if dimensions not in (0, len(self.size_columns)):
                raise ValueError(
                    f"the {what} of {name!r} depends on {dimensions} sizes, but the spec has "
                    f"{len(self.size_columns)} size columns: use all of these, or a constant"
                )

    @property
    def cost_specs(self) -> tuple[TraceClassifier | ClassifierSetup, ...]:
        """All that has a cost: the classifiers, then the set-up groups."""
        every: list[TraceClassifier | ClassifierSetup] = [*self.classifiers, *self.setup]
        return tuple(every)

    @property
    def has_losses(self) -> bool:
        """Whether errors or rejects have a declared price."""
        return super().has_losses or self.classifiers[0].loss is not None

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources, in the order of the first classifier's spec."""
        return tuple(self.classifiers[0].resources)

    @property
    def size_columns(self) -> tuple[str, ...]:
        """The columns of the item's size: none, one, or one per dimension."""
        return size_columns_of(self.size)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """All columns that are read, without duplicates: stored columns and texts."""
        return tuple(dict.fromkeys((*self.used_columns, *(() if self.text is None else (self.text,)))))

    @property
    def used_columns(self) -> tuple[str, ...]:
        """All columns that are stored, without duplicates."""
        used = [self.label, self.item, *self.size_columns, *self.weight_columns]
        for classifier in self.classifiers:
            used += (*classifier.outcome_columns, classifier.propensity)
        return tuple(dict.fromkeys(name for name in used if name is not None))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns of classes or items; they are read as texts."""
        answers = (self.label, self.item, self.text, *(classifier.prediction for classifier in self.classifiers))
        return tuple(name for name in answers if name is not None)

    @property
    def has_classes(self) -> bool:
        """Whether every classifier returns labels, so that answers can be combined."""
        return all(classifier.prediction is not None for classifier in self.classifiers)


def get_cost_function(cost: TraceCost | Cost) -> CostFunction:
    """Return the cost function of a spec; 0 for a measured cost."""
    return cost_function(0.0 if isinstance(cost, CostColumn) else cost)[0]
