"""Paths of the API, and parts of uploads: tables, specs, and embeddings."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from parsimony.errors import InvalidRequest

_TABLE_TYPES = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet", ".jsonl": "application/x-ndjson"}


def make_path(*parts: str) -> str:
    """Return a path of the API, with quoted parts."""
    return "/".join(("/v1", *(quote(part, safe="") for part in parts)))


def make_spec_part(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part with a dataset's columns."""
    return {"spec": (None, json.dumps(spec), "application/json")}


def make_source_part(kind: str, location: str, sample_rows: int | None) -> dict[str, Any]:
    """Return the part with the source of a dataset's rows.

    Args:
        kind: ``url`` or ``upload``.
        sample_rows: None: the server's default.
    """
    source = {kind: location} | ({} if sample_rows is None else {"sample_rows": sample_rows})
    return {"source": (None, json.dumps(source), "application/json")}


def read_table(table: Any, embeddings: Any = None) -> dict[str, Any]:
    """Return the parts of a table and its embeddings.

    Args:
        table: path of a CSV, Parquet, or JSON Lines file, or a frame of pandas or polars.
        embeddings: (n, d) numbers; None without.
    """
    parts: dict[str, Any] = {"table": _read_file(table)}
    if embeddings is not None:
        import numpy as np  # of the caller, who has arrays; the client needs none

        buffer = io.BytesIO()
        np.save(buffer, np.asarray(embeddings, dtype=np.float32), allow_pickle=False)
        parts["embeddings"] = ("embeddings.npy", buffer.getvalue(), "application/x-npy")
    return parts


def _read_file(table: Any) -> tuple[str, bytes, str]:
    """Return the file name, bytes, and media type of a table."""
    if isinstance(table, str | Path):
        path = Path(table)
        if path.suffix not in _TABLE_TYPES:
            raise InvalidRequest(
                f"table must end in {', '.join(_TABLE_TYPES)}, got {path.name!r}", code="invalid-request"
            )
        return path.name, path.read_bytes(), _TABLE_TYPES[path.suffix]
    if hasattr(table, "write_csv"):  # polars
        return "table.csv", table.write_csv().encode(), "text/csv"
    if hasattr(table, "to_csv"):  # pandas
        return "table.csv", table.to_csv(index=False).encode(), "text/csv"
    raise InvalidRequest(
        f"table must be a path, or a frame of pandas or polars, got {type(table).__name__}", code="invalid-request"
    )
