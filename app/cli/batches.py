"""``parsimony batch``: runs files of items in the background."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.key_values import parse_json_or_text, parse_key_values
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import open_service
from models.batch import Batch

batch = command_group("Batches: files of items, run behind the service.")
BatchArgument = Annotated[str, typer.Argument(help="Id of the batch.")]


@batch.command("add")
def batch_add(
    kind: KindArgument,
    name: NameArgument,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Items: JSON Lines or Parquet.")],
    limits: Annotated[
        list[str] | None, typer.Argument(help="Limits as key=value: deadline=25, budget=4, max_concurrency=8.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Queue a file of items; a worker runs them."""
    find_kind(kind)
    given = {key: parse_json_or_text(text) for key, text in parse_key_values(limits or ()).items()}
    which = {} if version is None else {"version": version}
    with open_service() as service:
        _print(service.add_batch({"kind": kind, "name": name, **given, **which}, file), as_json)


@batch.command("list")
def batch_list(
    most: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of batches.")] = 20, as_json: AsJson = False
) -> None:
    """List the latest batches."""
    with open_service() as service:
        latest = service.list_batches(most)
    if as_json:
        terminal.print_json({"items": [one.model_dump(mode="json") for one in latest]})
        return
    terminal.explain_empty_list(latest)
    rows = [(one.id, one.artifact.kind, one.artifact.name, one.status, _progress(one)) for one in latest]
    terminal.print_table("batches", ["id", "kind", "name", "status", "run"], rows, whole=("id", "run"))


@batch.command("show")
def batch_show(batch_id: BatchArgument, as_json: AsJson = False) -> None:
    """Show a batch: progress, cost, and result."""
    with open_service() as service:
        _print(service.get_batch(batch_id), as_json)


@batch.command("cancel")
def batch_cancel(batch_id: BatchArgument, as_json: AsJson = False) -> None:
    """Cancel a batch; its answers are kept."""
    with open_service() as service:
        _print(service.cancel_batch(batch_id), as_json)


@batch.command("output")
def batch_output(
    batch_id: BatchArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write: Parquet if it ends in .parquet, JSON Lines otherwise."),
    ] = None,
) -> None:
    """Write the answers of a batch in the order of its items, as JSON Lines or Parquet."""
    as_parquet = output is not None and output.suffix.lower() == ".parquet"
    with open_service() as service:
        answers = service.batch_output(batch_id, as_parquet=as_parquet)
    if output is None:
        sys.stdout.write(answers.decode())
        return
    output.write_bytes(answers)
    many = f"{len(answers)} bytes" if as_parquet else f"{len(answers.splitlines())} lines"
    terminal.get_console().print(f"wrote {output}: {many}", soft_wrap=True)


def _print(made: Batch, as_json: bool) -> None:
    facts: dict[str, Any] = made.model_dump(mode="json")
    if as_json:
        terminal.print_json(facts)
        return
    spent, limits = facts.pop("spent"), facts.pop("limits")
    facts["artifact"] = made.artifact.full_name
    facts |= {name: value for name, value in limits.items() if value is not None}
    facts["spent"] = f"{spent['cost']:.4g} {spent['unit']}"
    terminal.print_facts(f"batch {made.id}", {name: value for name, value in facts.items() if value is not None})


def _progress(made: Batch) -> str:
    return f"{made.done + made.failed}/{made.total}"
