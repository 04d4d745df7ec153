"""Sensors and what they tell, as one table of numbers: features of a table, or the answers in a trace.

A sensor owns columns. A classifier of a trace owns the code of its label and, if it has one, its confidence; without
classes, its confidence alone, if any; a feature owns its columns. From here on nothing asks which of these a sensor is.
The last columns may be those of an embedding, which is no sensor's: it is known of every item before anything is
acquired.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest, Trace
from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.columns import FARTHEST
from models.cost import cost_function
from models.policy import Answer
from solvers.cell_encoding import CellEncoding, finite
from solvers.policy.embedding_axes import MAX_AXES, EmbeddingAxes, count_classless_axes

UNKNOWN_LABEL = -1.0
"""The code of a label of another dataset that no item of the trace has and no classifier has answered."""
MAX_LISTED_CLASSES = 12
"""Classes that a message lists."""


@dataclass(frozen=True, slots=True, eq=False)
class Sensors:
    """What M sensors tell, in D columns. names: (M,); owners: (D,) int32, rising, the sensor of each column, M where it
    is of an embedding; labelled: (D,) bool, which columns hold labels, each the first of its sensor's; classes: what
    the codes stand for; encoding: how categories and missing cells become numbers; None where there are none;
    embedding: the axes along which embeddings are measured; None where items have none; classless: whether
    sensors are classifiers whose answers have no classes: these tell a confidence, or nothing."""

    names: tuple[str, ...]
    owners: Int32s
    labelled: Bools
    classes: tuple[str, ...]
    encoding: CellEncoding | None = None
    embedding: EmbeddingAxes | None = None
    classless: bool = False
    columns: tuple[str, ...] = ()
    """The columns of a table of features, in the sensors' order."""

    @classmethod
    def from_dataset(cls, dataset: FeatureTable | Trace, *, embeds: bool = False) -> "Sensors":
        """List the sensors of a dataset; embeds: whether the embeddings of a trace are known, too."""
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
        encoding = CellEncoding.of(dataset, owners)
        if encoding is not None:
            owners = np.repeat(owners, encoding.widths)
        columns = tuple(column for feature in dataset.spec.features for column in feature.columns)
        labelled = np.zeros(len(owners), dtype=np.bool_)
        return cls(names, owners, labelled, dataset.classes, encoding, columns=columns)

    @property
    def value_owners(self) -> Int32s:
        """The sensor of each number, label or category that callers tell of sensors: (d,)."""
        return self.owners[self.owners < len(self.names)] if self.encoding is None else self.encoding.owners

    @property
    def has_columns(self) -> Bools:
        """Which sensors own columns, (M,): the others, without classes, tell nothing but their answer."""
        return np.isin(np.arange(len(self.names)), self.owners)

    def columns_of(self, members: Sequence[int] | NDArray[Any]) -> Int64s:
        """List the columns of some sensors.

        >>> sensors = Sensors(("a", "b"), np.array([0, 0, 1], np.int32), np.zeros(3, np.bool_), ())
        >>> sensors.columns_of([1]).tolist(), sensors.columns_of([0, 1]).tolist()
        ([2], [0, 1, 2])
        """
        return np.flatnonzero(np.isin(self.owners, np.asarray(members, dtype=np.int64)))

    def known_columns(self, members: Bools) -> Int64s:
        """List the columns that are known where some sensors, (M,), are: theirs and those of an embedding."""
        return np.flatnonzero(append_embedding(members)[self.owners])

    def select_columns(self, columns: Int64s) -> "Sensors":
        """Tell of some columns alone, as if there were no others; owners keep their numbers."""
        return replace(self, owners=self.owners[columns], labelled=self.labelled[columns])

    def cells(self, dataset: FeatureTable | Trace) -> Floats:
        """Put what all sensors told of all items side by side: (n, D). Labels of another dataset go by their names.

        Raises InvalidRequest if the dataset does not have these sensors.
        """
        names, value_owners = _value_owners(dataset)
        kind = _describe_dataset(
            isinstance(dataset, Trace), isinstance(dataset, Trace) and not dataset.spec.has_classes
        )
        own = _describe_dataset(self.classless or bool(self.labelled.any()), self.classless)
        if names == self.names and kind != own:
            raise InvalidRequest.at(Fault(("dataset",), f"is {kind}; the policy was built from {own}"))
        if names != self.names or not np.array_equal(value_owners, self.value_owners):
            asked = f"has the sensors {', '.join(names)}; the policy's are {', '.join(self.names)}"
            raise InvalidRequest.at(Fault(("dataset",), asked))
        if isinstance(dataset, FeatureTable):
            return self._cells_of_features(dataset)
        code = {name: float(place) for place, name in enumerate(self.classes)}
        codes = np.array([code.get(name, UNKNOWN_LABEL) for name in dataset.classes])
        cells = np.empty((dataset.rows, len(self.owners)))
        if not self.classless:
            cells[:, self.labelled] = codes[dataset.predictions]
        free = self.owners == len(self.names)
        sure = dataset.confidences[:, self.owners[~self.labelled & ~free]]
        cells[:, ~self.labelled & ~free] = np.clip(sure, -FARTHEST, FARTHEST)
        if self.embedding is not None:
            cells[:, free] = self._project(dataset.embeddings, ("dataset", "embeddings"))
        return cells

    def write_embedding(self, embedding: Sequence[float] | None, cells: Floats) -> None:
        """Put an item's embedding into its cells, (D,).

        Raises InvalidRequest where there must be one and is none, or one of another length, or there must be none.
        """
        if self.embedding is None and embedding is not None:
            asked = 'means nothing here: this policy was built without embeddings; build it with "embeddings": true'
            raise InvalidRequest.at(Fault(("embedding",), asked))
        if self.embedding is not None and embedding is None:
            asked = f"is missing: this policy knows {len(self.embedding.centre)} numbers of each item from the start"
            raise InvalidRequest.at(Fault(("embedding",), asked))
        if self.embedding is not None and embedding is not None:
            cells[self.owners == len(self.names)] = self._project(np.array([embedding]), ("embedding",))[0]

    def _project(self, embeddings: Floats | Singles, where: tuple[str, ...]) -> Floats:
        assert self.embedding is not None
        wanted = len(self.embedding.centre)
        if embeddings.shape[1] != wanted:
            asked = f"must have {wanted} numbers, as the build's; has {embeddings.shape[1]}"
            raise InvalidRequest.at(Fault(where, asked))
        return self.embedding.project(embeddings)

    def _cells_of_features(self, table: FeatureTable) -> Floats:
        if self.encoding is not None:
            self.encoding.check(table)
            return self.encoding.apply(table)
        if any(table.categories) or bool(np.isnan(table.values).any()):
            asked = "has columns of categories or missing cells; the policy was built from complete numbers"
            raise InvalidRequest.at(Fault(("dataset", "features"), asked))
        return np.asarray(table.values)

    def read_answers(self, acquired: Mapping[str, Any], where: str = "acquired") -> tuple[Floats, Bools]:
        """Read what some sensors told of one item: (D,), 0 for those that did not, and which did, (M,).

        Raises InvalidRequest for sensors that are not known, too few or too many numbers, and what is no number or no
        label where one must be.
        """
        cells, known = np.zeros(len(self.owners)), np.zeros(len(self.names), dtype=np.bool_)
        faults: list[Fault] = []
        for name, answer in acquired.items():
            if name not in self.names:
                faults.append(Fault((where, name), f"is not known here; the sensors are {', '.join(self.names)}"))
                continue
            place = self.names.index(name)
            columns = self.columns_of([place])
            try:
                cells[columns] = self._numbers(answer, columns)
            except ValueError as error:
                faults.append(Fault((where, name), str(error)))
            known[place] = True
        if faults:
            raise InvalidRequest.at(*faults)
        return cells, known

    def _numbers(self, answer: Any, columns: Int64s) -> list[float]:
        """Turn what one sensor told into numbers; raises ValueError, with what is wrong."""
        if self.encoding is not None:
            return self._encoded(self.encoding, answer, int(self.owners[columns[0]]))
        if self.classless:
            return _read_confidence(answer, tells=bool(len(columns)))
        labelled = bool(self.labelled[columns[0]])
        values = _to_list(answer, labelled=labelled, width=len(columns))
        if len(values) != len(columns):
            wanted = "label and confidence" if labelled and len(columns) == 2 else f"{len(columns)} values"
            raise ValueError(f"must have {wanted}, has {len(values)} values")
        numbers = []
        for at, value in enumerate(values):
            if labelled and at == 0:
                if not isinstance(value, str):
                    raise ValueError(f"must begin with a label, which is text; it is {_as_json(value)}")
                if value not in self.classes:
                    listed = ", ".join(map(repr, self.classes[:MAX_LISTED_CLASSES]))
                    more = (
                        f" and {len(self.classes) - MAX_LISTED_CLASSES} more"
                        if len(self.classes) > MAX_LISTED_CLASSES
                        else ""
                    )
                    raise ValueError(f"says {value!r}, which the dataset never had; its classes are {listed}{more}")
                numbers.append(float(self.classes.index(value)))
            else:
                numbers.append(finite(value))
        return numbers

    def _encoded(self, encoding: CellEncoding, answer: Any, sensor: int) -> list[float]:
        cells, columns = _to_list(answer, labelled=False, width=1), np.flatnonzero(encoding.owners == sensor).tolist()
        if len(cells) != len(columns):
            raise ValueError(f"must have {len(columns)} values, has {len(cells)} values")
        pairs = zip(columns, cells, strict=True)
        return [number for column, cell in pairs for number in encoding.numbers(column, cell)]


def append_embedding(members: Bools) -> Bools:
    """Say of some sensors, (M,), and of an embedding after them, which is always known, whether they are: (M + 1,)."""
    return np.append(members, True)


def _value_owners(dataset: FeatureTable | Trace) -> tuple[tuple[str, ...], Int32s]:
    """Name the sensors of a dataset, and tell whose each number, label or category is: (M,), (d,)."""
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


def _read_confidence(answer: Any, *, tells: bool) -> list[float]:
    """Read what a classifier without classes told; raises ValueError for what is no confidence where one must be."""
    if not tells:
        if answer is not None:
            raise ValueError(f"must be null, for the dataset had no confidence of it; it is {_as_json(answer)}")
        return []
    if isinstance(answer, bool) or not isinstance(answer, int | float):
        raise ValueError(f"must be its confidence, a number, for its answers have no classes; it is {_as_json(answer)}")
    return [finite(answer)]


def _as_json(answer: Any) -> str:
    """Spell what was told as its sender did."""
    return json.dumps(answer, default=lambda value: value.model_dump(exclude_none=True))


def _to_list(answer: Any, *, labelled: bool, width: int) -> list[Any]:
    if isinstance(answer, Answer):
        if not labelled:
            raise ValueError("must be a number or a list of numbers, for it is a feature; it has a label")
        return [answer.label] if answer.confidence is None else [answer.label, answer.confidence]
    return list(answer) if isinstance(answer, tuple | list) else [answer]


def check_sizes(spec: FeaturesSpec) -> None:
    """Raise InvalidRequest for a cost that depends on the item's size if a table has no sizes, or others."""
    columns = len(spec.size_columns)
    for feature in spec.features:
        function, _ = cost_function(feature.cost)
        if function.depends_on_size and function.dimensions != columns:
            asked = f"the cost of {feature.name!r} depends on sizes of {function.dimensions} numbers"
            raise InvalidRequest.at(Fault(("dataset", "features"), f"{asked}, the table has {columns} size columns"))


def item_sensor_costs(dataset: FeatureTable | Trace) -> Floats:
    """Tell what every sensor costs for every item (Acquisition DAG, Eq. 10): (n, M).

    Raises InvalidRequest for a cost that depends on the item's size if the table has no sizes, or others.
    """
    if isinstance(dataset, Trace):
        return np.asarray(dataset.costs)
    check_sizes(dataset.spec)
    costs = np.empty((dataset.rows, len(dataset.spec.features)))
    for j, feature in enumerate(dataset.spec.features):
        function, _ = cost_function(feature.cost)
        if function.depends_on_size:
            costs[:, j] = function(dataset.sizes)
        else:
            costs[:, j] = function.at([1.0] * function.dimensions)(())
    if not bool(np.all(np.isfinite(costs))):
        raise InvalidRequest.at(Fault(("dataset", "features"), "have costs beyond what can be computed"))
    return costs
