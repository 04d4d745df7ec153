"""Traces as files: a Parquet table, with its spec next to it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from app import terminal
from app.cli.service import open_service
from models.arrays import Singles


def write_trace(table: pa.Table, spec: Mapping[str, Any], output: Path) -> None:
    """Write a trace and its spec."""
    pa.parquet.write_table(table, output)
    _spec_of(output).write_text(json.dumps(spec, indent=1, ensure_ascii=False))


def store_trace(output: Path, name: str | None, *, to_stderr: bool, has_embeddings: bool = False) -> None:
    """Store a written trace as a dataset, if it has a name, and print the next commands.

    Args:
        has_embeddings: whether the file of ``write_embeddings`` exists.
    """
    console, described = terminal.get_console(stderr=to_stderr), _spec_of(output)
    vectors = _embeddings_of(output) if has_embeddings else None
    files = f"{output} and its spec {described}" if vectors is None else f"{output}, {described}, and {vectors}"
    console.print(f"wrote {files}", soft_wrap=True)
    if name is None:
        embedded = "" if vectors is None else f" --embeddings {vectors}"
        console.print(f"what it would have saved: parsimony try {output} --spec {described}{embedded}", soft_wrap=True)
        return
    with open_service() as service:
        service.put_dataset(name, output, described, vectors)
    console.print(f"stored dataset {name}; build it: parsimony build portfolio {name} --dataset {name}", soft_wrap=True)


def write_embeddings(embeddings: Singles, output: Path) -> None:
    """Write the embeddings of a trace's items, (n, d), next to the trace."""
    np.save(_embeddings_of(output), embeddings, allow_pickle=False)


def _embeddings_of(output: Path) -> Path:
    return output.with_suffix(".npy")


def _spec_of(output: Path) -> Path:
    return output.with_suffix(".json")
