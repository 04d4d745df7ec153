"""Datasets: the spec of a table's columns, and the validated table.

``FeaturesSpec`` and ``TraceSpec`` describe the columns. ``FeatureTable.from_columns`` and ``Trace.from_columns``
validate columns and name the first invalid row of each error; instances are always valid. Rows are counted from 1 in
messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from models.arrays import Floats, Int32s, Int64s
from models.base import LARGEST, Items, Label, Value
from models.columns import (
    MAX_COORDINATE_VALUE,
    Columns,
    encode_categories,
    encode_classes,
    raise_faults,
    read_items,
    read_numbers,
    read_texts,
    require_unique_names,
    stack_columns,
)
from models.cost import Cost, size_columns_of
from models.errors import Fault
from models.losses import HasLosses, Losses, get_loss_matrix, read_losses
from models.setup_spec import SetupSpec, check_setup, omit_empty_setup
from models.trace import Trace
from models.trace_spec import TraceSpec
from models.units import check_time_unit
from models.weights import HasWeights, read_weights, repeat_rows


class FeatureSpec(Value):
    """A feature: its columns, and the cost to compute it."""

    name: Label = Field(description="the feature's name")
    columns: Annotated[Items[Label], Field(min_length=1)] = Field(description="the columns of the feature")
    cost: Cost = Field(description="a number, or a function of the item's size, in the dataset's unit")
    time: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description="maximum time, in time_unit, for deadlines of policies; null: the cost, if the dataset's unit is "
        "a unit of time",
    )


class FeaturesSpec(HasLosses, HasWeights):
    """Spec of a feature table: items with features and a label."""

    kind: Literal["features"] = Field(description="a table of items with features")
    label: Label = Field(description="the column of the true class")
    unit: Label = Field(description="the unit of all costs, for example ms")
    size: Label | Items[Label] | None = Field(
        default=None, description="the column, or columns, that give an item's size; null if cost does not depend on it"
    )
    item: Label | None = Field(
        default=None,
        description="the column that identifies the item of each row, if items repeat. Rows of one item stay together "
        "when rows are split, and intervals resample items. null: every row is a different item",
    )
    features: Annotated[Items[FeatureSpec], Field(min_length=1)] = Field(description="the features")
    setup: Items[SetupSpec] = Field(
        default=(),
        description="set-up work that features share. An item pays for a group once, with the first of its features",
    )
    categorical: Items[Label] = Field(
        default=(), description="columns of features that hold names or codes; they are read as text, not as numbers"
    )
    missing: bool = Field(default=False, description="whether cells of the features' columns may be empty")
    time_unit: Label | None = Field(
        default=None, description="the unit of the features' times, for example ms; null: the unit of costs"
    )

    @model_validator(mode="after")
    def _names_differ(self) -> "FeaturesSpec":
        require_unique_names("feature name", (feature.name for feature in self.features))
        require_unique_names("column", self.feature_columns)
        check_setup(self.setup, [feature.name for feature in self.features], "feature")
        check_time_unit({each.name: each.time for each in self.cost_specs}, self.unit, self.time_unit)
        strangers = [column for column in self.categorical if column not in self.feature_columns]
        if strangers:
            raise ValueError(f"categorical column {strangers[0]!r} must be a column of a feature")
        if self.item in (self.label, *self.feature_columns):
            raise ValueError(f"item must not be the label or a feature, got {self.item!r}")
        if set(self.weight_columns) & {self.label, self.item, *self.size_columns, *self.feature_columns}:
            raise ValueError(f"weights must be a column without another use, got {self.weights!r}")
        return self

    @model_serializer(mode="wrap")
    def _omit_empty_setup(self, serialize: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """Omit ``setup`` without groups, so that specs are stored as before; a return type would replace the schema."""
        return omit_empty_setup(serialize(self))

    @property
    def cost_specs(self) -> tuple[FeatureSpec | SetupSpec, ...]:
        """All that has a cost: the features, then the set-up groups."""
        every: list[FeatureSpec | SetupSpec] = [*self.features, *self.setup]
        return tuple(every)

    @property
    def feature_columns(self) -> tuple[str, ...]:
        """The columns of all features, in order."""
        return tuple(column for feature in self.features for column in feature.columns)

    @property
    def size_columns(self) -> tuple[str, ...]:
        """The columns of the item's size: none, one, or one per dimension."""
        return size_columns_of(self.size)

    @property
    def read_columns(self) -> tuple[str, ...]:
        """All columns that are read, without duplicates."""
        return self.used_columns

    @property
    def used_columns(self) -> tuple[str, ...]:
        """All columns that are read, without duplicates."""
        used = (self.label, self.item, *self.size_columns, *self.feature_columns, *self.weight_columns)
        return tuple(dict.fromkeys(name for name in used if name is not None))

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns of classes, categories, or items; they are read as texts."""
        return tuple(name for name in (self.label, self.item, *self.categorical) if name is not None)


DatasetSpec = Annotated[FeaturesSpec | TraceSpec, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTable:
    """A validated feature table.

    Attributes:
        values: (n, d) float64, feature columns in the order of the spec: numbers, or indices into the categories.
            Missing cells are NaN.
        categories: the categories of each column, empty for numbers.
        labels: (n,) int32, indices into classes.
        sizes: (n, k) float64, k = number of size columns, all above 0.
        items: (n,) int64, indices into item_names; (0,) if each row is a separate item.
        loss_matrix: (C, A), the matrix of ``losses``; (0, 0) without one.
        weights: (n,), above 0; (0,) if all rows weigh the same.
    """

    spec: FeaturesSpec
    classes: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    labels: Int32s
    values: Floats
    sizes: Floats
    items: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    item_names: tuple[str, ...] = ()
    loss_matrix: Floats = field(default_factory=lambda: np.empty((0, 0)))
    weights: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.labels)

    @property
    def item_codes(self) -> Int64s:
        """The item of each row, (n,); equal codes are rows of the same item."""
        return self.items if len(self.items) else np.arange(self.rows)

    @property
    def losses(self) -> Losses | None:
        """The loss matrix; None if all errors are equal."""
        return Losses.from_matrix(self.loss_matrix)

    @property
    def loss_scale(self) -> float:
        """The largest loss, in the unit of costs; 0 if all errors are equal."""
        return float(self.loss_matrix.max(initial=0.0))

    def take(self, rows: Int64s) -> "FeatureTable":
        """Return some of the rows, with all classes and categories."""
        names = ("labels", "values", "sizes", *(name for name in ("items", "weights") if len(getattr(self, name))))
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @classmethod
    def from_columns(
        cls, spec: FeaturesSpec, columns: Columns, embeddings: NDArray[Any] | None = None
    ) -> "FeatureTable":
        """Validate the columns against the spec, and return the table.

        Raises InvalidRequest with a list of all faults.
        """
        faults: list[Fault] = []
        if embeddings is not None:
            faults.append(Fault(("embeddings",), "are supported for traces only, not for feature tables"))
        names = spec.feature_columns
        label = read_texts(columns, spec.label, faults)
        read = [_feature_column(columns, name, spec, faults) for name in names]
        sizes = [read_numbers(columns, name, faults, above=0.0) for name in spec.size_columns]
        item_names, items = read_items(columns, spec.item, faults)
        if spec.label in names:
            faults.append(Fault(("spec", "features"), f"must not include the label column {spec.label!r}"))
        classes, codes = encode_classes(spec.label, label, faults)
        raise_faults(faults)
        losses = read_losses(spec, classes, len(classes), faults)
        weights = read_weights(spec, columns, classes, codes, faults)
        raise_faults(faults)
        categories, values = tuple(each for each, _ in read), [column for _, column in read]
        cells, at = stack_columns(values, len(codes)), stack_columns(sizes, len(codes))
        return cls(spec, classes, categories, codes, cells, at, items, item_names, get_loss_matrix(losses), weights)


def _feature_column(
    columns: Columns, name: str, spec: FeaturesSpec, faults: list[Fault]
) -> tuple[tuple[str, ...], Floats]:
    if name in spec.categorical:
        return encode_categories(columns, name, faults, missing=spec.missing)
    return (), read_numbers(
        columns, name, faults, at_least=-MAX_COORDINATE_VALUE, at_most=MAX_COORDINATE_VALUE, missing=spec.missing
    )


Dataset = FeatureTable | Trace


def apply_weights(dataset: Dataset) -> Dataset:
    """Return the dataset with rows repeated in proportion to their weights.

    Copies of a row are one item. If all weights are equal, the dataset is returned unchanged.
    """
    if not len(dataset.weights):
        return dataset
    rows = repeat_rows(dataset.weights)
    return replace(dataset.take(rows), items=dataset.item_codes[rows], weights=np.empty(0))


class DatasetFacts(Value):
    """Properties of a dataset, without its rows."""

    spec: DatasetSpec = Field(description="how the table is read")
    rows: int = Field(description="the number of rows")
    items: int | None = Field(
        default=None, description="the number of different items; null: the spec has no item column"
    )
    columns: Items[str] = Field(description="the columns that the spec uses")
    classes: Items[str] = Field(description="the classes, the true ones first")
    embedding_dimensions: int = Field(description="the length of each item's embedding; 0 if there are none")
    complete_rows: int | None = Field(
        default=None,
        description="in a partial trace, the number of rows in which all classifiers were called; null: all rows",
    )

    def of_complete_rows(self) -> "DatasetFacts":
        """Return the properties of the rows in which all classifiers were called."""
        if self.complete_rows is None:
            return self
        items = None if self.items is None else min(self.items, self.complete_rows)
        return self.model_copy(update={"rows": self.complete_rows, "items": items, "complete_rows": None})

    @property
    def item_count(self) -> int:
        """The number of items; without repeated items, the number of rows."""
        return self.rows if self.items is None else self.items

    @property
    def classifiers(self) -> tuple[str, ...]:
        """The names of a trace's classifiers."""
        return tuple(c.name for c in self.spec.classifiers) if isinstance(self.spec, TraceSpec) else ()

    @classmethod
    def from_dataset(cls, dataset: Dataset) -> "DatasetFacts":
        """Return the properties of a dataset."""
        return cls(
            spec=dataset.spec,
            rows=dataset.rows,
            items=None if dataset.spec.item is None else len(np.unique(dataset.items)),
            columns=dataset.spec.used_columns,
            classes=dataset.classes,
            embedding_dimensions=dataset.embeddings.shape[1] if isinstance(dataset, Trace) else 0,
            complete_rows=dataset.complete_rows if isinstance(dataset, Trace) and dataset.is_partial else None,
        )


def dataset_from_columns(
    spec: FeaturesSpec | TraceSpec, columns: Mapping[str, NDArray[Any]], embeddings: NDArray[Any] | None = None
) -> Dataset:
    """Validate the columns, and return the table that the spec describes.

    Raises InvalidRequest with a list of all faults.
    """
    if isinstance(spec, FeaturesSpec):
        return FeatureTable.from_columns(spec, columns, embeddings)
    return Trace.from_columns(spec, columns, embeddings)
