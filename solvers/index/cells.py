"""Categories and missing cells of an index's tables, as numbers: models see complete numbers only.

A table is encoded before anything is learned (``solvers.cell_encoding``): each feature then fills as many columns as
its cells become numbers. A plan keeps the encoding of the features that it looks at, and answers for cells as the table
had them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Floats, Int32s
from solvers.cell_encoding import CellEncoding, finite


def owners_of(columns: Sequence[Sequence[str]]) -> Int32s:
    """Tell the feature of each column, (d,), given the columns of each."""
    return np.repeat(np.arange(len(columns), dtype=np.int32), [len(own) for own in columns])


def encoded(table: FeatureTable) -> FeatureTable:
    """Make all cells of a table numbers: the same features, each with a column for each number; a table of complete
    numbers is left as it is."""
    encoding = CellEncoding.of(table, owners_of([feature.columns for feature in table.spec.features]))
    if encoding is None:
        return table
    owners, widths = np.repeat(encoding.owners, encoding.widths), encoding.widths.tolist()
    every = [
        f"{name}, {part}"
        for name, width in zip(table.spec.feature_columns, widths, strict=True)
        for part in range(width)
    ]
    features = tuple(
        feature.model_copy(
            update={"columns": tuple(every[column] for column in np.flatnonzero(owners == place).tolist())}
        )
        for place, feature in enumerate(table.spec.features)
    )
    spec = table.spec.model_copy(update={"features": features, "categorical": (), "missing": False})
    return replace(table, spec=spec, values=encoding.apply(table), categories=((),) * len(every))


def only(table: FeatureTable, names: Sequence[str]) -> FeatureTable:
    """Take some of a table's features, in this order, with all rows.

    Raises InvalidRequest for a feature that the table does not have.
    """
    known = {feature.name: feature for feature in table.spec.features}
    lacking = [name for name in names if name not in known]
    if lacking:
        raise InvalidRequest.at(Fault(("dataset", "features"), f"lack {lacking[0]!r}, which the index was built from"))
    features = tuple(known[name] for name in names)
    place = {column: at for at, column in enumerate(table.spec.feature_columns)}
    columns = [place[column] for feature in features for column in feature.columns]
    spec = table.spec.model_copy(update={"features": features})
    categories = tuple(table.categories[column] for column in columns)
    return replace(table, spec=spec, categories=categories, values=np.ascontiguousarray(table.values[:, columns]))


def numbers_of(
    encoding: CellEncoding | None, columns: Sequence[tuple[int, str]], items: Sequence[Mapping[str, Any]]
) -> Floats:
    """Read some columns, by their place among the encoding's and their name, of items: (n, D) as models see them.

    Raises InvalidRequest for a column that an item lacks, or a cell that cannot be one of it.
    """
    rows, faults = [], list[Fault]()
    for i, item in enumerate(items):
        row: list[float] = []
        for place, column in columns:
            if column not in item:
                raise InvalidRequest.at(Fault(("items", i, column), "is missing, the chosen features need it"))
            cell = item[column]
            try:
                row += [finite(cell)] if encoding is None else encoding.numbers(place, cell)
            except ValueError as error:
                faults.append(Fault(("items", i, column), str(error)))
        rows.append(row)
    if faults:
        raise InvalidRequest.at(*faults)
    return np.array(rows, dtype=np.float64)
