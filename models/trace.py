"""A trace: what several classifiers answered for the same items, how its columns are read, and the rows once checked.

A classifier has answers, which are correct if they are the item's label; or each of its answers is marked as
correct or not (``correct``), or graded (``quality``, by a judge, a test, a person): then no label is needed.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Tag, model_validator

from models.arrays import Floats, Int32s, Int64s, Singles
from models.base import LARGEST, Items, Label, Value
from models.columns import (
    FARTHEST,
    Columns,
    codes_of,
    embeddings_of,
    raise_if_any,
    read_items,
    read_numbers,
    read_texts,
    read_truths,
    refuse_repeated,
    side_by_side,
)
from models.confidence_scale import BOUNDS, ConfidenceScale, guess_scale, is_beyond, to_probability
from models.cost import Amount, CostFunction, Polynomial, Terms, cost_function, size_columns_of, told_by
from models.errors import Fault
from models.units import refuse_other_times

TOLD = ("prediction", "correct", "quality")
"""The fields of which a classifier has exactly one."""
MOST_RESOURCES, MOST_USES = 32, 200
"""Resources that a trace may name, and uses of them by all its classifiers: they take as much room as costs may."""
NO_ANSWER = -1
"""In predictions: a classifier without labels, of which only the quality is known."""


class CostColumn(Value):
    """A cost that was measured for every item."""

    column: Label = Field(description="the column of the measured costs")


TraceCost = Annotated[
    Annotated[Amount, Tag("amount")]
    | Annotated[CostColumn, Tag("column")]
    | Annotated[Polynomial, Tag("polynomial")]
    | Annotated[Terms, Tag("terms")],
    told_by({"column": CostColumn, "polynomial": Polynomial, "terms": Terms}),
]


class TraceClassifier(Value):
    """One classifier of a trace: the columns of its answers, confidences, and costs."""

    name: Label = Field(description="the classifier's name")
    cost: TraceCost = Field(
        description="its cost or execution time for one item: a number, the column of the measured ones, or a function "
        "of the item's size, for example of its tokens"
    )
    prediction: Label | None = Field(
        default=None, description="the column of its answers, which are right where they are the label"
    )
    correct: Label | None = Field(
        default=None, description="instead: the column of whether it was correct, 0 or 1, false or true"
    )
    quality: Label | None = Field(
        default=None, description="or the column of its answers' quality, from 0 to 1, by a judge or a test"
    )
    confidence: Label | None = Field(default=None, description="the column of its confidences, if it gives any")
    confidence_scale: ConfidenceScale | None = Field(
        default=None,
        description="the scale of its confidences: probability (0 to 1), logprob (a log-probability, at most 0), "
        "percent (0 to 100), or logit (any number); they are converted to probabilities, which endpoints must return, "
        "too; null: probability, or logprob where no value is above 0",
    )
    scores: dict[Label, Label] | None = Field(
        default=None,
        min_length=1,
        description="for each class the column of the classifier's score for it, a logit or the logarithm of a "
        "probability, if it gives any",
    )
    resources: dict[Label, TraceCost] = Field(
        default={},
        max_length=MOST_RESOURCES,
        description="by name, other resources that it uses for one item (latency, tokens, carbon), each in a "
        "unit of its own and "
        "declared like the cost; portfolios assign batches within budgets of these",
    )
    time: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="how long it takes at most, in time_unit, which deadlines of policies count; null: as long as it "
        "costs, where the dataset's unit is one of time",
    )
    group: Label | None = Field(
        default=None, description="classifiers of one group are fully dependent, of different groups independent"
    )

    @property
    def measured_columns(self) -> tuple[str, ...]:
        """The columns of what was measured: of its cost, and of resources that it uses."""
        return tuple(each.column for each in (self.cost, *self.resources.values()) if isinstance(each, CostColumn))

    @model_validator(mode="after")
    def _told_once(self) -> "TraceClassifier":
        if self.confidence_scale is not None and self.confidence is None:
            raise ValueError(f"confidence_scale of {self.name!r} needs confidence, the column of its confidences")
        stated = [name for name in TOLD if getattr(self, name) is not None]
        if len(stated) != 1:
            given = f"{' and '.join(stated)} are" if stated else "none is"
            raise ValueError(f"give one of prediction, correct and quality for {self.name!r}; {given} given")
        return self


class TraceSpec(Value):
    """A table of items with the answers that several classifiers gave."""

    kind: Literal["trace"] = Field(description="a table of answers that classifiers gave")
    label: Label | None = Field(
        default=None, description="the column of the true class; null where all classifiers have correct or quality"
    )
    unit: Label = Field(description="the unit of all costs, for example USD or ms")
    size: Label | Items[Label] | None = Field(
        default=None, description="the column, or columns, that give an item's size; null if no cost depends on it"
    )
    item: Label | None = Field(
        default=None,
        description="the column that names the item of each row, for items that repeat: rows of one item stay together "
        "when rows are split, and intervals resample items; null: every row is an item of its own",
    )
    classifiers: Annotated[Items[TraceClassifier], Field(min_length=1, max_length=200)] = Field(
        description="the classifiers"
    )
    time_unit: Label | None = Field(
        default=None, description="the unit of the classifiers' times, for example ms; null: that of costs"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "TraceSpec":
        refuse_repeated("classifier name", (classifier.name for classifier in self.classifiers))
        self._refuse_other_resources()
        refuse_other_times({each.name: each.time for each in self.classifiers}, self.unit, self.time_unit)
        if self.item is not None and self.item in self.model_copy(update={"item": None}).used_columns:
            raise ValueError(f"item must be a column of its own, got {self.item!r}, which has another use")
        for classifier in self.classifiers:
            self._refuse_other_sizes(classifier)
            stated = next(name for name in TOLD if getattr(classifier, name) is not None)
            if getattr(classifier, stated) == self.label:
                raise ValueError(f"the {stated} of {classifier.name!r} is the label's own column {self.label!r}")
            if self.label is None and (classifier.prediction is not None or classifier.scores is not None):
                needing = "prediction" if classifier.prediction is not None else "scores"
                raise ValueError(
                    f"{classifier.name!r} has {needing}, which require the label column: set label, or use correct"
                )
        return self

    def _refuse_other_resources(self) -> None:
        for each in self.classifiers:
            if set(each.resources) != set(self.resources):
                known, given = (", ".join(sorted(names)) or "none" for names in (self.resources, each.resources))
                first = self.classifiers[0].name
                raise ValueError(
                    f"all classifiers must have the same resources: {first!r} has {known}, {each.name!r} has {given}"
                )
        uses = len(self.resources) * len(self.classifiers)
        if uses > MOST_USES:
            raise ValueError(
                f"{len(self.classifiers)} classifiers have {uses} uses of resources, at most {MOST_USES} are allowed"
            )

    def _refuse_other_sizes(self, classifier: TraceClassifier) -> None:
        for what, cost in (("cost", classifier.cost), *classifier.resources.items()):
            dimensions = function_of(cost).dimensions
            if dimensions not in (0, len(self.size_columns)):
                has = f"size names {len(self.size_columns)} columns"
                raise ValueError(f"the {what} of {classifier.name!r} is a function of {dimensions} numbers, {has}")

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of the resources, in the order of the first classifier's."""
        return tuple(self.classifiers[0].resources)

    @property
    def size_columns(self) -> tuple[str, ...]:
        """The columns of the item's size: none, one, or one for each dimension."""
        return size_columns_of(self.size)

    @property
    def used_columns(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        used = [self.label, self.item, *self.size_columns]
        for classifier in self.classifiers:
            used += [classifier.prediction, classifier.correct, classifier.quality, classifier.confidence]
            used += (classifier.scores or {}).values()
            used += classifier.measured_columns
        return tuple(dict.fromkeys(name for name in used if name is not None))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns that hold classes or items, which are text as written."""
        answers = (self.label, self.item, *(classifier.prediction for classifier in self.classifiers))
        return tuple(name for name in answers if name is not None)

    @property
    def has_classes(self) -> bool:
        """Whether every classifier has labels, so that answers can be combined."""
        return all(classifier.prediction is not None for classifier in self.classifiers)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What several classifiers answered for the same items, checked.

    labels: (n,) int32, 0 without a label, and predictions: (n, m) int32, ``NO_ANSWER`` where there is none, are indices
    into classes (the true classes first, then answers that are never true; none without a label). quality: (n, m)
    float64 from 0 to 1, how good each answer is: 1 or 0 where it is right or wrong. confidences: (n, m) float64
    probabilities, NaN in the columns of classifiers without. costs: (n, m) float64, at least 0. embeddings: (n, d)
    float32, d = 0 where there are none. margins: (n, m, c) float32, the score of each of c classes less that of the
    true class; NaN for classifiers without scores, -∞ beyond the classes of one with fewer, c = 0 if none has scores.
    sizes: (n, k) float64, k = number of size columns, at least 0; (0, 0): stored before there were any. resources:
    (n, m, r) float64, at least 0, what each of r resources of the spec is used; (0, 0, 0): none.
    items: (n,) int64 indices into item_names, the item of each row; (0,) if every row is an item of its own.
    """

    spec: TraceSpec
    classes: tuple[str, ...]
    labels: Int32s
    predictions: Int32s
    quality: Floats
    confidences: Floats
    costs: Floats
    embeddings: Singles
    margins: Singles
    sizes: Floats = field(default_factory=lambda: np.empty((0, 0)))
    resources: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))
    items: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    item_names: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.labels)

    @property
    def item_codes(self) -> Int64s:
        """The item of each row, (n,): rows with equal codes describe the same item."""
        return self.items if len(self.items) else np.arange(self.rows)

    def take(self, rows: Int64s) -> "Trace":
        """Take some of the rows, with all classes."""
        names = ["labels", "predictions", "quality", "confidences", "costs", "embeddings", "margins"]
        names += [name for name in ("sizes", "resources", "items") if len(getattr(self, name))]
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def likelihoods_of(self, temperature: float) -> Floats:
        """How likely each classifier is right about each item, (n, m): the softmax of its scores at a temperature.

        Without scores it is how good its answer is.
        """
        likelihoods = self.quality.copy()
        scored = np.flatnonzero([classifier.scores is not None for classifier in self.spec.classifiers])
        if len(scored):
            with np.errstate(over="ignore"):
                raised = np.exp(self.margins[:, scored].astype(np.float64) / temperature)
            likelihoods[:, scored] = 1 / raised.sum(axis=2)
        return likelihoods

    @classmethod
    def from_columns(cls, spec: TraceSpec, columns: Columns, embeddings: NDArray[Any] | None = None) -> "Trace":
        """Check the columns against the spec and keep what it names; raises InvalidRequest with every fault found."""
        faults: list[Fault] = []
        spec = _with_scales(spec, columns)
        label = None if spec.label is None else read_texts(columns, spec.label, faults)
        stated = [_told(columns, classifier, faults) for classifier in spec.classifiers]
        confidences = [_confidence(columns, classifier, faults) for classifier in spec.classifiers]
        measured = [_measured_cost(columns, classifier.cost, faults) for classifier in spec.classifiers]
        used = [[_measured_cost(columns, k.resources[r], faults) for k in spec.classifiers] for r in spec.resources]
        sizes = [read_numbers(columns, name, faults, at_least=0.0, at_most=LARGEST) for name in spec.size_columns]
        item_names, items = read_items(columns, spec.item, faults)
        rows = max((len(column) for column in columns.values()), default=0)
        none: tuple[tuple[str, ...], Int32s] = ((), np.zeros(rows, dtype=np.int32))
        classes, codes = none if label is None else codes_of(str(spec.label), label, faults)
        vectors = embeddings_of(embeddings, rows, faults)
        raise_if_any(faults)
        at = side_by_side(sizes, rows)
        costs = [
            _cost_at(at, k.name, k.cost, faults) if c is None else c
            for k, c in zip(spec.classifiers, measured, strict=True)
        ]
        uses = [
            [
                _cost_at(at, k.name, k.resources[r], faults) if c is None else c
                for k, c in zip(spec.classifiers, each, strict=True)
            ]
            for r, each in zip(spec.resources, used, strict=True)
        ]
        raise_if_any(faults)
        every, predictions = _predictions(classes, spec, stated, faults)
        margins = _margins(columns, spec, classes, codes, faults)
        raise_if_any(faults)
        n, right = len(codes), np.equal(predictions, codes[:, None]).astype(np.float64)
        graded = [stated[j] if c.prediction is None else right[:, j] for j, c in enumerate(spec.classifiers)]
        quality, sure, prices = (side_by_side(each, n) for each in (graded, confidences, costs))
        by_resource = [side_by_side(each, n) for each in uses]
        resources = np.stack(by_resource, axis=2) if by_resource else np.empty((0, 0, 0))
        resources.flags.writeable = False
        measured_fields = (quality, sure, prices, vectors, margins, at, resources)
        return cls(spec, every, codes, predictions, *measured_fields, items, item_names)


def _told(columns: Columns, classifier: TraceClassifier, faults: list[Fault]) -> NDArray[Any]:
    """Read the column of a classifier: answers as text, or qualities as numbers."""
    if classifier.prediction is not None:
        return read_texts(columns, classifier.prediction, faults)
    if classifier.correct is not None:
        return read_truths(columns, classifier.correct, faults)
    return read_numbers(columns, str(classifier.quality), faults, at_least=0.0, at_most=1.0)


def _predictions(
    classes: tuple[str, ...], spec: TraceSpec, stated: list[NDArray[Any]], faults: list[Fault]
) -> tuple[tuple[str, ...], Int32s]:
    """Code the answers: classes that are true for some item first, then the others in alphabetical order."""
    answers = [(j, name, stated[j]) for j, c in enumerate(spec.classifiers) if (name := c.prediction) is not None]
    strangers = sorted({str(answer) for _, _, column in answers for answer in np.unique(column)} - set(classes))
    every = (*classes, *strangers)
    code = {name: index for index, name in enumerate(every)}
    predictions = np.full((len(stated[0]), len(stated)), NO_ANSWER, dtype=np.int32)
    for j, name, column in answers:
        distinct, inverse = np.unique(column, return_inverse=True)
        predictions[:, j] = np.array([code[str(answer)] for answer in distinct], dtype=np.int32)[inverse]
        if not set(map(str, distinct)) & set(classes):
            known = f"row 1 has {str(column[0])!r}, classes are {list(classes[:5])}"
            faults.append(Fault(("table", name), f"has no class of {spec.label!r}: {known}"))
    return every, predictions


def _confidence(columns: Columns, classifier: TraceClassifier, faults: list[Fault]) -> Floats | float:
    if classifier.confidence is None:
        return np.nan
    confidences, scale = (
        read_numbers(columns, classifier.confidence, faults),
        classifier.confidence_scale or "probability",
    )
    beyond = is_beyond(confidences, scale)
    if beyond.any():
        row, (low, high) = int(beyond.argmax()), BOUNDS[scale]
        bound = "at most 0" if scale == "logprob" else f"from {round(low):g} to {round(high):g}"
        set_it = f"set confidence_scale of {classifier.name!r} to its scale: {', '.join(get_args(ConfidenceScale))}"
        message = f"must be {bound} as {scale}, got {confidences[row]:g} in row {row + 1}; {set_it}"
        faults.append(Fault(("table", classifier.confidence), message))
    return to_probability(confidences, scale)


def _with_scales(spec: TraceSpec, columns: Columns) -> TraceSpec:
    """Write into a spec the scale of confidences that are evidently log-probabilities."""
    classifiers = tuple(
        each.model_copy(update={"confidence_scale": "logprob"})
        if each.confidence_scale is None and guess_scale(_finite(columns, each.confidence)) == "logprob"
        else each
        for each in spec.classifiers
    )
    return spec if classifiers == spec.classifiers else spec.model_copy(update={"classifiers": classifiers})


def _finite(columns: Columns, name: str | None) -> Floats:
    """Return a column of numbers as far as they are finite; none for any other column."""
    column = columns.get(name) if name is not None else None
    if column is None or column.dtype.kind not in "iuf":
        return np.empty(0)
    values = column.astype(np.float64)
    return np.asarray(values[np.isfinite(values)])


def _margins(
    columns: Columns, spec: TraceSpec, classes: tuple[str, ...], labels: Int32s, faults: list[Fault]
) -> Singles:
    """Take each classifier's scores, less that of the true class."""
    most = max((len(classifier.scores or ()) for classifier in spec.classifiers), default=0)
    margins = np.full((len(labels), len(spec.classifiers), most), np.nan, dtype=np.float32)
    for j, classifier in enumerate(spec.classifiers):
        if classifier.scores is None:
            continue
        missing = [name for name in classes if name not in classifier.scores]
        if missing:
            where = ("spec", "classifiers", j, "scores")
            faults.append(Fault(where, f"have none for class {missing[0]!r} of {spec.label!r}"))
            continue
        names = list(classifier.scores)
        by_classifier = [
            read_numbers(columns, column, faults, at_least=-FARTHEST, at_most=FARTHEST)
            for column in classifier.scores.values()
        ]
        if all(map(len, by_classifier)):
            scores = np.stack(by_classifier, axis=1)
            true = scores[np.arange(len(labels)), np.array([names.index(name) for name in classes])[labels]]
            margins[:, j] = -np.inf
            margins[:, j, : len(names)] = scores - true[:, None]
    margins.flags.writeable = False
    return margins


def function_of(cost: TraceCost) -> CostFunction:
    """Return the cost function of a spec; 0 for a measured cost."""
    return cost_function(0.0 if isinstance(cost, CostColumn) else cost)[0]


def _measured_cost(columns: Columns, cost: TraceCost, faults: list[Fault]) -> Floats | float | None:
    """Read a cost that is a number or was measured; None for a function of the size."""
    match cost:
        case CostColumn(column=column):
            return read_numbers(columns, column, faults, at_least=0.0, at_most=LARGEST)
        case Polynomial() | Terms():
            return None
        case amount:
            return amount


def _cost_at(sizes: Floats, name: str, cost: TraceCost, faults: list[Fault]) -> Floats:
    """Evaluate a cost of a classifier that is a function of the size."""
    costs = function_of(cost)(sizes)
    beyond = np.flatnonzero(~(costs <= LARGEST))
    if len(beyond):
        message = f"of {name!r} in row {int(beyond[0]) + 1} is more than {LARGEST:g}"
        faults.append(Fault(("spec", "classifiers"), f"the cost {message}"))
    return costs
