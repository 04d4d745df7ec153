"""``parsimony export`` and ``import``: artifacts as files."""

from pathlib import Path
from typing import Annotated

import typer

from app import terminal
from app.cli.options import AsJson, KindArgument, NameArgument
from app.cli.service import open_service


def export(
    kind: KindArgument,
    name: NameArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")],
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export an artifact to a file, with its checksum."""
    with open_service() as service:
        record = service.get_artifact(kind, name, version)
        output.write_bytes(service.export(record))
    if as_json:
        terminal.print_json(record.model_dump(mode="json"))
    else:
        terminal.get_console().print(f"wrote {output}: {kind} {name} version {record.version}, SHA-256 {record.sha256}")


def import_(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File written by `parsimony export`.")],
    as_json: AsJson = False,
) -> None:
    """Import an exported artifact as the next version of its name."""
    with open_service() as service:
        record = service.import_(file.read_bytes())
    terminal.print_artifact(record, as_json)
