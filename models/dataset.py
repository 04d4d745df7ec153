"""What builds learn from: how a table is to be read (the spec), and the table once it has been checked.

``FeaturesSpec`` and ``TraceSpec`` say which column means what. ``FeatureTable`` and ``Trace`` are made from columns by
``FeatureTable.from_columns`` and ``Trace.from_columns``, which check everything once and name the first offending row
of each fault; whoever holds one may trust it. Rows are counted from 1 in messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import Field, model_validator

from models.arrays import Floats, Int32s, Int64s
from models.base import LARGEST, Items, Label, Value
from models.columns import (
    FARTHEST,
    Columns,
    categories_of,
    codes_of,
    numbers,
    raise_if_any,
    refuse_repeated,
    side_by_side,
    texts,
)
from models.cost import Cost, size_columns_of
from models.errors import Fault
from models.trace import Trace, TraceSpec
from models.units import refuse_other_times


class FeatureSpec(Value):
    """A feature: the columns that it fills, and what it costs to compute."""

    name: Label = Field(description="the feature's name")
    columns: Annotated[Items[Label], Field(min_length=1)] = Field(description="the columns that it fills")
    cost: Cost = Field(description="a number, or a function of the item's size, in the dataset's unit")
    time: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="how long it takes at most, in time_unit, which deadlines of policies count; null: as long as it "
        "costs, where the dataset's unit is one of time",
    )


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
    time_unit: Label | None = Field(
        default=None, description="the unit of the features' times, for example ms; null: that of costs"
    )

    @model_validator(mode="after")
    def _names_differ(self) -> "FeaturesSpec":
        refuse_repeated("feature name", (feature.name for feature in self.features))
        refuse_repeated("column", self.feature_columns)
        refuse_other_times({each.name: each.time for each in self.features}, self.unit, self.time_unit)
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
        return size_columns_of(self.size)

    @property
    def used_columns(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        return tuple(dict.fromkeys((self.label, *self.size_columns, *self.feature_columns)))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns that hold classes or categories, which are text as written."""
        return (self.label, *self.categorical)


DatasetSpec = Annotated[FeaturesSpec | TraceSpec, Field(discriminator="kind")]


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
        raise_if_any(faults)
        categories, values = tuple(each for each, _ in read), [column for _, column in read]
        return cls(spec, classes, categories, codes, side_by_side(values, len(codes)), side_by_side(sizes, len(codes)))


def _feature_column(
    columns: Columns, name: str, spec: FeaturesSpec, faults: list[Fault]
) -> tuple[tuple[str, ...], Floats]:
    if name in spec.categorical:
        return categories_of(columns, name, faults, missing=spec.missing)
    return (), numbers(columns, name, faults, at_least=-FARTHEST, at_most=FARTHEST, missing=spec.missing)


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
