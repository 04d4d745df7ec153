"""``parsimony evaluate`` and ``curve``: complete items through an artifact, and what it reaches at which cost."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app import terminal
from app.cli.options import AsJson, KindArgument, NameArgument, kind_named
from app.cli.service import open_service
from app.store.table_types import JSON, NDJSON, NPY, PARQUET
from models import Fault, InvalidRequest

FORMS = {".parquet": PARQUET, ".npy": NPY, ".json": JSON, ".jsonl": NDJSON}
"""What results are written as, by a file's suffix."""
Limits = Annotated[list[str] | None, typer.Argument(help="The limits, as key=value, for example budget=5.")]


def evaluate(
    kind: KindArgument,
    name: NameArgument,
    items: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A row per item: .csv, .parquet, or .npy; or .json.")
    ],
    limits: Limits = None,
    truth: Annotated[str, typer.Option(help="The column of right labels.")] = "truth",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="What became of each: .parquet, .npy, .json, or .jsonl.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Send complete items through an artifact: accuracy, cost, and coverage, with 95 % intervals."""
    artifact_kind = kind_named(kind)
    media_type, body = _read(items, truth)
    wanted = JSON if output is None else _form_of(output)
    with open_service() as service:
        reply = service.evaluate(artifact_kind.plural, name, body, media_type, wanted, limits or [], truth, version)
        if output is not None:
            output.write_bytes(reply)
            terminal.get_console().print(f"wrote {output}: {kind} {name}, the items of {items}")
            return
        found = orjson.loads(reply)
    if as_json:
        terminal.print_json(found)
    else:
        terminal.print_facts(f"{kind} {name}, {found['summary']['items']} items, in {found['unit']}", found["summary"])


def curve(
    kind: KindArgument,
    name: NameArgument,
    limits: Annotated[
        list[str] | None, typer.Argument(help="What it depends on, as key=value: size=64 of an index, deadline=5.")
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The version; else the active one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show accuracy against cost: the operating points with 95 % intervals, and the baselines."""
    artifact_kind = kind_named(kind)
    with open_service() as service:
        found = service.curve(artifact_kind.plural, name, limits or [], version)
    if as_json:
        terminal.print_json(found)
        return
    columns = ["limits", "accuracy", "from", "to", f"cost, {found['unit']}"]
    rows = [_row(terminal.format_value(point["limits"]), point["expected"]) for point in found["points"]]
    terminal.print_table(f"{kind} {name}, on {found['rows']} rows", columns, rows)
    others = [_row(one["name"], point) for one in found["baselines"] for point in one["points"]]
    terminal.print_table("baselines", ["baseline", *columns[1:]], others)


def _row(what: str, figures: dict[str, Any]) -> tuple[Any, ...]:
    low, high = figures.get("accuracy_interval") or (None, None)
    return what, figures.get("accuracy"), low, high, figures.get("cost", figures.get("time"))


def _read(path: Path, truth: str) -> tuple[str, bytes]:
    """Read items; CSV becomes Parquet here, labels and ids as they are written."""
    suffix = path.suffix.lower()
    if suffix == ".csv":
        import pyarrow as pa  # takes long to import
        import pyarrow.csv
        import pyarrow.parquet

        try:
            with path.open(encoding="utf-8") as file:
                names = next(csv.reader(file), [])
            texts = {name: pa.string() for name in names if name in (truth, "id") or name.endswith(".label")}
            table = pa.csv.read_csv(path, convert_options=pa.csv.ConvertOptions(column_types=texts))
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InvalidRequest.from_faults(Fault(("items",), f"cannot be read as CSV: {error}")) from error
        pa.parquet.write_table(table, out := io.BytesIO())
        return PARQUET, out.getvalue()
    if suffix not in FORMS or suffix == ".jsonl":
        raise InvalidRequest.from_faults(
            Fault(("items",), f"is {path.name!r}, must end in .csv, .parquet, .npy, or .json")
        )
    return FORMS[suffix], path.read_bytes()


def _form_of(path: Path) -> str:
    if path.suffix.lower() not in FORMS:
        raise InvalidRequest.from_faults(Fault(("output",), f"is {path.name!r}, must end in {', '.join(FORMS)}"))
    return FORMS[path.suffix.lower()]
