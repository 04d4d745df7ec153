"""``parsimony dataset``: what builds learn from."""

from pathlib import Path
from typing import Annotated

import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.options import AsJson, NameArgument, open_store
from app.clock import now
from app.settings import Settings
from app.store.uploads import parse_spec, read_dataset

dataset = command_group("Datasets: what builds learn from.")


@dataset.command("add")
def dataset_add(
    name: NameArgument,
    table: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="CSV, gzipped CSV or Parquet.")],
    spec: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="How to read the table, a JSON file.")],
    embeddings: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="A .npy file, float32.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check a table and store it as a dataset."""
    settings = Settings()
    vectors = None if embeddings is None else embeddings.read_bytes()
    checked = read_dataset(parse_spec(spec.read_bytes()), table, "", vectors, max_bytes=settings.max_body_bytes)
    with open_store() as repos:
        info, replaced = repos.datasets.put(name, checked, created_at=now())
    if replaced is not None and replaced.sha256 != info.sha256:
        said = f"it took the place of a dataset of {replaced.rows} rows, which is gone"
        terminal.console(stderr=True).print(said, soft_wrap=True)
    terminal.dataset(info, as_json)


@dataset.command("list")
def dataset_list(as_json: AsJson = False) -> None:
    """List the datasets."""
    with open_store() as repos:
        infos = repos.datasets.infos()
    if as_json:
        terminal.print_json({"items": [info.model_dump(mode="json") for info in infos]})
        return
    terminal.say_if_empty(infos)
    rows = [
        (info.name, info.spec.kind, info.rows, len(info.columns), len(info.classes), info.spec.unit) for info in infos
    ]
    terminal.print_table("datasets", ["name", "kind", "rows", "columns", "classes", "unit"], rows)


@dataset.command("show")
def dataset_show(name: NameArgument, as_json: AsJson = False) -> None:
    """Show a dataset."""
    with open_store() as repos:
        terminal.dataset(repos.datasets.info(name), as_json)


@dataset.command("delete")
def dataset_delete(name: NameArgument, as_json: AsJson = False) -> None:
    """Delete a dataset that no build needs."""
    with open_store() as repos:
        repos.datasets.delete(name)
    if as_json:
        terminal.print_json({"deleted": name})
    else:
        terminal.console().print(f"deleted dataset {name}")
