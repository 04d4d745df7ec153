"""Numerical encoding of categories and missing cells: models receive complete numbers only.

A table is encoded before training (``solvers.cell_encoding``): the encoding of a feature has one or more numerical
columns. A plan keeps the encoding and accepts cells in the table's original form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Floats, Int32s
from solvers.cell_encoding import CellEncoding, parse_finite_number


def list_column_owners(columns: Sequence[Sequence[str]]) -> Int32s:
    """Return the feature of each column, (d,), given the columns of each feature."""
    return np.repeat(np.arange(len(columns), dtype=np.int32), [len(own) for own in columns])


def encode_table(table: FeatureTable) -> FeatureTable:
    """Return a mixed table in numerical encoding: the same features, each with the columns of its encoding.

    Tables of complete numbers are returned unchanged.
    """
    encoding = CellEncoding.from_table(table, list_column_owners([feature.columns for feature in table.spec.features]))
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
    return replace(table, spec=spec, values=encoding.encode_cells(table), categories=((),) * len(every))


def select_features(table: FeatureTable, names: Sequence[str]) -> FeatureTable:
    """Return the table with some of its features, in this order, and all rows.

    Set-up groups remain, also those without a feature, so that the cost of features left out is known.

    Raises:
        InvalidRequest: the table lacks a feature.
    """
    known = {feature.name: feature for feature in table.spec.features}
    lacking = [name for name in names if name not in known]
    if lacking:
        raise InvalidRequest.from_faults(
            Fault(("dataset", "features"), f"feature {lacking[0]!r} of the index is not in this dataset")
        )
    features = tuple(known[name] for name in names)
    place = {column: at for at, column in enumerate(table.spec.feature_columns)}
    columns = [place[column] for feature in features for column in feature.columns]
    setup = tuple(
        group.model_copy(update={"features": tuple(each for each in group.features if each in names)})
        for group in table.spec.setup
    )
    spec = table.spec.model_copy(update={"features": features, "setup": setup})
    categories = tuple(table.categories[column] for column in columns)
    return replace(table, spec=spec, categories=categories, values=np.ascontiguousarray(table.values[:, columns]))


def encode_items(
    encoding: CellEncoding | None, columns: Sequence[tuple[int, str, str]], items: Sequence[Mapping[str, Any]]
) -> Floats:
    """Encode some columns of items numerically: (n, D).

    Args:
        columns: index in the encoding, name of the feature, and name, of each column.
    Raises:
        InvalidRequest: an item lacks a column or has an invalid cell.
    """
    rows, faults = [], list[Fault]()
    for i, item in enumerate(items):
        row: list[float] = []
        for place, feature, column in columns:
            at = ("items", i, column) if feature == column else ("items", i, feature, column)
            if column not in item:
                raise InvalidRequest.from_faults(Fault(at, "is required by the chosen features"))
            cell = item[column]
            try:
                row += [parse_finite_number(cell)] if encoding is None else encoding.encode_cell(place, cell)
            except ValueError as error:
                faults.append(Fault(at, str(error)))
        rows.append(row)
    if faults:
        raise InvalidRequest.from_faults(*faults)
    return np.array(rows, dtype=np.float64)
