"""``parsimony try``: the savings that each kind would have had on a table, without a server."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import pyarrow.parquet
import typer

from app import terminal
from app.building.run_build import joblib_backend
from app.cli.advice import print_advice
from app.cli.log_imports import parse_prices, parse_window, print_import, print_unused
from app.cli.options import AsJson
from app.importing.log_files import read_records
from app.importing.log_formats import CallPointers
from app.importing.log_import import find_log_pointers, import_calls
from app.importing.logged_calls import read_feedback
from app.settings import Settings
from app.store.table_heads import read_table_head
from app.store.uploads import parse_spec, read_dataset
from models import Dataset
from models.advice import Advice, AdviceRequest
from models.errors import Fault, InvalidRequest
from models.log_import import ImportOptions
from models.spec_draft import make_spec_draft
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
    conversation: Annotated[
        str | None, typer.Option(help="Of a log: how chats are embedded, as for import-logs.")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Budget: mean cost per item.")] = None,
    min_accuracy: Annotated[float | None, typer.Option(help="Lower bound on accuracy, 0 to 1.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for all kinds together.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Build every kind from a table in memory, and show the savings of each kind on unseen rows."""
    request = AdviceRequest(
        dataset=_name_dataset(table), budget=budget, min_accuracy=min_accuracy, time_limit_s=time_limit
    )
    max_bytes = Settings().max_body_bytes
    pointers = find_log_pointers(table, needs_outcome=feedback is None) if spec is None else None
    given = {"feedback": feedback, "prices": prices, "conversation": conversation}
    if pointers is None:
        _refuse_for_tables(table, given)
        described = _draft_spec(table, max_bytes) if spec is None else spec.read_text()
        vectors = None if embeddings is None else embeddings.read_bytes()
        dataset = read_dataset(parse_spec(described), table, "", vectors, max_bytes=max_bytes)
    else:
        options = ImportOptions(conversation=None if conversation is None else parse_window(conversation))
        dataset = _import_log(table, pointers, feedback, prices, options, max_bytes, as_json=as_json)
    advice = _advise_in_memory(dataset, request)
    print_advice(advice, as_json)
    if not as_json:
        own = str(spec) if spec is not None else "SPEC.json"
        add = f"parsimony dataset add {advice.dataset} {table} --spec {own}"
        if pointers is not None:
            flags = [f" --{name} {shlex.quote(str(value))}" for name, value in given.items() if value]
            add = f"parsimony import-logs {shlex.quote(str(table))} --name {advice.dataset}{''.join(flags)}"
        terminal.get_console().print(f"Nothing was stored. Before you build it: {add}", soft_wrap=True)


def _refuse_for_tables(table: Path, given: Mapping[str, object]) -> None:
    """Raise InvalidRequest if options of logs are used with a table."""
    for name, value in given.items():
        if value is not None:
            message = f"is an option of logs of calls, but {table.name} is a table, or has a spec"
            raise InvalidRequest.from_faults(Fault((name,), message))


def _import_log(
    log: Path,
    pointers: CallPointers,
    feedback: Path | None,
    prices: Path | None,
    options: ImportOptions,
    max_bytes: int,
    *,
    as_json: bool,
) -> Dataset:
    """Return the trace of a log of calls; unless ``as_json``, print what was used."""
    outcomes = {} if feedback is None else read_feedback(read_records(feedback))
    imported = import_calls({log: pointers}, options, {} if prices is None else parse_prices(prices), outcomes)
    if as_json:
        print_unused(imported.report)
    else:
        print_import(imported)
    with TemporaryDirectory(prefix="parsimony-") as scratch:
        table = Path(scratch) / "trace.parquet"
        pyarrow.parquet.write_table(imported.table, table)
        return read_dataset(parse_spec(json.dumps(imported.spec)), table, "", None, max_bytes=max_bytes)


def _draft_spec(table: Path, max_bytes: int) -> str:
    """Return a draft of the table's spec as JSON, and print the guesses."""
    columns, rows = read_table_head(table, "", max_bytes=max_bytes, run_in=run_in_process)
    spec, guesses = make_spec_draft(columns, rows)
    unused = [name for name in columns if name not in _list_columns(spec)]
    for guess in guesses:
        terminal.get_console(stderr=True).print(f"guessed: {guess}", soft_wrap=True)
    if unused:
        message = (
            f"columns not used: {', '.join(unused)}; to use them, run `parsimony dataset draft {table} -o SPEC.json`"
        )
        terminal.get_console(stderr=True).print(message, soft_wrap=True)
    return json.dumps(spec)


def _list_columns(value: Any) -> set[str]:
    """Return all texts of a spec, including the names of columns."""
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
    with terminal.progress_bar(f"trying {request.dataset}") as progress, joblib_backend(None):
        advised = advise(dataset, request, request.seed, request.time_limit_s, BuildContext(progress))
    return Advice(**advised, dataset=request.dataset, dataset_sha256="", warnings=warnings)
