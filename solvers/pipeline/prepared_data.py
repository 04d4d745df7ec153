"""Training, validation, and test split of a table, with prepared columns, learner, and criteria."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest
from models.arrays import Floats, Int64s
from models.pipeline import PipelineOptions
from solvers.base import BuildContext
from solvers.item_splits import GroupedRows, split_rows, stratify_labels_by_item
from solvers.learners.table_preparation import Preparation
from solvers.pipeline.classifiers import Learner
from solvers.pipeline.objectives import EvaluationCriteria, Evaluator

MIN_CLASS_ROWS = 4
"""Minimum rows per class: two for training, one in each other part."""


@dataclass(frozen=True, slots=True, eq=False)
class RowSplit:
    """Indices of training, validation, and test rows."""

    training: Int64s
    validation: Int64s
    test: Int64s


@dataclass(frozen=True, slots=True, eq=False)
class PreparedData:
    """Split table with prepared rows, (n, D); the preparation is fitted to the training rows only."""

    split: RowSplit
    preparation: Preparation
    table: Floats
    learner: Learner
    criteria: EvaluationCriteria

    @classmethod
    def from_dataset(
        cls, dataset: FeatureTable, options: PipelineOptions, rng: np.random.Generator, run: BuildContext
    ) -> "PreparedData":
        """Prepare a table.

        Raises InvalidRequest for a class with too few rows, or for an invalid learner.
        """
        split = split_rows_by_class(dataset, rng)
        categorical = np.array([bool(own) for own in dataset.categories], dtype=bool)
        preparation = Preparation.fit(dataset.values[split.training], categorical)
        table = preparation.apply(dataset.values)
        prepared = table[split.training], dataset.labels[split.training], len(dataset.classes)
        columns = _columns(dataset.spec, preparation)
        seed = int(rng.integers(2**32))
        learner = Learner.from_options(prepared, columns, options, run.learner_modules, dataset.losses, seed)
        return cls(split, preparation, table, learner, EvaluationCriteria.from_dataset(dataset, options))

    def make_evaluator(self, rows: Int64s) -> Evaluator:
        """Return an evaluator on some rows, which trains feature sets as needed."""
        table = self.table[rows]
        return self.criteria.make_evaluator(rows, lambda masks: self.learner.train_and_predict(table, masks))


def split_rows_by_class(dataset: FeatureTable, rng: np.random.Generator) -> RowSplit:
    """Split the items of each class: half for training, and a quarter each for validation and test.

    The class of an item is the rarest class of its rows. Raises InvalidRequest for a class with too few items.
    """
    grouped, classes = GroupedRows.from_codes(dataset.item_codes), len(dataset.classes)
    labels = stratify_labels_by_item(grouped, dataset.labels)
    counts = np.bincount(labels, minlength=classes)
    least = int(np.argmin(counts))
    if counts[least] < MIN_CLASS_ROWS:
        counted = f"{counts[least]} {grouped.counted}"
        fault = f"class {dataset.classes[least]!r} must have at least {MIN_CLASS_ROWS} rows, got {counted}"
        raise InvalidRequest.from_faults(Fault(("dataset",), fault))
    part = np.empty(len(labels), dtype=np.int64)
    for code in range(classes):
        own = np.flatnonzero(labels == code)
        for number, rows in enumerate(split_rows(own, [len(own) // 2, len(own) * 3 // 4], rng)):
            part[own[rows]] = number
    return RowSplit(*(np.flatnonzero(part[grouped.place] == number) for number in range(3)))


def _columns(spec: FeaturesSpec, preparation: Preparation) -> tuple[tuple[int, ...], ...]:
    """List the prepared columns of each feature."""
    ends = np.cumsum([0, *preparation.widths.tolist()]).tolist()
    starts = np.cumsum([0, *(len(feature.columns) for feature in spec.features)]).tolist()
    return tuple(tuple(range(ends[start], ends[end])) for start, end in pairwise(starts))
