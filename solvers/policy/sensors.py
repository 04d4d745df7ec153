"""Sensors and their readings as one numeric table: features of a table, or answers of classifiers in a trace.

Each sensor has columns. A feature has its columns in the table. A classifier of a trace has the code of its label and
its confidence, if any. If answers have no classes, it has only its confidence. Other modules do not distinguish these
cases. The last columns may be the coordinates of an embedding, which is known for every item before any acquisition and
is not part of a sensor.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest, Trace
from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.columns import MAX_COORDINATE_VALUE
from models.cost import cost_function
from models.policy import Answer
from solvers.cell_encoding import CellEncoding, parse_finite_number
from solvers.policy.embedding_axes import MAX_AXES, EmbeddingAxes, count_classless_axes

UNKNOWN_LABEL = -1.0
"""Code of a label in another dataset that the training trace does not have."""
MAX_LISTED_CLASSES = 12
"""Maximum number of classes that a message lists."""


@dataclass(frozen=True, eq=False)
class Sensors:
    """M sensors and their D columns.

    Attributes:
        names: (M,).
        owners: (D,) int32, rising, the sensor of each column, M for an embedding.
        labelled: (D,) bool, columns of labels, each the first of its sensor.
        classes: names of label codes.
        encoding: encoding of categories and missing cells; None if there are none.
        embedding: projection of embeddings; None if items have none.
        classless: whether sensors are classifiers whose answers have no classes, only a confidence or nothing.
    """

    names: tuple[str, ...]
    owners: Int32s
    labelled: Bools
    classes: tuple[str, ...]
    encoding: CellEncoding | None = None
    embedding: EmbeddingAxes | None = None
    classless: bool = False
    columns: tuple[str, ...] = ()
    """Columns of a feature table, in the sensors' order."""

    @classmethod
    def from_dataset(cls, dataset: FeatureTable | Trace, *, embeds: bool = False) -> "Sensors":
        """Return the sensors of a dataset.

        embeds: whether to include the embeddings of a trace.
        """
        names, owners = _value_owners(dataset)
        if isinstance(dataset, Trace):
            classless = not dataset.spec.has_classes
            classes = names if classless else dataset.classes
            labelled = (np.diff(owners, prepend=-1) >= 1) & (not classless)
            if not embeds:
                return cls(names, owners, labelled, classes, classless=classless)
            most = count_classless_axes(*dataset.embeddings.shape) if classless else MAX_AXES
            axes = EmbeddingAxes.from_embeddings(dataset.embeddings, most)
            free = axes.axes.shape[1]
            owners = np.append(owners, np.full(free, len(names), dtype=np.int32))
            labelled = np.append(labelled, np.zeros(free, dtype=np.bool_))
            return cls(names, owners, labelled, classes, None, axes, classless)
        encoding = CellEncoding.from_table(dataset, owners)
        if encoding is not None:
            owners = np.repeat(owners, encoding.widths)
        columns = tuple(column for feature in dataset.spec.features for column in feature.columns)
        labelled = np.zeros(len(owners), dtype=np.bool_)
        return cls(names, owners, labelled, dataset.classes, encoding, columns=columns)

    @cached_property
    def _columns_by_name(self) -> dict[str, tuple[int, Int64s]]:
        """By name, the index and the columns of each sensor."""
        return {name: (place, np.flatnonzero(self.owners == place)) for place, name in enumerate(self.names)}

    @property
    def value_owners(self) -> Int32s:
        """The sensor of each value (number, label, or category) in requests, (d,)."""
        return self.owners[self.owners < len(self.names)] if self.encoding is None else self.encoding.owners

    @property
    def has_columns(self) -> Bools:
        """Whether each sensor has columns, (M,); without classes it may have none."""
        return np.isin(np.arange(len(self.names)), self.owners)

    def columns_of(self, members: Sequence[int] | NDArray[Any]) -> Int64s:
        """Return the columns of some sensors.

        >>> sensors = Sensors(("a", "b"), np.array([0, 0, 1], np.int32), np.zeros(3, np.bool_), ())
        >>> sensors.columns_of([1]).tolist(), sensors.columns_of([0, 1]).tolist()
        ([2], [0, 1, 2])
        """
        return np.flatnonzero(np.isin(self.owners, np.asarray(members, dtype=np.int64)))

    def known_columns(self, members: Bools) -> Int64s:
        """Return the columns of known sensors, (M,), and of the embedding."""
        return np.flatnonzero(mark_embedding(members)[self.owners])

    def select_columns(self, columns: Int64s) -> "Sensors":
        """Return the sensors with only some columns; owners keep their numbers."""
        return replace(self, owners=self.owners[columns], labelled=self.labelled[columns])

    def read_cells(self, dataset: FeatureTable | Trace) -> Floats:
        """Return the readings of all sensors for all items, (n, D); labels are matched by name.

        Raises:
            InvalidRequest: the dataset does not have these sensors.
        """
        names, value_owners = _value_owners(dataset)
        kind = _describe_dataset(
            isinstance(dataset, Trace), isinstance(dataset, Trace) and not dataset.spec.has_classes
        )
        own = _describe_dataset(self.classless or bool(self.labelled.any()), self.classless)
        if names == self.names and kind != own:
            raise InvalidRequest.from_faults(
                Fault(("dataset",), f"must be {own}, as the policy was built from; is {kind}")
            )
        if names != self.names or not np.array_equal(value_owners, self.value_owners):
            reason = f"must have the sensors {', '.join(self.names)}, got {', '.join(names)}"
            raise InvalidRequest.from_faults(Fault(("dataset",), reason))
        if isinstance(dataset, FeatureTable):
            return self._cells_of_features(dataset)
        code = {name: float(place) for place, name in enumerate(self.classes)}
        codes = np.array([code.get(name, UNKNOWN_LABEL) for name in dataset.classes])
        cells = np.empty((dataset.rows, len(self.owners)))
        if not self.classless:
            cells[:, self.labelled] = codes[dataset.predictions]
        free = self.owners == len(self.names)
        confidences = dataset.confidences[:, self.owners[~self.labelled & ~free]]
        cells[:, ~self.labelled & ~free] = np.clip(confidences, -MAX_COORDINATE_VALUE, MAX_COORDINATE_VALUE)
        if self.embedding is not None:
            cells[:, free] = self._project(dataset.embeddings, ("dataset", "embeddings"))
        return cells

    def write_embedding(self, embedding: Sequence[float] | None, cells: Floats) -> None:
        """Write an item's embedding into its readings, (D,).

        Raises:
            InvalidRequest: the embedding is missing, unexpected, or of another length.
        """
        if self.embedding is None and embedding is not None:
            reason = 'is not supported: the policy was built without embeddings; build it with "embeddings": true'
            raise InvalidRequest.from_faults(Fault(("embedding",), reason))
        if self.embedding is not None and embedding is None:
            reason = f"must have {len(self.embedding.centre)} numbers, is missing"
            raise InvalidRequest.from_faults(Fault(("embedding",), reason))
        if self.embedding is not None and embedding is not None:
            cells[self.owners == len(self.names)] = self._project(np.array([embedding]), ("embedding",))[0]

    def _project(self, embeddings: Floats | Singles, where: tuple[str, ...]) -> Floats:
        assert self.embedding is not None
        wanted = len(self.embedding.centre)
        if embeddings.shape[1] != wanted:
            reason = f"must have {wanted} numbers, got {embeddings.shape[1]}"
            raise InvalidRequest.from_faults(Fault(where, reason))
        return self.embedding.project(embeddings)

    def _cells_of_features(self, table: FeatureTable) -> Floats:
        if self.encoding is not None:
            self.encoding.check(table)
            return self.encoding.encode_cells(table)
        if any(table.categories) or bool(np.isnan(table.values).any()):
            reason = "must be complete numbers; has categories or missing cells"
            raise InvalidRequest.from_faults(Fault(("dataset", "features"), reason))
        return np.asarray(table.values)

    def read_answers(self, acquired: Mapping[str, Any], where: str = "acquired") -> tuple[Floats, Bools]:
        """Return readings of one item, (D,), 0 where unknown, and whether each sensor is known, (M,).

        Raises:
            InvalidRequest: unknown sensors, a wrong number of values, or values of a wrong type.
        """
        cells, known = np.zeros(len(self.owners)), np.zeros(len(self.names), dtype=np.bool_)
        faults: list[Fault] = []
        for name, answer in acquired.items():
            if name not in self._columns_by_name:
                faults.append(Fault((where, name), f"is not a sensor; available: {', '.join(self.names)}"))
                continue
            place, columns = self._columns_by_name[name]
            try:
                cells[columns] = self._to_numbers(answer, columns)
            except ValueError as error:
                faults.append(Fault((where, name), str(error)))
            known[place] = True
        if faults:
            raise InvalidRequest.from_faults(*faults)
        return cells, known

    def _to_numbers(self, answer: Any, columns: Int64s) -> list[float]:
        """Convert one sensor's answer to numbers; raise ValueError if it is invalid."""
        if self.encoding is not None:
            return self._encode_cells(self.encoding, answer, int(self.owners[columns[0]]))
        if self.classless:
            return _read_confidence(answer, has_confidence=bool(len(columns)))
        labelled = bool(self.labelled[columns[0]])
        values = _to_list(answer, labelled=labelled, width=len(columns))
        if len(values) != len(columns):
            wanted = "label and confidence" if labelled and len(columns) == 2 else f"{len(columns)} values"
            raise ValueError(f"must have {wanted}, got {len(values)} values")
        numbers = []
        for at, value in enumerate(values):
            if labelled and at == 0:
                if not isinstance(value, str):
                    raise ValueError(f"must begin with a label, got {_as_json(value)}")
                if value not in self.classes:
                    listed = ", ".join(map(repr, self.classes[:MAX_LISTED_CLASSES]))
                    more = (
                        f" and {len(self.classes) - MAX_LISTED_CLASSES} more"
                        if len(self.classes) > MAX_LISTED_CLASSES
                        else ""
                    )
                    raise ValueError(f"has unknown class {value!r}; available: {listed}{more}")
                numbers.append(float(self.classes.index(value)))
            else:
                numbers.append(parse_finite_number(value))
        return numbers

    def _encode_cells(self, encoding: CellEncoding, answer: Any, sensor: int) -> list[float]:
        cells, columns = _to_list(answer, labelled=False, width=1), np.flatnonzero(encoding.owners == sensor).tolist()
        if len(cells) != len(columns):
            raise ValueError(f"must have {len(columns)} values, got {len(cells)} values")
        pairs = zip(columns, cells, strict=True)
        return [number for column, cell in pairs for number in encoding.encode_cell(column, cell)]


def mark_embedding(members: Bools) -> Bools:
    """Append True for the embedding, which is always known, to the mask of known sensors, (M,): (M + 1,)."""
    return np.append(members, True)


def _value_owners(dataset: FeatureTable | Trace) -> tuple[tuple[str, ...], Int32s]:
    """Return the names of a dataset's sensors, (M,), and the sensor of each value, (d,)."""
    if isinstance(dataset, Trace):
        names = tuple(each.name for each in dataset.spec.classifiers)
        labels = int(dataset.spec.has_classes)
        widths = [labels + (each.confidence is not None) for each in dataset.spec.classifiers]
    else:
        names = tuple(each.name for each in dataset.spec.features)
        widths = [len(each.columns) for each in dataset.spec.features]
    return names, np.repeat(np.arange(len(names), dtype=np.int32), widths)


def _describe_dataset(is_trace: bool, classless: bool) -> str:
    return "a trace without classes" if classless else "a trace" if is_trace else "a table of features"


def _read_confidence(answer: Any, *, has_confidence: bool) -> list[float]:
    """Return the confidence of a classifier without classes; raise ValueError if it is invalid."""
    if not has_confidence:
        if answer is not None:
            raise ValueError(f"must be null, because the dataset has no confidence of it, got {_as_json(answer)}")
        return []
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise ValueError(f"must be the confidence, a number, got {_as_json(answer)}")
    return [parse_finite_number(answer)]


def _as_json(answer: Any) -> str:
    return json.dumps(answer, default=lambda value: value.model_dump(exclude_none=True))


def _to_list(answer: Any, *, labelled: bool, width: int) -> list[Any]:
    if isinstance(answer, Answer):
        if not labelled:
            raise ValueError("must be a number or a list of numbers for a feature, got a label")
        return [answer.label] if answer.confidence is None else [answer.label, answer.confidence]
    return list(answer) if isinstance(answer, tuple | list) else [answer]


def check_sizes(spec: FeaturesSpec) -> None:
    """Raise InvalidRequest if a cost depends on sizes but the table has none."""
    columns = len(spec.size_columns)
    for each in spec.cost_specs:
        function, _ = cost_function(each.cost)
        if function.depends_on_size and function.dimensions != columns:
            reason = f"the cost of {each.name!r} depends on {function.dimensions} sizes"
            raise InvalidRequest.from_faults(
                Fault(("dataset", "features"), f"{reason}; size columns must match, got {columns}")
            )


def compute_item_sensor_costs(dataset: FeatureTable | Trace) -> Floats:
    """Return the cost of every sensor, and of every set-up group, for every item (Eq. 10), (n, M + G).

    Raises:
        InvalidRequest: a cost depends on sizes but the table has none.
    """
    if isinstance(dataset, Trace):
        return np.asarray(dataset.separate_costs)
    check_sizes(dataset.spec)
    costs = np.empty((dataset.rows, len(dataset.spec.cost_specs)))
    for j, each in enumerate(dataset.spec.cost_specs):
        function, _ = cost_function(each.cost)
        if function.depends_on_size:
            costs[:, j] = function(dataset.sizes)
        else:
            costs[:, j] = function.cost_at([1.0] * function.dimensions)(())
    if not bool(np.all(np.isfinite(costs))):
        raise InvalidRequest.from_faults(Fault(("dataset", "features"), "must have finite costs"))
    return costs
