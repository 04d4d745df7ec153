"""``parsimony evaluate`` and ``curve``: accuracy and cost of an artifact."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app import terminal
from app.cli.options import AsJson, KindArgument, NameArgument, find_kind
from app.cli.service import open_service
from app.store.table_types import JSON, NDJSON, NPY, PARQUET
from models import Fault, InvalidRequest

FORMS = {".parquet": PARQUET, ".npy": NPY, ".json": JSON, ".jsonl": NDJSON}
"""What results are written as, by a file's suffix."""
Limits = Annotated[list[str] | None, typer.Argument(help="Limits as key=value, for example budget=5.")]


def evaluate(
    kind: KindArgument,
    name: NameArgument,
    items: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="Items: .csv, .parquet, or .npy with a row per item, or .json."
        ),
    ],
    limits: Limits = None,
    truth: Annotated[str, typer.Option(help="Column of true labels.")] = "truth",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write the results of each item to: .parquet, .npy, .json, or .jsonl."
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate an artifact on complete items: accuracy, cost, and coverage with 95 % intervals."""
    artifact_kind = find_kind(kind)
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
        list[str] | None, typer.Argument(help="Conditions as key=value: size=64 for an index, deadline=5.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="Version of the artifact; default: the active one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show accuracy against cost: operating points with 95 % intervals, and baselines."""
    artifact_kind = find_kind(kind)
    with open_service() as service:
        found = service.curve(artifact_kind.plural, name, limits or [], version)
    if as_json:
        terminal.print_json(found)
        return
    has_losses = any("loss" in point["expected"] for point in found["points"])
    quality = f"loss, {found['unit']}" if has_losses else "accuracy"
    columns = ["limits", quality, "from", "to", f"cost, {found['unit']}"]
    rows = [_row(terminal.format_value(point["limits"]), point["expected"]) for point in found["points"]]
    terminal.print_table(f"{kind} {name}, on {found['rows']} rows", columns, rows)
    others = [_row(one["name"], point) for one in found["baselines"] for point in one["points"]]
    terminal.print_table("baselines", ["baseline", *columns[1:]], others)


def _row(what: str, figures: dict[str, Any]) -> tuple[Any, ...]:
    quality = "accuracy" if figures.get("loss") is None else "loss"
    low, high = figures.get(f"{quality}_interval") or (None, None)
    return what, figures.get(quality), low, high, figures.get("cost", figures.get("time"))


def _read(path: Path, truth: str) -> tuple[str, bytes]:
    """Read items; CSV is converted to Parquet, with labels and ids as text."""
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
            raise InvalidRequest.from_faults(Fault(("items",), f"must be readable CSV: {error}")) from error
        pa.parquet.write_table(table, out := io.BytesIO())
        return PARQUET, out.getvalue()
    if suffix not in FORMS or suffix == ".jsonl":
        raise InvalidRequest.from_faults(
            Fault(("items",), f"must end in .csv, .parquet, .npy, or .json, got {path.name!r}")
        )
    return FORMS[suffix], path.read_bytes()


def _form_of(path: Path) -> str:
    if path.suffix.lower() not in FORMS:
        raise InvalidRequest.from_faults(Fault(("output",), f"must end in {', '.join(FORMS)}, got {path.name!r}"))
    return FORMS[path.suffix.lower()]
