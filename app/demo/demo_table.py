"""A table of the demo, as a dataset or as complete items."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import Dataset, FeaturesSpec, TraceSpec, dataset_from_columns
from solvers.evaluation import CompleteItems


@dataclass(frozen=True, slots=True, eq=False)
class DemoTable:
    """Rows of a dataset.

    Attributes:
        spec: describes the columns; in a trace ``NAME.correct`` is a column of classifier NAME.
        columns: (n,) each.
        embeddings: (n, d); None without embeddings.
    """

    spec: TraceSpec | FeaturesSpec
    columns: dict[str, NDArray[Any]]
    embeddings: NDArray[np.float32] | None = None

    def to_dataset(self) -> Dataset:
        """Return the rows as a dataset."""
        return dataset_from_columns(self.spec, self.columns, self.embeddings)

    def to_items(self) -> CompleteItems:
        """Return the rows as complete items."""
        n = len(next(iter(self.columns.values())))
        listed = {name: column.tolist() for name, column in self.columns.items()}
        size = listed.get(str(self.spec.size))
        truth = listed.get(str(self.spec.label))
        return CompleteItems(
            ids=tuple(map(str, range(n))),
            values=tuple(dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)),
            embeddings=None if self.embeddings is None else self.embeddings.astype(np.float64),
            sizes=(None,) * n if size is None else tuple(size),
            truths=(None,) * n if truth is None else tuple(map(str, truth)),
            weights=(1.0,) * n,
        )
