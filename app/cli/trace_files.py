"""Traces as files: a Parquet table, with its spec next to it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from app import terminal
from app.cli.service import open_service


def write_trace(table: pa.Table, spec: Mapping[str, Any], output: Path) -> None:
    """Write a trace and its spec."""
    pa.parquet.write_table(table, output)
    _spec_of(output).write_text(json.dumps(spec, indent=1, ensure_ascii=False))


def store_trace(output: Path, name: str | None, *, to_stderr: bool) -> None:
    """Store a written trace as a dataset, if it has a name, and print the next commands."""
    console, described = terminal.get_console(stderr=to_stderr), _spec_of(output)
    console.print(f"wrote {output} and its spec {described}", soft_wrap=True)
    if name is None:
        console.print(f"what it would have saved: parsimony try {output} --spec {described}", soft_wrap=True)
        return
    with open_service() as service:
        service.put_dataset(name, output, described, None)
    console.print(f"stored dataset {name}; build it: parsimony build portfolio {name} --dataset {name}", soft_wrap=True)


def _spec_of(output: Path) -> Path:
    return output.with_suffix(".json")
