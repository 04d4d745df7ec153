"""``parsimony recordings``: sets, lists, and deletes recordings, and makes datasets from them."""

from typing import Annotated, Any

import typer

from app import terminal
from app.cli.commands import command_group
from app.cli.key_values import parse_json_or_text, parse_key_values
from app.cli.options import AsJson
from app.cli.service import open_service
from models.errors import InvalidRequest

recordings = command_group("Recordings: logs of runs, from which datasets are made.")
NameArgument = Annotated[str, typer.Argument(help="Name of the recording.")]


@recordings.command("add")
def recordings_add(
    name: NameArgument,
    artifact: Annotated[
        str, typer.Argument(help="Artifact whose runs are recorded: KIND/NAME; or unit=UNIT for rows that you post.")
    ],
    fields: Annotated[
        list[str] | None,
        typer.Argument(help="Further fields as key=value: explore=0.05 explore_budget=20 keeps_items=true."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Record the runs of an artifact; it replaces a recording of the same name, and keeps its rows."""
    given = {key: parse_json_or_text(text) for key, text in parse_key_values(fields or []).items()}
    with open_service() as service:
        kept = service.put_recording(name, {**_read_target(artifact), **given})
    if as_json:
        terminal.print_json(kept)
        return
    terminal.get_console().print(f"recording {name} of {artifact}", soft_wrap=True)


def _read_target(text: str) -> dict[str, Any]:
    """Return the artifact of ``KIND/NAME``, or the unit of ``unit=UNIT``; raises InvalidRequest."""
    if text.startswith("unit="):
        return {"unit": text.removeprefix("unit=")}
    kind, slash, name = text.partition("/")
    if not slash:
        raise InvalidRequest(f"artifact must be KIND/NAME, or unit=UNIT for rows that you post, got {text!r}")
    return {"artifact": {"kind": kind, "name": name}}


@recordings.command("list")
def recordings_list(as_json: AsJson = False) -> None:
    """List the recordings."""
    with open_service() as service:
        items = service.list_recordings()
    if as_json:
        terminal.print_json({"items": items})
        return
    terminal.explain_empty_list(items)
    columns = ["name", "artifact", "sample", "explore", "explored today", "bytes"]
    terminal.print_table("recordings", columns, list(map(_row_of, items)))


def _row_of(item: dict[str, Any]) -> tuple[Any, ...]:
    spec, budget = item["recording"], item["recording"]["explore_budget"]
    bound = "" if budget is None else f" of {budget:.6g}"
    return (
        item["name"],
        f"{spec['artifact']['kind']}/{spec['artifact']['name']}" if spec["artifact"] else "posted rows",
        f"{spec['sample']:.3g}",
        f"{spec['explore']:.3g}",
        f"{item['explored_cost']:.6g}{bound} {item['unit']}",
        f"{item['bytes']:,}",
    )


@recordings.command("delete")
def recordings_delete(name: NameArgument) -> None:
    """Delete a recording and its rows."""
    with open_service() as service:
        service.delete_recording(name)
    terminal.get_console().print(f"deleted recording {name}")


@recordings.command("dataset")
def recordings_dataset(
    name: NameArgument,
    dataset: Annotated[str, typer.Argument(help="Name of the dataset, which replaces one of the same name.")],
    since: Annotated[str | None, typer.Option(help="Start, as 2026-11-01T00:00:00Z; default: the oldest row.")] = None,
    until: Annotated[str | None, typer.Option(help="End, exclusive; default: now.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a dataset of the rows in a range of time."""
    with open_service() as service:
        frozen = service.freeze_recording(name, {"dataset": dataset, "since": since, "until": until})
    if as_json:
        terminal.print_json(frozen)
        return
    terminal.print_warnings(frozen["warnings"])
    for reason, count in frozen["unused"].items():
        terminal.get_console(stderr=True).print(f"{count:,} {reason}", soft_wrap=True)
    used = f"{frozen['rows']:,} of {frozen['recorded_rows']:,} rows"
    terminal.get_console().print(f"stored dataset {dataset}: {used}", soft_wrap=True)
