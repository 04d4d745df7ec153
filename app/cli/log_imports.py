"""``parsimony import-logs``: turn logs of model calls into a trace, and store it."""

from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import typer
from pydantic import TypeAdapter, ValidationError

from app import terminal
from app.cli.options import AsJson
from app.cli.text_embeddings import embed_texts, find_embedder
from app.cli.trace_files import store_trace, write_embeddings, write_trace
from app.importing.embedding_cache import EmbeddingCache
from app.importing.log_files import read_records
from app.importing.log_import import ImportedTrace, choose_pointers, import_calls, parse_pointers, summarize_models
from app.importing.logged_calls import ImportReport, read_feedback
from app.importing.pivot import PROMPT
from models.conversation import ConversationWindow, split_prompts
from models.errors import InvalidRequest
from models.log_import import ImportOptions
from models.prices import Prices
from models.word_embedding import WORDS
from solvers.kind import make_query

_FILES = typer.Argument(exists=True, dir_okay=False, help="Logs: JSON Lines, CSV, or Parquet, also gzipped.")


def import_logs(
    files: Annotated[list[Path], _FILES],
    name: Annotated[str | None, typer.Option(help="Dataset to store the trace as; default: only files.")] = None,
    log_format: Annotated[
        Literal["auto", "litellm", "openai", "langfuse", "otel", "table"],
        typer.Option("--format", help="Format of the logs; table: one row per call."),
    ] = "auto",
    pointer: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=/JSON/POINTER of another format: classifier, text, request, outcome, cost, …"),
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="File of outcomes: request_id, and correct or quality."),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="JSON of prices by model, as in endpoints, for logs without."),
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit of the costs.")] = "USD",
    embedder: Annotated[
        str | None, typer.Option(help="Registered embedder of the prompts; default: the built-in one.")
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option(help='How chats are embedded, as JSON: {"window_tokens": 2000}; default: by the last message.'),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Parquet file to write the trace to; its spec is written to the same folder."
        ),
    ] = Path("trace.parquet"),
    as_json: AsJson = False,
) -> None:
    """Turn logs of model calls into a trace: one row per prompt, empty cells for models that were not called."""
    embedder = None if embedder == WORDS else embedder
    window = None if conversation is None else parse_window(conversation)
    key = None if embedder is None else find_embedder(embedder)  # before files are written
    known, own = None if log_format == "auto" else log_format, parse_pointers(dict(map(_split_pointer, pointer or [])))
    pointers = {path: choose_pointers(path, known, own) for path in files}
    outcomes = {} if feedback is None else read_feedback(read_records(feedback))
    options = make_query(ImportOptions, unit=unit, embedder=embedder, conversation=window)
    imported = import_calls(pointers, options, {} if prices is None else parse_prices(prices), outcomes)
    write_trace(imported.table, imported.spec, output)
    if embedder is not None and key is not None:
        parts = split_prompts(imported.table[PROMPT].to_pylist(), window)
        vectors = embed_texts(embedder, key, parts.texts, EmbeddingCache(output.with_suffix(".sqlite")))
        write_embeddings(parts.average_vectors(vectors), output)
    if as_json:
        terminal.print_json(_summarize(imported))
    else:
        print_import(imported)
        if feedback is not None:
            matched = f"feedback for {imported.report.matched:,} of {imported.report.records:,} records"
            terminal.get_console(stderr=True).print(matched, soft_wrap=True)
    store_trace(output, name, to_stderr=as_json, has_embeddings=embedder is not None)


def _split_pointer(text: str) -> tuple[str, str]:
    name, _, pointer = text.partition("=")
    return name, pointer


def parse_window(text: str) -> ConversationWindow:
    """Parse the conversation window from JSON; raises InvalidRequest."""
    try:
        return ConversationWindow.model_validate_json(text)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, "conversation") from error


def parse_prices(path: Path) -> dict[str, Prices]:
    """Return the prices in a file, by model; raises InvalidRequest."""
    try:
        return TypeAdapter(dict[str, Prices]).validate_json(path.read_bytes())
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, path.name) from error


def _summarize(imported: ImportedTrace) -> dict[str, Any]:
    return {
        "records": imported.report.records,
        "calls": imported.report.calls,
        "rows": imported.table.num_rows,
        "unused": dict(imported.report.unused),
        "shortened_calls": imported.report.shortened_calls,
        "models": [one.model_dump() for one in summarize_models(imported)],
    }


def print_import(imported: ImportedTrace) -> None:
    """Print the numbers of used calls by model, and of unused calls by reason."""
    report, rows = imported.report, imported.table.num_rows
    lines = [
        (one.name, f"{one.calls:,}", f"{one.calls / rows:.0%}", f"{one.mean_outcome:.1%}", f"{one.mean_cost:.4g}")
        for one in summarize_models(imported)
    ]
    outcome, cost = (fmean(getattr(call, name) or 0.0 for call in imported.calls) for name in ("outcome", "cost"))
    lines.append(("all calls", f"{report.calls:,}", "", f"{outcome:.1%}", f"{cost:.4g}"))
    title = f"{report.calls:,} of {report.records:,} records used: {rows:,} rows"
    terminal.print_table(title, ["model", "calls", "of rows", "mean outcome", "mean cost"], lines)
    print_unused(report)


def print_unused(report: ImportReport) -> None:
    """Print to stderr the number of unused records by reason, and of shortened calls."""
    for reason, count in report.unused.most_common():
        terminal.get_console(stderr=True).print(f"{count:,} records not used: {reason}", soft_wrap=True)
    if report.shortened_calls:
        which = f"{report.shortened_calls:,} calls are embedded by their last user message only"
        message = f"{which}; to include earlier turns, set --conversation"
        terminal.get_console(stderr=True).print(message, soft_wrap=True)
