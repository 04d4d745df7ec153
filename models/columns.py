"""Validation of table columns, and their conversion to arrays.

A column is a one-dimensional array of numbers (NaN for missing cells) or objects (text, None for missing cells). Each
check appends its errors to ``faults``, with the first invalid row counted from 1, and continues.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.arrays import Bools, Floats, Int32s, Int64s, Singles
from models.errors import Fault, InvalidRequest

MAX_COORDINATE_VALUE = 1e30
"""The largest value of a feature, either way: single precision can hold it, and its square is finite."""
Columns = Mapping[str, NDArray[Any]]
_NOTHING = np.empty(0)
_WHOLE_FLOAT = re.compile(r"^([+-]?[0-9]+)\.0+$")
MAX_CLASS_LENGTH = 200
_TRUTHS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
_WHOLE = 2.0**53
"""Up to here every whole number is a float of its own."""


def find_duplicate_name(names: Iterable[str]) -> str | None:
    """Return the first duplicate name; None without one.

    >>> find_duplicate_name(["a", "b", "a"])
    'a'
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def require_unique_names(what: str, names: Iterable[str]) -> None:
    """Raise ValueError for a duplicate name."""
    repeated = find_duplicate_name(names)
    if repeated is not None:
        raise ValueError(f"{what} must be unique, got {repeated!r} twice")


def read_numbers(
    columns: Columns,
    name: str,
    faults: list[Fault],
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    missing: bool = False,
) -> Floats:
    """Return a column of finite numbers, after checking their range.

    Args:
        at_least: minimum.
        at_most: maximum.
        above: exclusive minimum.
        missing: whether missing cells are allowed; they are NaN.
    """
    column = _present(columns, name, faults)
    if column is None:
        return _NOTHING
    if column.dtype.kind not in "iufb":
        row = _first(_not_numeric(column))
        faults.append(Fault(("table", name), f"must hold numbers, got in row {row + 1}: {_shown(column[row])}", row))
        return _NOTHING
    values = column.astype(np.float64)
    checks = [(~np.isfinite(values), "must be finite and not missing")]
    if missing:
        checks = [(np.isinf(values), "must be finite")]
    if at_least is not None:
        checks.append((values < at_least, f"must be at least {at_least:g}"))
    if above is not None:
        checks.append((values <= above, f"must be above {above:g}"))
    if at_most is not None:
        checks.append((values > at_most, f"must be at most {at_most:g}"))
    for bad, rule in checks:
        if bad.any():
            row = _first(bad)
            faults.append(Fault(("table", name), f"{rule}; row {row + 1} is {_shown(column[row])}", row))
            break
    return values


def read_texts(columns: Columns, name: str, faults: list[Fault]) -> NDArray[Any]:
    """Return a column of classes as texts.

    Whole numbers are written without decimals, so that 1 and 1.0 are one class.
    """
    column = _present(columns, name, faults)
    if column is None:
        return _NOTHING
    missing = find_missing(column)
    if missing.any():
        row = _first(missing)
        message = f"must not be missing or infinite; row {row + 1} is {_shown(column[row])}"
        faults.append(Fault(("table", name), message, row))
        return _NOTHING
    if column.dtype.kind == "b":
        return np.where(column, "true", "false")
    if column.dtype.kind == "f":
        whole = (column == np.floor(column)) & (np.abs(column) <= _WHOLE)
        return np.where(whole, np.where(whole, column, 0).astype(np.int64).astype(str), column.astype(str))
    if column.dtype.kind == "O":  # one long text would make every row as long
        long = np.array([len(str(value)) > MAX_CLASS_LENGTH for value in column])
        if long.any():
            row, rule = _first(long), f"must hold classes of at most {MAX_CLASS_LENGTH} characters"
            faults.append(Fault(("table", name), f"{rule}; row {row + 1} has {len(column[row])}", row))
            return _NOTHING
        distinct, inverse = np.unique(column.astype(str), return_inverse=True)
        return np.array([_WHOLE_FLOAT.sub(r"\1", text) for text in distinct.tolist()])[inverse]
    return column.astype(str)


def read_prompts(columns: Columns, name: str, faults: list[Fault]) -> list[str]:
    """Return a column of texts of any length; missing texts are faults."""
    column = _present(columns, name, faults)
    if column is None:
        return []
    missing = find_missing(column)
    if missing.any():
        row = _first(missing)
        faults.append(Fault(("table", name), f"must not be missing; row {row + 1} is empty", row))
    return [str(cell) for cell in column.tolist()]


def read_truths(columns: Columns, name: str, faults: list[Fault]) -> Floats:
    """Return a boolean column as 1 and 0.

    Cells are numbers, or the texts ``true`` and ``false`` in any case.
    """
    column = _present(columns, name, faults)
    if column is None:
        return _NOTHING
    if column.dtype.kind == "O":
        read = [parse_boolean(cell) for cell in column]
        column = np.array([np.nan if truth is None else truth for truth in read])
    values = column.astype(np.float64) if column.dtype.kind in "iufb" else np.full(len(column), np.nan)
    odd = (values != 0) & (values != 1)
    if odd.any():
        row = _first(odd)
        message = f"must be 0 or 1, false or true; row {row + 1} is {_shown(columns[name][row])}"
        faults.append(Fault(("table", name), message, row))
    return values


def parse_boolean(cell: object) -> float | None:
    """Parse a boolean as 1 or 0; return None for anything else.

    >>> parse_boolean("True"), parse_boolean(0.0), parse_boolean("maybe"), parse_boolean(0.5)
    (1.0, 0.0, None, None)
    """
    return _TRUTHS.get(str(cell).strip().lower())


def format_class(cell: str | float | bool) -> str:
    """Return the text of one class or category, in the form of ``read_texts``.

    >>> format_class(1.0), format_class("1.0"), format_class(True), format_class(0.5), format_class("red")
    ('1', '1', 'true', '0.5', 'red')
    """
    return str(read_texts({"": np.array([cell], dtype=object if isinstance(cell, str) else None)}, "", [])[0])


def encode_categories(
    columns: Columns, name: str, faults: list[Fault], *, missing: bool
) -> tuple[tuple[str, ...], Floats]:
    """Return the sorted categories of a column, and the index of each row's category.

    The index of a missing cell is NaN.
    """
    column = _present(columns, name, faults)
    if column is None:
        return (), _NOTHING
    there = ~find_missing(column) if missing else np.ones(len(column), dtype=bool)
    codes = np.full(len(column), np.nan)
    if not there.any():
        faults.append(Fault(("table", name), "must not be missing in every row"))
        return (), codes
    cells = read_texts({name: column[there]}, name, faults)
    if not len(cells):
        return (), codes
    names, inverse = np.unique(cells, return_inverse=True)
    order = sorted(range(len(names)), key=lambda i: _class_order(str(names[i])))
    codes[there] = np.argsort(order)[inverse]
    return tuple(str(names[i]) for i in order), codes


def encode_classes(name: str, label: NDArray[Any], faults: list[Fault]) -> tuple[tuple[str, ...], Int32s]:
    """Return the sorted classes of a label, and the index of each row's class.

    Numbers are sorted by value, and texts alphabetically.
    """
    distinct, inverse = np.unique(label, return_inverse=True)
    if len(label) and len(distinct) < 2:
        faults.append(
            Fault(
                ("table", name),
                f"must have at least 2 classes, got {str(distinct[0])!r} in {len(label)} rows",
            )
        )
    order = sorted(range(len(distinct)), key=lambda i: _class_order(str(distinct[i])))
    rank = np.empty(len(distinct), dtype=np.int32)
    rank[order] = np.arange(len(distinct), dtype=np.int32)
    codes = rank[inverse] if len(label) else np.empty(0, dtype=np.int32)
    return tuple(str(distinct[i]) for i in order), codes


def read_items(columns: Columns, name: str | None, faults: list[Fault]) -> tuple[tuple[str, ...], Int64s]:
    """Return the names of items, and the index of each row's item among them.

    Names that exceed the maximum length of a class, such as prompts, are replaced by their SHA-256. Without an item
    column, both results are empty.
    """
    nothing = np.empty(0, dtype=np.int64)
    if name is None:
        return (), nothing
    column = _present(columns, name, faults)
    if column is not None and column.dtype.kind == "O":
        column = np.array([shorten_text(value) if isinstance(value, str) else value for value in column], dtype=object)
    read = nothing if column is None else read_texts({name: column}, name, faults)
    names, codes = np.unique(read, return_inverse=True)
    return tuple(map(str, names)), codes.astype(np.int64)


def shorten_text(text: str) -> str:
    """Replace a text that exceeds the maximum length of a class by its SHA-256."""
    return text if len(text) <= MAX_CLASS_LENGTH else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def validate_embeddings(embeddings: NDArray[Any] | None, rows: int, faults: list[Fault]) -> Singles:
    """Return the embeddings; their shape is checked, and numbers must be finite."""
    if embeddings is None:
        return np.empty((rows, 0), dtype=np.float32)
    if embeddings.ndim != 2 or embeddings.dtype != np.float32:
        shape = f"{embeddings.dtype} of shape {embeddings.shape}"
        faults.append(Fault(("embeddings",), f"must be float32 with two dimensions, got {shape}"))
    elif len(embeddings) != rows:
        faults.append(Fault(("embeddings",), f"must have {rows} rows, like the table, got {len(embeddings)}"))
    elif embeddings.shape[1] == 0:
        faults.append(Fault(("embeddings",), "must have at least 1 column"))
    elif not np.isfinite(embeddings).all():
        row = _first(~np.isfinite(embeddings).all(axis=1))
        faults.append(Fault(("embeddings",), f"must be finite; row {row + 1} is not", row))
    return np.ascontiguousarray(embeddings)


def stack_columns(columns: list[Floats | float] | list[Floats], rows: int) -> Floats:
    """Stack columns or constants: (rows, len(columns)), C-ordered and read-only."""
    table = np.empty((rows, len(columns)))
    for j, column in enumerate(columns):
        table[:, j] = column
    table.flags.writeable = False
    return table


def raise_faults(faults: list[Fault]) -> None:
    """Raise InvalidRequest with all faults if there are any."""
    if faults:
        raise InvalidRequest.from_faults(*faults)


def _present(columns: Columns, name: str, faults: list[Fault]) -> NDArray[Any] | None:
    column = columns.get(name)
    if column is None:
        known = ", ".join(list(columns)[:8]) + (", …" if len(columns) > 8 else "")
        faults.append(Fault(("table", name), f"column not found; available of the spec: {known or 'none'}"))
    elif len(column) == 0:
        faults.append(Fault(("table", name), "must have at least 1 row"))
        return None
    return column


def find_empty(column: NDArray[Any]) -> Bools:
    """Return which cells are empty, (n,): NaN, None, or an empty text."""
    return np.asarray(np.isnan(column), dtype=np.bool_) if column.dtype.kind == "f" else find_missing(column)


def find_missing(column: NDArray[Any]) -> Bools:
    """Return which cells are missing, (n,): not finite, None, or an empty text."""
    if column.dtype.kind == "f":
        return np.asarray(~np.isfinite(column), dtype=np.bool_)
    if column.dtype.kind == "O":
        return np.array([value is None or value == "" for value in column], dtype=bool)
    return np.zeros(len(column), dtype=bool)


def _not_numeric(column: NDArray[Any]) -> Bools:
    """Return which cells prevent a text column from being read as numbers.

    If each cell alone could be a number, all cells are returned.
    """
    bad = np.array([not _is_number(value) for value in column])
    return bad if bad.any() else np.ones(len(column), dtype=bool)


def find_non_number(cells: Iterable[object]) -> int | None:
    """Return the index of the first cell that is not the text of a finite number; None without one.

    >>> find_non_number(["1", b"2.5", "x", ""])
    2
    """
    return next((row for row, cell in enumerate(cells) if not _is_number(cell)), None)


def _is_number(value: object) -> bool:
    try:
        return bool(np.isfinite(float(value))) and "_" not in str(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _class_order(name: str) -> tuple[int, float, str]:
    return (0, float(name), name) if _is_number(name) else (1, 0.0, name)


def _first(bad: Bools) -> int:
    return int(np.argmax(bad))


def _shown(value: object) -> str:
    if value is None or value == "" or (isinstance(value, float) and np.isnan(value)):
        return "missing"
    return repr(str(value)) if isinstance(value, str) else str(value)
