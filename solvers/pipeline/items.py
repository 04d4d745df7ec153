"""Parsing of items: the known features of each item, as numbers for classifiers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats
from models.columns import format_class
from models.errors import MAX_FAULTS
from models.evaluation import Cell
from models.pipeline import Cells


@dataclass(frozen=True, slots=True, eq=False)
class ItemReader:
    """Parser of the known features of items.

    Attributes:
        indices: by feature name, its index and the indices of its columns.
        names: names of the columns.
        categories: by column, the code of each category, None for numbers.
        missing: whether cells may be missing.
    """

    indices: dict[str, tuple[int, range]]
    names: tuple[str, ...]
    categories: tuple[dict[str, int] | None, ...]
    missing: bool

    @classmethod
    def from_columns(
        cls,
        features: Sequence[str],
        columns: Sequence[Sequence[str]],
        categories: Sequence[Sequence[str]],
        *,
        missing: bool,
    ) -> "ItemReader":
        """Build a reader from features, their columns, and the columns' categories."""
        ends = np.cumsum([0, *map(len, columns)]).tolist()
        indices = {name: (f, range(ends[f], ends[f + 1])) for f, name in enumerate(features)}
        codes = tuple({name: code for code, name in enumerate(own)} if own else None for own in categories)
        return cls(indices, tuple(name for own in columns for name in own), codes, missing)

    def read(self, items: Sequence[Mapping[str, Cells]], where: str) -> tuple[Floats, Bools]:
        """Return values (m, d), NaN if unknown, and whether each feature is known, (m, n).

        Unknown categories get the code -1. Raises InvalidRequest with the first faults: unknown features, wrong numbers
        of values, text for a number, or missing cells where they are not allowed.
        """
        values = np.full((len(items), len(self.names)), np.nan)
        known = np.zeros((len(items), len(self.indices)), dtype=bool)
        faults: list[Fault] = []
        for row, item in enumerate(items):
            at = (where,) if where == "acquired" else (where, row)
            for name, cell_or_cells in item.items():
                place = self.indices.get(name)
                if place is None:
                    faults.append(Fault((*at, name), f"feature not found; available: {', '.join(self.indices)}"))
                    continue
                cells = cell_or_cells if isinstance(cell_or_cells, tuple) else (cell_or_cells,)
                cells = cells * len(place[1]) if cell_or_cells is None else cells
                if len(cells) != len(place[1]):
                    faults.append(Fault((*at, name), f"must have {len(place[1])} values, got {len(cells)}"))
                    continue
                known[row, place[0]] = True
                for column, cell in zip(place[1], cells, strict=True):
                    values[row, column] = self._number(column, cell, (*at, name), faults)
            if len(faults) >= MAX_FAULTS:
                break
        if faults:
            raise InvalidRequest.from_faults(*faults[:MAX_FAULTS])
        return values, known

    def _number(self, column: int, cell: Cell, at: tuple[str | int, ...], faults: list[Fault]) -> float:
        code_of = self.categories[column]
        if cell is None or (cell == "" and code_of is not None):
            if not self.missing:
                faults.append(
                    Fault(at, f"column {self.names[column]!r} requires a value: the dataset has no missing values")
                )
            return np.nan
        if code_of is not None:
            return code_of.get(format_class(cell), -1)
        if isinstance(cell, str):
            faults.append(Fault(at, f"column {self.names[column]!r} must be a number, got {cell!r}"))
            return np.nan
        return float(cell)
