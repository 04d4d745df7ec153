"""Partial traces: tables in which not every classifier was called for every item.

Production logs are an example. A missing cell means that its classifier was not called for the item. If any cell of a
classifier is missing in a row, the classifier counts as not called. An answer without a cost cannot be used, nor can a
cost without an answer.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from models.arrays import Bools, Floats
from models.columns import Columns, find_empty, read_numbers
from models.errors import Fault


def find_calls(columns: Columns, classifiers: Sequence[Iterable[str]], faults: list[Fault]) -> Bools:
    """Return where each classifier was called, (n, m); (0, 0) for a complete trace.

    Args:
        columns: the table.
        classifiers: the names of each classifier's columns.
        faults: receives rows without any call, and classifiers that were never called.
    """
    missing = {name: find_empty(columns[name]) for own in classifiers for name in own if name in columns}
    if not any(each.any() for each in missing.values()):
        return np.zeros((0, 0), dtype=np.bool_)
    rows = max(len(each) for each in missing.values())
    called = np.ones((rows, len(classifiers)), dtype=np.bool_)
    for j, own in enumerate(classifiers):
        for name in own:
            if name in missing:
                called[:, j] &= ~missing[name]
        if not called[:, j].any():
            faults.append(Fault(("spec", "classifiers", j), "must have a complete row: a cell is missing in every row"))
    without = np.flatnonzero(~called.any(axis=1))
    if len(without):
        row, rule = int(without[0]), "must have all cells of at least one classifier in each row"
        first = f"row {row + 1} is the first of {len(without)} rows without such a classifier"
        faults.append(Fault(("table",), f"{rule}; {first}; remove these rows", row))
    return called


def fill_uncalled(columns: Columns, classifiers: Sequence[Iterable[str]], called: Bools) -> Columns:
    """Fill the missing cells of uncalled classifiers with a cell of a called row.

    Each column can then be read like a complete column. Callers must ignore values where a classifier was not called.
    """
    if not called.size:
        return columns
    filled = dict(columns)
    for j, own in enumerate(classifiers):
        if not called[:, j].any():
            continue
        for name in own:
            if name in filled:
                column, missing = filled[name], find_empty(filled[name])
                filled[name] = np.where(missing, column[int(called[:, j].argmax())], column)
    return filled


def read_propensities(columns: Columns, names: Sequence[str | None], called: Bools, faults: list[Fault]) -> Floats:
    """Return the probability that each classifier is called for each row, (n, m).

    Unknown probabilities are NaN. Without any, the shape is (0, 0).

    Args:
        names: the propensity column of each classifier; cells may be empty if unknown.
        called: (n, m), or (0, 0) if all classifiers were called for all items.
        faults: receives propensities of calls outside (0, 1].
    """
    if not called.size or all(name is None for name in names):
        return np.empty((0, 0))
    propensities = np.full(called.shape, np.nan)
    for j, name in enumerate(names):
        if name is None:
            continue
        values = read_numbers(columns, name, faults, missing=True)
        if not len(values):
            continue
        wrong = np.flatnonzero(called[:, j] & ((values <= 0) | (values > 1)))
        if len(wrong):
            row, rule = int(wrong[0]), "must be above 0, and at most 1, where the classifier was called"
            faults.append(Fault(("table", name), f"{rule}; row {row + 1} is {values[row]:g}", row))
        propensities[:, j] = np.where((values > 0) & (values <= 1), values, np.nan)
    return propensities
