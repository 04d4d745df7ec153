"""``parsimony dataset``: uploads, lists, and deletes datasets."""

import json
from pathlib import Path
from typing import Annotated

import typer

from app import terminal
from app.cli.builds import follow_build
from app.cli.commands import command_group
from app.cli.interruption import explain_interruption
from app.cli.options import AsJson, NameArgument
from app.cli.service import open_service
from app.settings import Settings
from models.dataset_source import DatasetSource
from models.spec_draft import make_spec_draft
from models.stored_dataset import DatasetInfo
from parsimony.resumable_upload import UploadProgress
from solvers.kind import make_query

_MEBIBYTE = 2**20

dataset = command_group("Datasets: what builds learn from.")


@dataset.command("add")
def dataset_add(
    name: NameArgument,
    table: Annotated[
        str,
        typer.Argument(
            help="Table: CSV or JSON Lines (also gzipped), or Parquet; or the URL of Parquet files that stay where "
            "they are: file:///data/calls, s3://logs/*.parquet."
        ),
    ],
    spec: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="JSON file that describes the columns (the spec).")
    ],
    embeddings: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Embeddings of the rows: .npy, float32.")
    ] = None,
    sample_rows: Annotated[
        int | None,
        typer.Option(help="With a URL or a large table: number of rows to sample for builds; default: 100000."),
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Id of an interrupted upload of the same table, to continue it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Validate a table and store it as a dataset.

    A table that exceeds PARSIMONY_MAX_BODY_BYTES is uploaded in parts, and a sample of its rows is stored.
    """
    if "://" in table:
        _add_source(name, table, sample_rows, spec, as_json)
        return
    if not Path(table).is_file():
        raise typer.BadParameter(f"file {table!r} not found", param_hint="TABLE")
    if resume is not None or Path(table).stat().st_size > Settings().max_body_bytes:
        if embeddings is not None:
            raise typer.BadParameter("is not supported for tables of this size", param_hint="--embeddings")
        _add_upload(name, Path(table), sample_rows, spec, resume, as_json)
        return
    with open_service() as service:
        stored = service.put_dataset(name, Path(table), spec, embeddings)
    if stored.replaced is not None and stored.replaced.sha256 != stored.sha256:
        message = f"it took the place of a dataset of {stored.replaced.rows} rows, which is gone"
        terminal.get_console(stderr=True).print(message, soft_wrap=True)
    terminal.print_dataset(
        DatasetInfo(**{field: getattr(stored, field) for field in DatasetInfo.model_fields}), as_json
    )


def _add_source(name: str, url: str, sample_rows: int | None, spec: Path, as_json: bool) -> None:
    """Queue the build that checks a source, follow it, and print the dataset."""
    source = make_query(DatasetSource, url=url, sample_rows=sample_rows)
    with open_service() as service:
        follow_build(service, service.put_source(name, source, spec))
        terminal.print_dataset(service.get_dataset(name), as_json)


def _add_upload(
    name: str, table: Path, sample_rows: int | None, spec: Path, upload_id: str | None, as_json: bool
) -> None:
    """Upload a table in parts, follow the build that checks it, and print the dataset."""
    with open_service() as service, explain_interruption() as interruption:
        with terminal.progress_bar(f"upload {table.name}") as report:

            def report_upload(done: UploadProgress) -> None:
                if not interruption.hint:
                    interruption.hint = f"the upload is kept for a day; continue with --resume {done.upload_id}"
                    terminal.get_console(stderr=True).print(f"upload {done.upload_id}", soft_wrap=True)
                report(done.sent_bytes // _MEBIBYTE, done.total_bytes // _MEBIBYTE, "MiB")

            upload_id = service.upload_file(table, upload_id, report_upload)
        source = make_query(DatasetSource, upload=upload_id, sample_rows=sample_rows)
        follow_build(service, service.put_source(name, source, spec))
        terminal.print_dataset(service.get_dataset(name), as_json)


@dataset.command("draft")
def dataset_draft(
    table: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Table: CSV or JSON Lines (also gzipped), or Parquet.")
    ],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="JSON file to write the spec to.")] = None,
) -> None:
    """Draft a spec from a table's columns. Check costs and unit before you add the table."""
    from app.store.table_heads import read_table_head
    from solvers.base import run_in_process

    columns, rows = read_table_head(table, "", max_bytes=Settings().max_body_bytes, run_in=run_in_process)
    spec, guesses = make_spec_draft(columns, rows)
    if output is None:
        terminal.print_json(spec)
    else:
        output.write_text(json.dumps(spec, indent=1, ensure_ascii=False))
        terminal.get_console().print(f"wrote {output}: a {spec['kind']} of {len(columns)} columns", soft_wrap=True)
    for guess in guesses:
        terminal.get_console(stderr=True).print(f"guessed: {guess}", soft_wrap=True)


@dataset.command("list")
def dataset_list(as_json: AsJson = False) -> None:
    """List the datasets."""
    with open_service() as service:
        infos = service.list_datasets()
    if as_json:
        terminal.print_json({"items": [info.model_dump(mode="json") for info in infos]})
        return
    terminal.explain_empty_list(infos)
    rows = [
        (info.name, info.spec.kind, info.rows, len(info.columns), len(info.classes), info.spec.unit) for info in infos
    ]
    terminal.print_table("datasets", ["name", "kind", "rows", "columns", "classes", "unit"], rows)


@dataset.command("show")
def dataset_show(name: NameArgument, as_json: AsJson = False) -> None:
    """Show a dataset."""
    with open_service() as service:
        terminal.print_dataset(service.get_dataset(name), as_json)


@dataset.command("delete")
def dataset_delete(name: NameArgument, as_json: AsJson = False) -> None:
    """Delete a dataset that no queued or running build uses."""
    with open_service() as service:
        deleted = service.delete_dataset(name)
    if as_json:
        terminal.print_json(deleted.model_dump(mode="json"))
        return
    terminal.get_console().print(f"deleted dataset {name}")
    if deleted.artifacts:
        built = ", ".join(f"{ref.kind} {ref.name}" for ref in deleted.artifacts)
        terminal.get_console(stderr=True).print(
            f"{built}: built from it, answers on, cannot be built again", soft_wrap=True
        )
