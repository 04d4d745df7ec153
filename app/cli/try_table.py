"""``parsimony try``: the savings that each kind would have had on a table, without a server."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import pyarrow.parquet
import typer

from app import terminal
from app.building.run_build import training_on
from app.cli.advice import print_advice
from app.cli.log_imports import parse_prices, print_import
from app.cli.options import AsJson
from app.importing.imports import find_log_pointers, import_calls
from app.importing.log_files import read_records
from app.importing.log_formats import CallPointers
from app.importing.logged_calls import read_feedback
from app.settings import Settings
from app.store.table_heads import head_of
from app.store.uploads import parse_spec, read_dataset
from models import Dataset
from models.advice import Advice, AdviceRequest
from models.spec_draft import draft_of
from solvers.advice import advise
from solvers.base import BuildContext, run_in_process
from solvers.row_repeats import list_data_warnings

_FILE = typer.Argument(exists=True, dir_okay=False, help="Table or log: CSV or JSON Lines (also gzipped), or Parquet.")


def try_table(
    table: Annotated[Path, _FILE],
    spec: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="JSON file that describes the columns; default: a draft."),
    ] = None,
    embeddings: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Embeddings of the rows: .npy, float32.")
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Of a log: file of outcomes, as for import-logs."),
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Of a log: JSON of prices by model.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Budget: mean cost per item.")] = None,
    min_accuracy: Annotated[float | None, typer.Option(help="Lower bound on accuracy, 0 to 1.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for all kinds together.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Build every kind from a table in memory, and show the savings of each kind on rows that it did not learn from."""
    request = AdviceRequest(
        dataset=_name_dataset(table), budget=budget, min_accuracy=min_accuracy, time_limit_s=time_limit
    )
    max_bytes = Settings().max_body_bytes
    pointers = find_log_pointers(table, needs_outcome=feedback is None) if spec is None else None
    if pointers is None:
        described = _draft_spec(table, max_bytes) if spec is None else spec.read_text()
        vectors = None if embeddings is None else embeddings.read_bytes()
        dataset = read_dataset(parse_spec(described), table, "", vectors, max_bytes=max_bytes)
    else:
        dataset = _import_log(table, pointers, feedback, prices, max_bytes)
    advice = _advise_in_memory(dataset, request)
    print_advice(advice, as_json)
    if not as_json:
        own = str(spec) if spec is not None else "SPEC.json"
        add = f"parsimony dataset add {advice.dataset} {table} --spec {own}"
        if pointers is not None:
            options = [f" --{name} {path}" for name, path in (("feedback", feedback), ("prices", prices)) if path]
            add = f"parsimony import-logs {table} --name {advice.dataset}{''.join(options)}"
        terminal.get_console().print(f"Nothing was stored. Before you build it: {add}", soft_wrap=True)


def _import_log(
    log: Path, pointers: CallPointers, feedback: Path | None, prices: Path | None, max_bytes: int
) -> Dataset:
    """Return the trace of a log of calls, and print what was used."""
    outcomes = {} if feedback is None else read_feedback(read_records(feedback))
    imported = import_calls({log: pointers}, "USD", {} if prices is None else parse_prices(prices), outcomes)
    print_import(imported)
    with TemporaryDirectory(prefix="parsimony-") as scratch:
        table = Path(scratch) / "trace.parquet"
        pyarrow.parquet.write_table(imported.table, table)
        return read_dataset(parse_spec(json.dumps(imported.spec)), table, "", None, max_bytes=max_bytes)


def _draft_spec(table: Path, max_bytes: int) -> str:
    """Return a draft of the table's spec as JSON, and print what was guessed."""
    columns, rows = head_of(table, "", max_bytes=max_bytes, run_in=run_in_process)
    spec, guesses = draft_of(columns, rows)
    unused = [name for name in columns if name not in _list_columns(spec)]
    for guess in guesses:
        terminal.get_console(stderr=True).print(f"guessed: {guess}", soft_wrap=True)
    if unused:
        message = f"not used: {', '.join(unused)}; write a spec with `parsimony dataset draft {table} -o SPEC.json`"
        terminal.get_console(stderr=True).print(message, soft_wrap=True)
    return json.dumps(spec)


def _list_columns(value: Any) -> set[str]:
    """Return all texts of a spec, columns among them."""
    if isinstance(value, str):
        return {value}
    parts: Sequence[Any] = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(_list_columns, parts))


def _name_dataset(table: Path) -> str:
    """Return a valid name for the dataset of a file.

    >>> _name_dataset(Path("logs/March 2026.csv.gz"))
    'march-2026'
    """
    return re.sub(r"[^a-z0-9]+", "-", table.name.lower().split(".")[0]).strip("-")[:60] or "table"


def _advise_in_memory(dataset: Dataset, request: AdviceRequest) -> Advice:
    warnings = list_data_warnings(dataset)
    with terminal.progress_bar(f"trying {request.dataset}") as progress, training_on(None):
        advised = advise(dataset, request, request.seed, request.time_limit_s, BuildContext(progress))
    return Advice(**advised, dataset=request.dataset, dataset_sha256="", warnings=warnings)
