"""What builds learn from: how a table is to be read (the spec), and the table once it has been checked.

``FeaturesSpec`` and ``TraceSpec`` declare the columns. ``FeatureTable`` and ``Trace`` are made from columns by
``FeatureTable.from_columns`` and ``Trace.from_columns``, which check everything once and name the first offending row
of each fault; an instance is always valid. Rows are counted from 1 in messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from models.arrays import Floats, Int32s, Int64s
from models.base import LARGEST, Items, Label, Value
from models.columns import (
    FARTHEST,
    Columns,
    categories_of,
    codes_of,
    raise_if_any,
    read_items,
    read_numbers,
    read_texts,
    refuse_repeated,
    side_by_side,
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
    item: Label | None = Field(
        default=None,
        description="the column that names the item of each row, for items that repeat: rows of one item stay together "
        "when rows are split, and intervals resample items; null: every row is an item of its own",
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
            raise ValueError(f"the categorical column {strangers[0]!r} is not a column of any feature")
        if self.item in (self.label, *self.feature_columns):
            raise ValueError(f"item must be a column of its own, got {self.item!r}, which is the label or a feature")
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
        used = (self.label, self.item, *self.size_columns, *self.feature_columns)
        return tuple(dict.fromkeys(name for name in used if name is not None))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns that hold classes, categories or items, which are text as written."""
        return tuple(name for name in (self.label, self.item, *self.categorical) if name is not None)


DatasetSpec = Annotated[FeaturesSpec | TraceSpec, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """Items with features, checked.

    values: (n, d) float64, the feature columns in the order of the spec: numbers, or for categorical columns indices
    into their categories; NaN where a cell is missing. categories: for each column their names, none for numbers.
    labels: (n,) int32, indices into classes. sizes: (n, k) float64, k = number of size columns, all above 0.
    items: (n,) int64 indices into item_names, the item of each row; (0,) if every row is an item of its own.
    """

    spec: FeaturesSpec
    classes: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    labels: Int32s
    values: Floats
    sizes: Floats
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

    def take(self, rows: Int64s) -> "FeatureTable":
        """Take some of the rows, with all classes and categories."""
        names = ("labels", "values", "sizes", *(("items",) if len(self.items) else ()))
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @classmethod
    def from_columns(
        cls, spec: FeaturesSpec, columns: Columns, embeddings: NDArray[Any] | None = None
    ) -> "FeatureTable":
        """Check the columns against the spec and keep what it names; raises InvalidRequest with every fault found."""
        faults: list[Fault] = []
        if embeddings is not None:
            faults.append(Fault(("embeddings",), "are supported for traces only, not for feature tables"))
        names = spec.feature_columns
        label = read_texts(columns, spec.label, faults)
        read = [_feature_column(columns, name, spec, faults) for name in names]
        sizes = [read_numbers(columns, name, faults, above=0.0) for name in spec.size_columns]
        item_names, items = read_items(columns, spec.item, faults)
        if spec.label in names:
            faults.append(
                Fault(("spec", "features"), f"column {spec.label!r} is the label, it cannot be a feature too")
            )
        classes, codes = codes_of(spec.label, label, faults)
        raise_if_any(faults)
        categories, values = tuple(each for each, _ in read), [column for _, column in read]
        cells, at = side_by_side(values, len(codes)), side_by_side(sizes, len(codes))
        return cls(spec, classes, categories, codes, cells, at, items, item_names)


def _feature_column(
    columns: Columns, name: str, spec: FeaturesSpec, faults: list[Fault]
) -> tuple[tuple[str, ...], Floats]:
    if name in spec.categorical:
        return categories_of(columns, name, faults, missing=spec.missing)
    return (), read_numbers(columns, name, faults, at_least=-FARTHEST, at_most=FARTHEST, missing=spec.missing)


Dataset = FeatureTable | Trace


class DatasetFacts(Value):
    """Facts of a dataset, without its rows."""

    spec: DatasetSpec = Field(description="how the table is read")
    rows: int = Field(description="the number of rows")
    items: int | None = Field(
        default=None, description="the number of different items; null: the spec names no column of them"
    )
    columns: Items[str] = Field(description="the columns that the spec uses")
    classes: Items[str] = Field(description="the classes, the true ones first")
    embedding_dimensions: int = Field(description="the length of each item's embedding; 0 if there are none")

    @property
    def item_count(self) -> int:
        """The number of different items, which is the number of rows where no item repeats."""
        return self.rows if self.items is None else self.items

    @property
    def classifiers(self) -> tuple[str, ...]:
        """The names of a trace's classifiers."""
        return tuple(c.name for c in self.spec.classifiers) if isinstance(self.spec, TraceSpec) else ()

    @classmethod
    def from_dataset(cls, dataset: Dataset) -> "DatasetFacts":
        """Return the facts of a dataset."""
        return cls(
            spec=dataset.spec,
            rows=dataset.rows,
            items=None if dataset.spec.item is None else len(np.unique(dataset.items)),
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
