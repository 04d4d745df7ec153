"""Items as callers send them: what is known of each, by feature, as numbers that a classifier can be asked about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats
from models.columns import text_of
from models.errors import MOST_FAULTS
from models.evaluation import Cell
from models.pipeline import Cells


@dataclass(frozen=True, slots=True, eq=False)
class ItemReader:
    """Reads items. places: by feature, its number and the numbers of its columns; names: of columns; categories: by
    column, the code of each category, None for numbers; missing: whether a cell may be missing."""

    places: dict[str, tuple[int, range]]
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
        """Prepare to read items with these features."""
        ends = np.cumsum([0, *map(len, columns)]).tolist()
        places = {name: (f, range(ends[f], ends[f + 1])) for f, name in enumerate(features)}
        codes = tuple({name: code for code, name in enumerate(own)} if own else None for own in categories)
        return cls(places, tuple(name for own in columns for name in own), codes, missing)

    def read(self, items: Sequence[Mapping[str, Cells]], where: str) -> tuple[Floats, Bools]:
        """Give values (m, d), NaN where nothing is known, and which features are known, (m, n).

        A category that the build did not see is none of those that it did. Raises InvalidRequest with the first faults:
        unknown features, too few or too many values, text for a number, a missing cell where none may be missing.
        """
        values = np.full((len(items), len(self.names)), np.nan)
        known = np.zeros((len(items), len(self.places)), dtype=bool)
        faults: list[Fault] = []
        for row, item in enumerate(items):
            at = (where,) if where == "acquired" else (where, row)
            for name, given in item.items():
                place = self.places.get(name)
                if place is None:
                    faults.append(Fault((*at, name), f"is no feature; there are {', '.join(self.places)}"))
                    continue
                cells = given if isinstance(given, tuple) else (given,)
                if len(cells) != len(place[1]):
                    faults.append(Fault((*at, name), f"has {len(cells)} values, its columns are {len(place[1])}"))
                    continue
                known[row, place[0]] = True
                for column, cell in zip(place[1], cells, strict=True):
                    values[row, column] = self._number(column, cell, (*at, name), faults)
            if len(faults) >= MOST_FAULTS:
                break
        if faults:
            raise InvalidRequest.from_faults(*faults[:MOST_FAULTS])
        return values, known

    def _number(self, column: int, cell: Cell, at: tuple[str | int, ...], faults: list[Fault]) -> float:
        code_of = self.categories[column]
        if cell is None or (cell == "" and code_of is not None):
            if not self.missing:
                faults.append(Fault(at, f"column {self.names[column]!r} is missing, the dataset has no missing cells"))
            return np.nan
        if code_of is not None:
            return code_of.get(text_of(cell), -1)
        if isinstance(cell, str):
            faults.append(Fault(at, f"column {self.names[column]!r} is {cell!r}, must be a number"))
            return np.nan
        return float(cell)
