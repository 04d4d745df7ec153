"""A table prepared for a build: cut into parts, its columns as numbers, with its learner and its criteria."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from models import Fault, FeaturesSpec, FeatureTable, InvalidRequest
from models.arrays import Floats, Int64s
from models.pipeline import PipelineOptions
from solvers.base import Run
from solvers.learners.table_preparation import Preparation
from solvers.pipeline.classifiers import Learner
from solvers.pipeline.objectives import Criteria, Evaluator

LEAST_OF_CLASS = 4
"""Rows that each class needs: two to train on, one in each other part."""


@dataclass(frozen=True, slots=True, eq=False)
class RowSplit:
    """Rows to train on, to choose by, and to report on."""

    training: Int64s
    validation: Int64s
    test: Int64s

    def counts(self) -> dict[str, int]:
        """Count the rows of each part."""
        return {"training": len(self.training), "validation": len(self.validation), "test": len(self.test)}


@dataclass(frozen=True, slots=True, eq=False)
class PreparedData:
    """table: (n, D) prepared rows, by a preparation fitted to the training part only."""

    split: RowSplit
    preparation: Preparation
    table: Floats
    learner: Learner
    criteria: Criteria

    @classmethod
    def of(cls, dataset: FeatureTable, options: PipelineOptions, rng: np.random.Generator, run: Run) -> "PreparedData":
        """Prepare a table; raises InvalidRequest for a class of too few rows, or a learner that cannot be."""
        split = cut_rows(dataset, rng)
        categorical = np.array([bool(own) for own in dataset.categories], dtype=bool)
        preparation = Preparation.fitted(dataset.values[split.training], categorical)
        table = preparation.apply(dataset.values)
        prepared = table[split.training], dataset.labels[split.training], len(dataset.classes)
        columns = _columns(dataset.spec, preparation)
        learner = Learner.of(prepared, columns, options, run.learner_modules, int(rng.integers(2**32)))
        return cls(split, preparation, table, learner, Criteria.of(dataset, options))

    def evaluator(self, rows: Int64s) -> Evaluator:
        """Criteria configurations by some rows, training what they need."""
        table = self.table[rows]
        return self.criteria.evaluator(rows, lambda masks: self.learner.answers(table, masks))


def cut_rows(dataset: FeatureTable, rng: np.random.Generator) -> RowSplit:
    """Cut the rows of each class into half, a quarter and a quarter; raises InvalidRequest if one has too few."""
    counts = np.bincount(dataset.labels, minlength=len(dataset.classes))
    least = int(np.argmin(counts))
    if counts[least] < LEAST_OF_CLASS:
        fault = f"class {dataset.classes[least]!r} has {counts[least]} rows, a pipeline needs {LEAST_OF_CLASS} of each"
        raise InvalidRequest.at(Fault(("dataset",), fault))
    rows_of_parts: tuple[list[Int64s], list[Int64s], list[Int64s]] = ([], [], [])
    for code, count in enumerate(counts.tolist()):
        own = rng.permutation(np.flatnonzero(dataset.labels == code))
        for part, rows in zip(rows_of_parts, np.split(own, [count // 2, count * 3 // 4]), strict=True):
            part.append(rows)
    return RowSplit(*(np.sort(np.concatenate(part)) for part in rows_of_parts))


def _columns(spec: FeaturesSpec, preparation: Preparation) -> tuple[tuple[int, ...], ...]:
    """List the prepared columns of each feature."""
    ends = np.cumsum([0, *preparation.widths.tolist()]).tolist()
    starts = np.cumsum([0, *(len(feature.columns) for feature in spec.features)]).tolist()
    return tuple(tuple(range(ends[start], ends[end])) for start, end in pairwise(starts))
