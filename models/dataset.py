"""What builds learn from: how a table is to be read (the spec), and the table once it has been checked.

``FeaturesSpec`` and ``TraceSpec`` say which column means what. ``FeatureTable`` and ``Trace`` are made from columns by
``FeatureTable.from_columns`` and ``Trace.from_columns``, which check everything once and name the first offending row
of each fault; whoever holds one may trust it. Rows are counted from 1 in messages.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.base import LARGEST, Items, Label, Value
from models.columns import Columns, categories_of, codes_of, embeddings_of, first_repeated, numbers, texts
from models.cost import Cost
from models.errors import Fault, InvalidRequest

FARTHEST = 1e30
"""The largest value of a feature, either way: single precision can hold it, and its square is finite."""
ROUNDED, FEW = 1e-3, 0.05
"""How far a confidence from 0 to 1 may be beyond by rounding; of how many rows another scale is taken for a mistake."""


class FeatureSpec(Value):
    """A feature: the columns that it fills, and what it costs to compute."""

    name: Label = Field(description="the feature's name")
    columns: Annotated[Items[Label], Field(min_length=1)] = Field(description="the columns that it fills")
    cost: Cost = Field(description="a number, or a function of the item's size, in the dataset's unit")


class FeaturesSpec(Value):
    """A table of items with their features and their label."""

    kind: Literal["features"] = Field(description="a table of items with features")
    label: Label = Field(description="the column of the true class")
    unit: Label = Field(description="the unit of all costs, for example ms")
    size: Label | Items[Label] | None = Field(
        default=None, description="the column, or columns, that give an item's size; null if cost does not depend on it"
    )
    features: Annotated[Items[FeatureSpec], Field(min_length=1)] = Field(description="the features")
    categorical: Items[Label] = Field(
        default=(), description="the features' columns that hold names or codes, which are read as text, not amounts"
    )
    missing: bool = Field(default=False, description="whether cells of the features' columns may be empty")

    @model_validator(mode="after")
    def _names_differ(self) -> "FeaturesSpec":
        _refuse_repeated("feature name", (feature.name for feature in self.features))
        _refuse_repeated("column", self.feature_columns)
        strangers = [column for column in self.categorical if column not in self.feature_columns]
        if strangers:
            raise ValueError(f"the categorical column {strangers[0]!r} belongs to no feature")
        return self

    @property
    def feature_columns(self) -> tuple[str, ...]:
        """The columns of all features, in order."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def size_columns(self) -> tuple[str, ...]:
        """The columns of the item's size: none, one, or one for each dimension."""
        if self.size is None:
            return ()
        return (self.size,) if isinstance(self.size, str) else self.size

    @property
    def used_columns(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        return tuple(dict.fromkeys((self.label, *self.size_columns, *self.feature_columns)))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns that hold classes or categories, which are text as written."""
        return (self.label, *self.categorical)


class CostColumn(Value):
    """A cost that was measured for every item."""

    column: Label = Field(description="the column of the measured costs")


class TraceClassifier(Value):
    """One classifier of a trace: where its answers, confidences and costs stand."""

    name: Label = Field(description="the classifier's name")
    cost: Annotated[float, Field(ge=0, le=LARGEST)] | CostColumn = Field(
        description="its cost or execution time for one item: a number, or the column of the measured ones"
    )
    prediction: Label = Field(description="the column of its answers")
    confidence: Label | None = Field(default=None, description="the column of its confidences, if it gives any")
    scores: dict[Label, Label] | None = Field(
        default=None,
        min_length=1,
        description="for each class the column of the classifier's score for it, a logit or the logarithm of a "
        "probability, if it gives any",
    )
    group: Label | None = Field(
        default=None, description="classifiers of one group are fully dependent, of different groups independent"
    )


class TraceSpec(Value):
    """A table of items with the answers that several classifiers gave."""

    kind: Literal["trace"] = Field(description="a table of answers that classifiers gave")
    label: Label = Field(description="the column of the true class")
    unit: Label = Field(description="the unit of all costs, for example USD or ms")
    classifiers: Annotated[Items[TraceClassifier], Field(min_length=1, max_length=200)] = Field(
        description="the classifiers"
    )

    @model_validator(mode="after")
    def _names_differ(self) -> "TraceSpec":
        _refuse_repeated("classifier name", (classifier.name for classifier in self.classifiers))
        predicting_label = [classifier.name for classifier in self.classifiers if classifier.prediction == self.label]
        if predicting_label:
            raise ValueError(f"the prediction of {predicting_label[0]!r} is the label's own column {self.label!r}")
        return self

    @property
    def used_columns(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        used = [self.label]
        for classifier in self.classifiers:
            used.append(classifier.prediction)
            used += [classifier.confidence] if classifier.confidence else []
            used += (classifier.scores or {}).values()
            used += [classifier.cost.column] if isinstance(classifier.cost, CostColumn) else []
        return tuple(dict.fromkeys(used))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns that hold classes, which are text as written."""
        return (self.label, *(classifier.prediction for classifier in self.classifiers))


DatasetSpec = Annotated[FeaturesSpec | TraceSpec, Field(discriminator="kind")]


def _refuse_repeated(what: str, names: Iterable[str]) -> None:
    repeated = first_repeated(names)
    if repeated is not None:
        raise ValueError(f"{what} {repeated!r} stands twice")


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Items with features, checked.

    values: (n, d) float64, the feature columns in the order of the spec: numbers, or for categorical columns indices
    into their categories; NaN where a cell is missing. categories: for each column their names, none for numbers.
    labels: (n,) int32, indices into classes. sizes: (n, k) float64, k = number of size columns, all above 0.
    """

    spec: FeaturesSpec
    classes: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    labels: Int32s
    values: Floats
    sizes: Floats

    @property
    def rows(self) -> int:
        """The number of items."""
        return len(self.labels)

    def take(self, rows: Int64s) -> "FeatureTable":
        """Take some of the rows, with all classes and categories."""
        return replace(self, labels=self.labels[rows], values=self.values[rows], sizes=self.sizes[rows])

    @classmethod
    def from_columns(
        cls, spec: FeaturesSpec, columns: Columns, embeddings: NDArray[Any] | None = None
    ) -> "FeatureTable":
        """Check the columns against the spec and keep what it names; raises InvalidRequest with every fault found."""
        faults: list[Fault] = []
        if embeddings is not None:
            faults.append(Fault(("embeddings",), "belong to a trace, this is a table of features"))
        names = spec.feature_columns
        label = texts(columns, spec.label, faults)
        read = [_feature_column(columns, name, spec, faults) for name in names]
        sizes = [numbers(columns, name, faults, above=0.0) for name in spec.size_columns]
        if spec.label in names:
            faults.append(
                Fault(("spec", "features"), f"column {spec.label!r} is the label, it cannot be a feature too")
            )
        classes, codes = codes_of(spec.label, label, faults)
        _raise_if_any(faults)
        categories, values = tuple(each for each, _ in read), [column for _, column in read]
        return cls(spec, classes, categories, codes, _stack(values, len(codes)), _stack(sizes, len(codes)))


def _feature_column(
    columns: Columns, name: str, spec: FeaturesSpec, faults: list[Fault]
) -> tuple[tuple[str, ...], Floats]:
    if name in spec.categorical:
        return categories_of(columns, name, faults, missing=spec.missing)
    return (), numbers(columns, name, faults, at_least=-FARTHEST, at_most=FARTHEST, missing=spec.missing)


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What several classifiers answered for the same items, checked.

    labels: (n,) int32 and predictions: (n, m) int32 are indices into classes (the true classes first, then answers that
    are never true). confidences: (n, m) float64, NaN in the columns of classifiers without. costs: (n, m) float64,
    at least 0. embeddings: (n, d) float32, d = 0 if there are none. margins: (n, m, c) float32, the score of each of c
    classes less that of the true class; NaN for classifiers without scores, -∞ beyond the classes of one with fewer,
    c = 0 if none has scores.
    """

    spec: TraceSpec
    classes: tuple[str, ...]
    labels: Int32s
    predictions: Int32s
    confidences: Floats
    costs: Floats
    embeddings: Singles
    margins: Singles

    @property
    def rows(self) -> int:
        """The number of items."""
        return len(self.labels)

    def take(self, rows: Int64s) -> "Trace":
        """Take some of the rows, with all classes."""
        names = ("labels", "predictions", "confidences", "costs", "embeddings", "margins")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @property
    def correct(self) -> Bools:
        """Which classifier is right about which item, (n, m)."""
        return np.equal(self.predictions, self.labels[:, None])

    def likelihoods(self, temperature: float) -> Floats:
        """How likely each classifier is right about each item, (n, m): the softmax of its scores at a temperature.

        Without scores 1 or 0, as its answer is right or wrong.
        """
        likelihoods = self.correct.astype(np.float64)
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
        label = texts(columns, spec.label, faults)
        answers = [texts(columns, classifier.prediction, faults) for classifier in spec.classifiers]
        confidences = [_confidence(columns, classifier, faults) for classifier in spec.classifiers]
        costs = [_cost(columns, classifier, faults) for classifier in spec.classifiers]
        classes, codes = codes_of(spec.label, label, faults)
        rows = max((len(column) for column in columns.values()), default=0)
        vectors = embeddings_of(embeddings, rows, faults)
        _raise_if_any(faults)
        every, predictions = _predictions(classes, spec, answers, faults)
        margins = _margins(columns, spec, classes, codes, faults)
        _raise_if_any(faults)
        n = len(codes)
        return cls(spec, every, codes, predictions, _stack(confidences, n), _stack(costs, n), vectors, margins)


def _predictions(
    classes: tuple[str, ...], spec: TraceSpec, answers: list[NDArray[Any]], faults: list[Fault]
) -> tuple[tuple[str, ...], Int32s]:
    """Code the answers: classes that are true for some item first, then the others in alphabetical order."""
    strangers = sorted({str(answer) for column in answers for answer in np.unique(column)} - set(classes))
    every = (*classes, *strangers)
    code = {name: index for index, name in enumerate(every)}
    predictions = np.empty((len(answers[0]), len(answers)), dtype=np.int32)
    for j, (classifier, column) in enumerate(zip(spec.classifiers, answers, strict=True)):
        distinct, inverse = np.unique(column, return_inverse=True)
        predictions[:, j] = np.array([code[str(name)] for name in distinct], dtype=np.int32)[inverse]
        if not set(map(str, distinct)) & set(classes):
            faults.append(
                Fault(
                    ("table", classifier.prediction),
                    f"has no class of {spec.label!r}: row 1 says {str(column[0])!r}, classes are {list(classes[:5])}",
                )
            )
    return every, predictions


def _confidence(columns: Columns, classifier: TraceClassifier, faults: list[Fault]) -> Floats | float:
    if classifier.confidence is None:
        return np.nan
    confidences = numbers(columns, classifier.confidence, faults)
    beyond = (confidences < -ROUNDED) | (confidences > 1 + ROUNDED)
    if 0 < int(beyond.sum()) <= FEW * len(beyond):
        row = int(beyond.argmax())
        said = f"row {row + 1} is {confidences[row]:g}, nearly all others are from 0 to 1: is it in percent?"
        faults.append(Fault(("table", classifier.confidence), said))
    return confidences


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
            numbers(columns, column, faults, at_least=-FARTHEST, at_most=FARTHEST)
            for column in classifier.scores.values()
        ]
        if all(map(len, by_classifier)):
            scores = np.stack(by_classifier, axis=1)
            true = scores[np.arange(len(labels)), np.array([names.index(name) for name in classes])[labels]]
            margins[:, j] = -np.inf
            margins[:, j, : len(names)] = scores - true[:, None]
    margins.flags.writeable = False
    return margins


def _cost(columns: Columns, classifier: TraceClassifier, faults: list[Fault]) -> Floats | float:
    if isinstance(classifier.cost, CostColumn):
        return numbers(columns, classifier.cost.column, faults, at_least=0.0, at_most=LARGEST)
    return classifier.cost


def _stack(columns: list[Floats | float] | list[Floats], rows: int) -> Floats:
    """Put columns (or numbers, repeated) side by side: (rows, len(columns)), C-ordered and read-only."""
    table = np.empty((rows, len(columns)))
    for j, column in enumerate(columns):
        table[:, j] = column
    table.flags.writeable = False
    return table


def _raise_if_any(faults: list[Fault]) -> None:
    if faults:
        raise InvalidRequest.at(*faults)


Dataset = FeatureTable | Trace


class DatasetFacts(Value):
    """What can be told of a dataset without its rows."""

    spec: DatasetSpec = Field(description="how the table is read")
    rows: int = Field(description="the number of items")
    columns: Items[str] = Field(description="the columns that the spec uses")
    classes: Items[str] = Field(description="the classes, the true ones first")
    embedding_dimensions: int = Field(description="the length of each item's embedding; 0 if there are none")

    @property
    def classifiers(self) -> tuple[str, ...]:
        """The names of a trace's classifiers."""
        return tuple(c.name for c in self.spec.classifiers) if isinstance(self.spec, TraceSpec) else ()

    @classmethod
    def of(cls, dataset: Dataset) -> "DatasetFacts":
        """Tell them of a checked dataset."""
        return cls(
            spec=dataset.spec,
            rows=dataset.rows,
            columns=dataset.spec.used_columns,
            classes=dataset.classes,
            embedding_dimensions=dataset.embeddings.shape[1] if isinstance(dataset, Trace) else 0,
        )


def dataset_from_columns(
    spec: FeaturesSpec | TraceSpec, columns: Mapping[str, NDArray[Any]], embeddings: NDArray[Any] | None = None
) -> Dataset:
    """Make the table that the spec describes; raises InvalidRequest with every fault found."""
    if isinstance(spec, FeaturesSpec):
        return FeatureTable.from_columns(spec, columns, embeddings)
    return Trace.from_columns(spec, columns, embeddings)
