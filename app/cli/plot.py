"""``parsimony plot``: draws charts of artifacts."""

import os
from pathlib import Path
from typing import Annotated

import typer

from app import terminal
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import open_service
from app.serving.catalog import LoadedArtifact
from app.settings import Settings
from app.store import codec
from models import Fault, InvalidRequest
from solvers import KINDS

NO_FONT = "No font here has some of the letters in it: they are drawn as boxes (see the chapter on the console)."


def plot(
    kind: KindArgument,
    name: NameArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Picture to write: .png or .svg.")],
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw an artifact's accuracy against cost, as the console does."""
    os.environ.setdefault("MPLCONFIGDIR", str(Settings().data_dir / "matplotlib"))  # its fonts' cache stays with us
    from app.charts import SUFFIXES, draw, save

    if output.suffix.lower() not in SUFFIXES:
        raise InvalidRequest.from_faults(
            Fault(("output",), f"must end in {' or '.join(SUFFIXES)}, got {output.name!r}")
        )
    with open_service() as service:
        record = service.get_artifact(find_kind(kind).name, name, version)
        data = service.export(record)
    loaded = LoadedArtifact.from_record(record, codec.decode(data, KINDS[kind].plan))
    legible = save(lambda: draw(loaded), output)
    if as_json:
        terminal.print_json({"file": str(output), "bytes": output.stat().st_size, "artifact": loaded.ref.model_dump()})
    else:
        terminal.get_console().print(f"wrote {output}: {kind} {name} version {loaded.ref.version}")
        if not legible:
            terminal.get_console().print(NO_FONT, soft_wrap=True)
